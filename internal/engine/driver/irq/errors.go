package irq

import "errors"

var (
	// ErrManaged says that the kernel places the interrupt itself. Fewer queues of the device, or isolcpus=managed_irq
	// at boot, keep such an interrupt off CPUs.
	ErrManaged = errors.New("the kernel places this interrupt itself: fewer queues of the device, or isolcpus=managed_irq at boot")
	// ErrOutside says that a file is not the CPU list of an interrupt.
	ErrOutside = errors.New("no file of an interrupt's CPUs")
	// errUnseen says that interrupts cannot be seen from here.
	errUnseen = errors.New("interrupts are not visible from here")
)
