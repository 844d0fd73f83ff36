package nri

import "github.com/berth-project/berth/internal/value/cpuset"

// Kind is the kind of an Event.
type Kind uint8

// The kinds of events. A reply takes effect for Synchronize, Create, Update and Stop. An error takes effect for
// Synchronize (the Plugin connects again), Create, Start and Update. Other replies are ignored, and other errors
// logged.
const (
	// Synchronize brings all pods and containers that the runtime knows, at the beginning of every connection. It
	// replaces all earlier reports. It does not contain containers that have ended.
	Synchronize Kind = iota + 1
	// RunPod reports that a pod's sandbox was created and runs.
	RunPod
	// StopPod reports that a pod's sandbox was stopped.
	StopPod
	// RemovePod reports that a pod's sandbox was removed.
	RemovePod
	// Create asks what to change in a container before its creation. The container has an ID but no group yet. An error
	// refuses the container, and the kubelet tries again later, with another ID. Stop and Remove follow when the
	// creation fails for another reason.
	Create
	// PostCreate reports that a container was created, with the resources that all plugins together gave it. Its group
	// does not exist yet with containerd.
	PostCreate
	// Start reports that a container is about to run its first instruction: its group and the process that will run in
	// it exist. An error stops it from running, and the kubelet creates another container later.
	Start
	// PostStart reports that a container runs.
	PostStart
	// Update asks what to change in an update of a container's resources. A client requested the update over CRI, for
	// example the kubelet for a resize. An Update for the container itself in the reply is merged over the request.
	Update
	// PostUpdate reports that a container was updated.
	PostUpdate
	// Stop reports that a container has ended or is being stopped; with CRI-O its processes may still run.
	Stop
	// Remove reports that a container was removed.
	Remove
	// Foreign reports that another plugin gives a container CPUs or memory nodes: Requested is that set, and Owner the
	// plugin. Only a runtime with NRI 0.10 or later sends it. With any NRI, the Container of a Create shows what
	// earlier plugins set, and that of a PostCreate what all plugins set.
	Foreign
	// Dropped reports that the last reply for the container (after Synchronize: for all containers) was too late and
	// was not carried out. Lost is the kind of that reply.
	Dropped
)

// String returns the name of the kind, as in the constant.
func (k Kind) String() string {
	names := [...]string{
		Synchronize: "Synchronize", RunPod: "RunPod", StopPod: "StopPod", RemovePod: "RemovePod",
		Create: "Create", PostCreate: "PostCreate", Start: "Start", PostStart: "PostStart",
		Update: "Update", PostUpdate: "PostUpdate", Stop: "Stop", Remove: "Remove",
		Foreign: "Foreign", Dropped: "Dropped",
	}
	if int(k) >= len(names) || names[k] == "" {
		return "unknown"
	}
	return names[k]
}

// wantsReply reports whether the runtime uses the reply.
func (k Kind) wantsReply() bool {
	return k == Synchronize || k == Create || k == Update || k == Stop
}

// mayRefuse reports whether an error goes to the runtime.
func (k Kind) mayRefuse() bool {
	return k == Synchronize || k == Create || k == Start || k == Update
}

// Event is something that happened, or is about to happen.
type Event struct {
	Kind Kind
	// Pod and Container are the objects of the event. Container is empty for events of a pod, and both are empty for
	// Synchronize.
	Pod       Pod
	Container Container
	// Requested is the request of an Update, or the resources of a Foreign event.
	Requested Resources
	// Owner is the plugin of a Foreign event, as "index-name".
	Owner string
	// Lost is the kind of the reply that a Dropped event reports.
	Lost Kind
	// Pods and Containers are the state of the node, in Synchronize only.
	Pods       []Pod
	Containers []Container
}

// Pod is a pod's sandbox.
type Pod struct {
	// ID is the ID of the sandbox: a pod with a new sandbox gets another ID.
	ID, Namespace, Name, UID string
	// RuntimeHandler is the handler of the pod's runtime class; "" is the runtime's default.
	RuntimeHandler string
	// CgroupParent is the pod's group relative to each hierarchy's root, and CgroupPath is the group of the sandbox's
	// own (pause) container; "" if unknown.
	CgroupParent, CgroupPath string
	// PID is the first process of the sandbox, 0 if unknown.
	PID int
	// Labels and Annotations are those of the pod, with the runtime's additions. They are shared: do not change them.
	Labels, Annotations map[string]string
}

// State is the state of a container.
type State uint8

// The states of a container. The state of a container in a Create event is Unknown.
const (
	Unknown State = iota
	Created
	Paused
	Running
	Stopped
)

// String returns the name of the state, as in the constant.
func (s State) String() string {
	return [...]string{"Unknown", "Created", "Paused", "Running", "Stopped"}[min(s, Stopped)]
}

// Container is a container as in the runtime's own record. The record lacks changes of its group made without the
// runtime.
type Container struct {
	ID, PodID, Name string
	State           State
	// CgroupPath is the container's group relative to each hierarchy's root; "" if unknown.
	CgroupPath string
	// PID is the first process, 0 if there is none.
	PID int
	// Resources are the resources that the runtime gives, or gave, to the container. Unrecorded means that they are not
	// known, as for a container from a list over CRI.
	Resources  Resources
	Unrecorded bool
	// Labels and Annotations are those of the container, with the runtime's additions. They are shared: do not change
	// them.
	Labels, Annotations map[string]string
}

// Resources are the CPU resources of a container in the runtime's record.
type Resources struct {
	// CPUs and Mems are empty if the runtime sets none.
	CPUs, Mems cpuset.Set
	// Quota and Period are in microseconds. Quota -1 is unlimited, and 0 in either is not set. Shares are those of
	// cgroup v1 (1024 per CPU), 0 is not set.
	Quota, Period, Shares int64
}
