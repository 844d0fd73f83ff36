// Package irqbalance is the driver of the interrupts that a running irqbalance leaves alone:
//
//	irqbalance   the object is the name of its socket, the knob is banned-irqs.
//
// irqbalance moves every interrupt that is not on its list of banned interrupts. Only root may send it a list, over a
// socket in /run/irqbalance that has the process id in its name. irqbalance uses the list until it ends: no file is
// edited, and nothing is restarted. A write replaces the whole list, so the value includes what an administrator
// banned over the socket.
//
// A value is the numbers in ascending order, separated by spaces, or "none". irqbalance reads 500 bytes of a request;
// the driver refuses a longer list before it sends anything. An irqbalance that was restarted has another socket, and
// no list to restore.
package irqbalance
