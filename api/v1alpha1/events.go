package v1alpha1

// Reasons of the events that people see; stable, for machines.
const (
	// EventCPUPinned: a pod's containers run on exclusive CPUs.
	EventCPUPinned = "CPUPinned"
	// EventCPUPinFailed: a pod has fewer, or other, CPUs than it should, or shares them with a
	// group that cannot leave them.
	EventCPUPinFailed = "CPUPinFailed"
	// EventPlacementRefused: a pod does not get the CPUs of its placement, or none at all.
	EventPlacementRefused = "PlacementRefused"
	// EventSharedPoolOvercommitted: containers without exclusive CPUs request more than the
	// shared pool has. It is about the node.
	EventSharedPoolOvercommitted = "SharedPoolOvercommitted"
	// EventInvalidPolicy: a key or a ConfigMap cannot be read, or changed too late.
	EventInvalidPolicy = "InvalidPolicy"
	// EventCPUBurstLimited: a workload is back at its limit, and why.
	EventCPUBurstLimited = "CPUBurstLimited"
	// EventIsolationLimited: offline work is not kept apart from online work as it was asked
	// for, or they may come to share cores, and why.
	EventIsolationLimited = "IsolationLimited"
	// EventHostDrift: another writer owns a value now, and Berth leaves it alone; or, as no warning,
	// a unit of the host profile was started anew, and has its settings again.
	EventHostDrift = "HostDrift"
	// EventFitsAfterRepack: a pod waits because of fragmentation, and would have room if pods
	// that may be moved had other CPUs. It is the scheduler's.
	EventFitsAfterRepack = "FitsAfterRepack"
)

// EventReasons are the reasons of all events of an agent, those about the memory of a pod included.
func EventReasons() []string {
	return []string{
		EventCPUPinned, EventCPUPinFailed, EventPlacementRefused, EventSharedPoolOvercommitted, EventInvalidPolicy,
		EventCPUBurstLimited, EventIsolationLimited, EventHostDrift,
		EventMemoryLocalityCompleted, EventMemoryLocalitySkipped, EventMemoryLocalityFailed,
	}
}
