package capability

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/plan"
)

// Info is what is known of a capability without an agent.
type Info struct {
	// Name names it for people, and its section in the JSON of a workload.
	Name string
	// Owners are the owners of its settings in the journal. Each is a value of
	// rollback --owner.
	Owners []plan.Owner
	// Owned says what each of several owners changes, as Summary does of all.
	Owned map[plan.Owner]string
	// Reverts says that its settings go back to their originals when the agent stops.
	// Those of other capabilities outlive the agent.
	Reverts bool
	// Summary is one line about what it does, without a full stop.
	Summary string
	// Page is the page of the documentation, as a path in the repository.
	Page string
	// Keys are the annotations and labels with which users ask for it.
	Keys []string
	// Metrics are those of which Measured gives samples.
	Metrics []Metric
	// Config is its part of the agent's file, with the defaults and a comment on each
	// field, as berth agent --print-config prints it. It is empty, or lines of YAML with
	// an empty line after them.
	Config string
	// Columns are the headings of its cells in the workloads that status prints.
	Columns []string
	// Reader prints what it reported. Without one nothing of it is printed for people.
	Reader Reader
}

// Metric is one metric. Its name on /metrics begins with berth_.
type Metric struct {
	Name, Help string
	// Counter says that it only grows while the agent runs; otherwise it is a gauge.
	Counter bool
	Labels  []string
}

// Sample is one value of a metric. The values of the labels have their order.
type Sample struct {
	Metric string
	Value  float64
	Labels []string
}

// WorkloadLabels are the labels of a metric of a workload, in the order of LabelsOf. They
// name no group: that of a container is another one after each restart.
func WorkloadLabels() []string { return []string{"namespace", "pod", "container", "workload"} }

// LabelsOf are the values of WorkloadLabels for a workload of this name: namespace, pod and
// container of "shop/web-0/app", namespace and pod of "shop/web-0", which is the pod as a
// whole, and the workload of a host without Kubernetes, whose name has no slash.
func LabelsOf(name string) []string {
	parts := strings.SplitN(name, "/", 3)
	switch len(parts) {
	case 1:
		return []string{"", "", "", name}
	case 2:
		return []string{parts[0], parts[1], "", ""}
	default:
		return []string{parts[0], parts[1], parts[2], ""}
	}
}

// Capability is the half of a capability that lives in the agent. The agent calls it
// while it holds the lock on its state.
type Capability interface {
	// Describe returns its Info. It is called on a value without an agent as well.
	Describe() Info
	// Outcome returns what is true at this moment, and changes nothing.
	Outcome(now time.Time) Outcome
	// Recall gives it what an agent of the same boot remembered, before its first
	// Outcome. Keys that it does not find are no error: an earlier version had none.
	Recall(saved Sections) error
}

// Measured is a Capability with metrics.
type Measured interface {
	// Measure adds the samples of one scrape.
	Measure(add func(Sample))
}

// Outcome is what a capability says besides its settings.
type Outcome struct {
	// Rows are what is true of workloads, at most one row each.
	Rows []Row
	// Node is what is true of the node as a whole, State what has to be remembered.
	// Both are keys of the checkpoint.
	Node, State Sections
	// Problems are what users have to mend, as sentences.
	Problems []string
	// Shown is for whoever looks, and is not remembered.
	Shown Shown
}

// Row is what is true of one workload.
type Row struct {
	Workload
	// Section is marshalled under the name of the capability, nil for nothing.
	Section any
}

// State is where one workload stands. A workload is in exactly one state.
type State string

// States that are not one capability's alone.
const (
	// StatePending is that of a workload for which something is missing or contradictory; its
	// reason says what.
	StatePending State = "Pending"
	// StateOff is that of a workload which asks nothing of the capability that says where it stands.
	StateOff State = "Off"
	// StatePinned is that of such a workload that has CPUs for itself.
	StatePinned State = "pinned"
)

// Workload says which workload it is and where it stands. Its JSON is a stable contract.
type Workload struct {
	Name   string `json:"name"`
	File   string `json:"file,omitempty"`
	Group  string `json:"group,omitempty"`
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Since is when the workload entered its state.
	Since time.Time `json:"since"`
	// Policy is what was asked for and PolicySource where it was written.
	Policy       string   `json:"policy"`
	PolicySource string   `json:"policySource,omitempty"`
	Warnings     []string `json:"warnings,omitempty"`
}

// Reader prints for people what a capability reported.
type Reader interface {
	// Node is about the node as a whole.
	Node(r Reported) (NodeView, error)
	// Workload is about the workload of r. It is called for a workload of which the
	// capability reported nothing, too.
	Workload(r Reported) (WorkloadView, error)
}

// Reported is what an agent reported, perhaps one of another version.
type Reported struct {
	// Alive says that an agent runs. Otherwise this is what the last one saved.
	Alive bool
	// Node has the keys of the checkpoint.
	Node Sections
	// Decoded has what readers decoded of Node, by its key, for the reports of other workloads
	// of the same node. It is nil where there is only one.
	Decoded map[string]any
	// Workload is the workload in question, and Row the sections of it.
	Workload Workload
	Row      Sections
}

// OfNode decodes the section of the node with a key, once for all workloads. It is the zero value
// where there is no such section; whoever gets it changes nothing in it.
func OfNode[T any](r Reported, key string) (T, error) {
	if value, decoded := r.Decoded[key].(T); decoded {
		return value, nil
	}
	var value T
	if err := r.Node.Decode(key, &value); err != nil {
		return value, err
	}
	if r.Decoded != nil {
		r.Decoded[key] = value
	}
	return value, nil
}

// NodeView is what status says of the node.
type NodeView struct {
	// Sections are the keys in the JSON of status.
	Sections Sections
	// Headline continues the line about the agent. Lines follow it, and then Table with
	// its heading.
	Headline string
	Lines    []string
	Table    [][]string
}

// WorkloadView is what status and explain say of one workload.
type WorkloadView struct {
	// Node and Sections are keys in the JSON of explain: what of the node decides about
	// the workload, and what else is true of it.
	Node, Sections Sections
	// Cells are as many as there are columns, or none.
	Cells []string
	// Reason is printed in the list where the workload has none of its own.
	Reason string
	// Lines are those of explain, one fact each.
	Lines []string
	// Moves says that its quota changes while it runs, so that explain names the processes that
	// size themselves by it.
	Moves bool
}

// OwnersOf returns the owners of all capabilities, in their order.
func OwnersOf(all []Info) []plan.Owner {
	var owners []plan.Owner
	for _, info := range all {
		owners = append(owners, info.Owners...)
	}
	return owners
}

// Reverts says that the settings of an owner end with the agent. Others stay, unless all
// are to be put back: a running pod is never unpinned because the agent is replaced.
func Reverts(all []Info, owner plan.Owner) bool {
	return slices.ContainsFunc(all, func(i Info) bool { return i.Reverts && slices.Contains(i.Owners, owner) })
}
