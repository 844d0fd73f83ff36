package v1alpha1

// Reasons of the events that people see. They are stable, for programs.
const (
	// EventCPUPinned: a pod's containers run on exclusive CPUs.
	EventCPUPinned = "CPUPinned"
	// EventCPUPinFailed: a pod has fewer or other CPUs than it should, or shares them with a group that cannot leave
	// them.
	EventCPUPinFailed = "CPUPinFailed"
	// EventPlacementRefused: a pod does not get the CPUs of its placement, or gets none at all.
	EventPlacementRefused = "PlacementRefused"
	// EventSharedPoolOvercommitted: containers without exclusive CPUs request more than the shared pool has. It is
	// about the node.
	EventSharedPoolOvercommitted = "SharedPoolOvercommitted"
	// EventInvalidPolicy: a key or a ConfigMap cannot be read, or changed too late.
	EventInvalidPolicy = "InvalidPolicy"
	// EventCPUBurstLimited: a workload is back at its limit, with the reason.
	EventCPUBurstLimited = "CPUBurstLimited"
	// EventIsolationLimited: offline work is not isolated from online work as configured, or the two may come to share
	// cores, with the reason.
	EventIsolationLimited = "IsolationLimited"
	// EventHostDrift: another writer owns a value now, and Berth leaves it alone, or the committed host profile is not in
	// force. As an event that is no warning: a unit of the host profile was restarted and has its settings again, or new
	// threads of a unit have them.
	EventHostDrift = "HostDrift"
	// EventFitsAfterRepack: a pod waits because of fragmentation, and would fit if movable pods had other CPUs. The
	// scheduler emits it.
	EventFitsAfterRepack = "FitsAfterRepack"
)

// EventReasons returns the reasons of all events of an agent, including those about the memory of a pod.
func EventReasons() []string {
	return []string{
		EventCPUPinned, EventCPUPinFailed, EventPlacementRefused, EventSharedPoolOvercommitted, EventInvalidPolicy,
		EventCPUBurstLimited, EventIsolationLimited, EventHostDrift,
		EventMemoryLocalityCompleted, EventMemoryLocalitySkipped, EventMemoryLocalityFailed,
	}
}
