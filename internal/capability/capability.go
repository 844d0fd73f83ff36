package capability

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/engine/plan"
)

// Info describes a capability without an agent.
type Info struct {
	// Name is the name for people, and of its section in the JSON of a workload.
	Name string
	// Owners are the owners of its settings in the journal. Each is a value of rollback --owner.
	Owners []plan.Owner
	// Owned says what each of several owners changes, as Summary does for all.
	Owned map[plan.Owner]string
	// Reverts means that its settings get back their originals when the agent stops. Settings of other capabilities
	// outlive the agent.
	Reverts bool
	// Summary is one line about what it does, without a full stop.
	Summary string
	// Page is the page of the documentation, as a path in the repository.
	Page string
	// Keys are the annotations and labels with which users ask for it.
	Keys []string
	// Metrics are the metrics that Measured has samples of.
	Metrics []Metric
	// Config is its part of the agent's file, with the defaults and a comment on each field, as berth agent
	// --print-config prints it. It is empty, or lines of YAML with an empty line after them.
	Config string
	// Columns are the headings of its cells in the workloads that status prints.
	Columns []string
	// Reader prints its report. Without a Reader nothing is printed for people.
	Reader Reader
}

// Metric is one metric. Its name on /metrics begins with berth_.
type Metric struct {
	Name, Help string
	// Counter means that it only grows while the agent runs; otherwise it is a gauge.
	Counter bool
	Labels  []string
}

// Sample is one value of a metric. Labels has the values in the order of Metric.Labels.
type Sample struct {
	Metric string
	Value  float64
	Labels []string
}

// WorkloadLabels returns the labels of a metric of a workload, in the order of LabelsOf. They name no group: a
// container's group changes at each restart.
func WorkloadLabels() []string { return []string{"namespace", "pod", "container", "workload"} }

// LabelsOf returns the values of WorkloadLabels for a workload's name: namespace, pod and container of
// "shop/web-0/app", and namespace and pod of "shop/web-0", the pod as a whole. A name without a slash is the workload
// of a host without Kubernetes.
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

// Capability is the half of a capability in the agent. The agent calls it while it holds the lock on its state.
type Capability interface {
	// Describe returns its Info. It is also called on a value without an agent.
	Describe() Info
	// Outcome returns the present state, and changes nothing.
	Outcome(now time.Time) Outcome
	// Recall restores what an agent of the same boot remembered, before the first Outcome. Missing keys are no error:
	// an earlier version had none.
	Recall(saved Sections) error
}

// Rememberer is a Capability that remembers something beyond its Outcome.
type Rememberer interface {
	// State returns what must be remembered, as keys of the checkpoint.
	State() Sections
}

// Measured is a Capability with metrics.
type Measured interface {
	// Measure adds the samples of one scrape.
	Measure(add func(Sample))
}

// Outcome is the report of a capability, without its settings.
type Outcome struct {
	// Rows are the reports about workloads, at most one row each.
	Rows []Row
	// Node is the report about the node as a whole. It has keys of the checkpoint.
	Node Sections
	// Problems are what users must fix, as sentences.
	Problems []string
	// Shown is for display, and is not remembered.
	Shown Shown
}

// Row is the report about one workload.
type Row struct {
	Workload
	// Section is marshalled under the name of the capability, nil for nothing.
	Section any
}

// State is the state of a workload. A workload is in exactly one state.
type State string

// States of more than one capability.
const (
	// StatePending means that something is missing or contradictory for the workload; the reason says what.
	StatePending State = "Pending"
	// StateOff means that the workload asks nothing of the capability that reports its state.
	StateOff State = "Off"
	// StatePinned means the same, but the workload has exclusive CPUs.
	StatePinned State = "pinned"
)

// Workload identifies a workload and says its state. Its JSON is a stable contract.
type Workload struct {
	Name   string `json:"name"`
	File   string `json:"file,omitempty"`
	Group  string `json:"group,omitempty"`
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Since is when the workload entered its state.
	Since time.Time `json:"since"`
	// Policy is the request, PolicySource where it was written.
	Policy       string   `json:"policy"`
	PolicySource string   `json:"policySource,omitempty"`
	Warnings     []string `json:"warnings,omitempty"`
}

// Reader prints the report of a capability for people.
type Reader interface {
	// Node is about the node as a whole.
	Node(r Reported) (NodeView, error)
	// Workload is about the workload of r. It is also called for a workload without a report of the capability.
	Workload(r Reported) (WorkloadView, error)
}

// Reported is the report of an agent, perhaps of another version.
type Reported struct {
	// Alive means that an agent runs. Otherwise the last agent saved this report.
	Alive bool
	// Node has the keys of the checkpoint.
	Node Sections
	// Decoded has the decoded values of Node, by key, for the reports of other workloads of the same node. It is nil if
	// there is only one.
	Decoded map[string]any
	// Workload is the workload in question, Row its sections.
	Workload Workload
	Row      Sections
}

// OfNode decodes the section of the node with a key, once for all workloads. It returns the zero value if there is no
// such section. The caller must not change the value.
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
	// Headline continues the line about the agent. Lines follow, then Table with its heading.
	Headline string
	Lines    []string
	Table    [][]string
}

// WorkloadView is what status and explain say of one workload.
type WorkloadView struct {
	// Node and Sections are keys in the JSON of explain: Node has the node's data that decide about the workload,
	// Sections the other data about it.
	Node, Sections Sections
	// Cells are as many as there are columns, or none.
	Cells []string
	// Reason is printed in the list if the workload has no reason of its own.
	Reason string
	// Lines are the lines of explain, one fact each.
	Lines []string
	// Moves means that its quota changes while it runs: explain then names the processes that choose their size by the
	// quota.
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

// Reverts reports whether the settings of an owner end with the agent. Other settings stay, unless all are to be
// restored: a running pod is never unpinned because the agent is replaced.
func Reverts(all []Info, owner plan.Owner) bool {
	return slices.ContainsFunc(all, func(i Info) bool { return i.Reverts && slices.Contains(i.Owners, owner) })
}
