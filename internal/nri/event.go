package nri

import "github.com/berth-project/berth/internal/cpuset"

// Kind says what an Event reports.
type Kind uint8

// The kinds of events. A reply counts for Synchronize, Create, Update and
// Stop, and an error for Synchronize (the connection is made anew), Create,
// Start and Update; other replies are ignored, and other errors logged.
const (
	// Synchronize brings all pods and containers that the runtime knows, at the
	// beginning of every connection; it replaces all that was reported before.
	// Containers that have ended are not among them.
	Synchronize Kind = iota + 1
	// RunPod says that a pod's sandbox was made and runs.
	RunPod
	// StopPod says that a pod's sandbox was stopped.
	StopPod
	// RemovePod says that a pod's sandbox was removed.
	RemovePod
	// Create asks what to change in a container that is about to be made; it
	// has an ID already and no group yet. An error refuses the container, and
	// the kubelet tries again later, with another ID. Stop and Remove follow
	// when the creation fails for another reason.
	Create
	// PostCreate says that a container was made, with the resources that all
	// plugins together gave it. Its group does not exist yet with containerd.
	PostCreate
	// Start says that a container is about to run its first instruction: its
	// group and the process that will run in it exist. An error keeps it from
	// running, and the kubelet makes another one later.
	Start
	// PostStart says that a container runs.
	PostStart
	// Update asks what to change in an update of a container's resources that
	// a client asked for over CRI, such as the kubelet for a resize. An Update
	// in the reply for the container itself is merged over what was asked.
	Update
	// PostUpdate says that a container was updated.
	PostUpdate
	// Stop says that a container has ended or is being stopped; with CRI-O its
	// processes may still run.
	Stop
	// Remove says that a container was removed.
	Remove
	// Foreign says that another plugin gives a container a set of CPUs or memory
	// nodes: Requested is what it gives, and Owner names the plugin. Only a runtime
	// with NRI 0.10 or later reports. With any, the Container of a Create shows what
	// plugins set that were asked before, and that of a PostCreate what all set.
	Foreign
	// Dropped says that the last reply for the container (for Synchronize: to
	// anything) came too late and was not carried out; Lost is its kind.
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

// wantsReply says whether the runtime does something with the reply.
func (k Kind) wantsReply() bool {
	return k == Synchronize || k == Create || k == Update || k == Stop
}

// mayRefuse says whether an error goes to the runtime.
func (k Kind) mayRefuse() bool {
	return k == Synchronize || k == Create || k == Start || k == Update
}

// Event is one thing that happened, or is about to.
type Event struct {
	Kind Kind
	// Pod and Container are what it happened to; Container is empty for events
	// of a pod, both are for Synchronize.
	Pod       Pod
	Container Container
	// Requested is what an Update asks for, and what a Foreign event is about.
	Requested Resources
	// Owner is the plugin that a Foreign event is about, as "index-name".
	Owner string
	// Lost is the kind of the reply that a Dropped event is about.
	Lost Kind
	// Pods and Containers are the state of the node, in Synchronize only.
	Pods       []Pod
	Containers []Container
}

// Pod is a pod's sandbox.
type Pod struct {
	// ID is the sandbox's; a pod whose sandbox is made again gets another one.
	ID, Namespace, Name, UID string
	// RuntimeHandler is the handler of the pod's runtime class; "" is the
	// runtime's default.
	RuntimeHandler string
	// CgroupParent is the pod's group relative to each hierarchy's root, and
	// CgroupPath that of the sandbox's own (pause) container; "" is not known.
	CgroupParent, CgroupPath string
	// PID is the first process of the sandbox, 0 when not known.
	PID int
	// Labels and Annotations are those of the pod, and what the runtime adds.
	// They are shared: not to be changed.
	Labels, Annotations map[string]string
}

// State is the state of a container.
type State uint8

// The states of a container. Unknown includes what an event of kind Create is
// about.
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

// Container is a container as the runtime's own record has it. What was
// written to its group without the runtime is not in it.
type Container struct {
	ID, PodID, Name string
	State           State
	// CgroupPath is the container's group relative to each hierarchy's root;
	// "" when it is not known.
	CgroupPath string
	// PID is the first process, 0 when there is none.
	PID int
	// Resources are what the runtime gives, or gave, to the container. Unrecorded says that
	// they are not known, as where the container is of a list over CRI.
	Resources  Resources
	Unrecorded bool
	// Labels and Annotations are those of the container, and what the runtime
	// adds. They are shared: not to be changed.
	Labels, Annotations map[string]string
}

// Resources are the CPU resources of a container as the runtime has them.
type Resources struct {
	// CPUs and Mems are empty when the runtime sets none.
	CPUs, Mems cpuset.Set
	// Quota and Period are microseconds: Quota -1 is no limit, and 0 of either
	// is not set. Shares are those of cgroup v1 (1024 a CPU), 0 is not set.
	Quota, Period, Shares int64
}
