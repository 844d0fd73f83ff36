// Package irqbalance is the driver of the interrupts that a running irqbalance leaves alone:
//
//	irqbalance   the object is the name of its socket, the knob is banned-irqs
//
// irqbalance moves every interrupt that it is not told to leave. It takes a list over a socket in
// /run/irqbalance, which has its process id in the name, from root only, and keeps it until it
// ends: no file is edited, and nothing is started anew. A write replaces the list, so that what an
// administrator had banned over the socket is part of the value.
//
// A value is the numbers in their order, separated by spaces, or "none". irqbalance reads 500
// bytes of a request; a longer list is refused here, before anything is sent. One that was started
// anew has another socket, and no list to restore.
package irqbalance
