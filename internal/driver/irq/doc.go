// Package irq is the driver of the CPUs that serve interrupts:
//
//	irq   the object is an interrupt, the knob smp_affinity_list; or /proc/irq and
//	      default_smp_affinity, for interrupts that devices ask for later
//
// The kernel gives numbers anew when a driver is loaded or a device comes back, so the name of an
// interrupt is its number with what /sys/kernel/irq says of it: its chip, which has the device's
// address in newer kernels, and its number within the chip, which has it in older ones. When
// these are others, the number is another interrupt's, and nothing is written there; one that
// comes back under another number has the kernel's default, and nothing to restore. Its actions
// are no part of the name: they change while the interrupt stays.
//
// A value is a list of CPUs, that of default_smp_affinity a mask. What counts as written is
// what was requested; which of these CPUs the kernel chose is in effective_affinity_list.
// There are interrupts that the kernel places itself: one mode of the file, EPERM or EIO says
// so (kernel/irq/proc.c, irq_affinity_proc_write and irq_can_set_affinity_usr), and here it is
// ErrManaged. CPUs of which none is online it refuses: ErrNotInForce, until one is. A boot resets all of them.
package irq
