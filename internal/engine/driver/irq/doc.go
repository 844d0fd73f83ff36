// Package irq is the driver of the CPUs that serve interrupts:
//
//	irq   the object is an interrupt, the knob smp_affinity_list; or /proc/irq and
//	      default_smp_affinity, for interrupts that devices request later.
//
// The kernel reuses interrupt numbers when a driver is loaded or a device comes back. The name of an interrupt is
// therefore its number, its chip and its number within the chip, from /sys/kernel/irq. Newer kernels have the device's
// address in the chip, older ones in the number within the chip. If chip or inner number changed, the number belongs
// to another interrupt, and nothing is written. An interrupt that comes back under another number has the kernel's
// default, and nothing to restore. Its actions are not part of the name: they change while the interrupt stays.
//
// A value is a list of CPUs; for default_smp_affinity it is a mask. The value is the CPUs that were requested;
// effective_affinity_list has the CPUs that the kernel chose among them. The kernel places some interrupts itself and
// reports that by the mode of the file, EPERM or EIO (kernel/irq/proc.c, irq_affinity_proc_write and
// irq_can_set_affinity_usr); the error here is ErrManaged. The kernel refuses CPUs that are all offline:
// ErrNotInForce, until one of them is online. A boot resets all of these settings.
package irq
