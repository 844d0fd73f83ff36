// Package newcomer is an invented capability. Tests of the agent and of the commands add it, to show that a new
// capability is reported, measured, remembered and rolled back without a change to either.
package newcomer

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/engine/plan"
)

// Owner is the owner of its settings.
const Owner plan.Owner = "newcomer"

// The keys of the newcomer in the checkpoint and in the JSON of status.
const (
	keyNode  = "newcomerNode"
	keyState = "newcomerState"
)

// Newcomer counts the restarts of its agent, and gives one bunk to each of its workloads.
type Newcomer struct {
	Workloads []string
	Restarts  int
	// Settings are the desired settings, and Events the events that it reports once.
	Settings []plan.Desired
	Events   []capability.Event
}

type bunk struct {
	Bunk int `json:"bunk"`
}

type node struct {
	Bunks int `json:"bunks"`
}

// Describe implements capability.Capability.
func (*Newcomer) Describe() capability.Info { return Info() }

// Info returns the description of the capability, which needs no agent.
func Info() capability.Info {
	return capability.Info{
		Name: "newcomer", Owners: []plan.Owner{Owner}, Reverts: true, Summary: "a bunk for every workload",
		Metrics: []capability.Metric{{Name: "newcomer_bunks", Help: "Bunks given out.", Counter: true, Labels: []string{"workload"}}},
		Config:  "newcomer:\n  # Bunks of this node.\n  bunks: 2\n\n",
		Columns: []string{"BUNK"},
		Reader:  reader{},
	}
}

// Decide implements capability.Decider.
func (n *Newcomer) Decide(*capability.Node) capability.Decision {
	d := capability.Decision{Settings: n.Settings, Events: n.Events}
	n.Events = nil
	return d
}

// Outcome implements capability.Capability.
func (n *Newcomer) Outcome(now time.Time) capability.Outcome {
	out := capability.Outcome{
		Node:     capability.Sections{keyNode: node{len(n.Workloads)}},
		Problems: []string{"a bunk squeaks"},
	}
	for i, name := range n.Workloads {
		row := capability.Row{Section: bunk{i + 1}}
		row.Name, row.State, row.Since, row.Warnings = name, "Asleep", now, []string{"it snores"}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// State implements capability.Rememberer.
func (n *Newcomer) State() capability.Sections { return capability.Sections{keyState: n.Restarts} }

// Recall implements capability.Capability.
func (n *Newcomer) Recall(saved capability.Sections) error {
	err := saved.Decode(keyState, &n.Restarts)
	n.Restarts++
	return err
}

// Measure implements capability.Measured.
func (n *Newcomer) Measure(add func(capability.Sample)) {
	for _, name := range n.Workloads {
		add(capability.Sample{Metric: "newcomer_bunks", Value: 1, Labels: []string{name}})
	}
}

type reader struct{}

// Node implements capability.Reader.
func (reader) Node(r capability.Reported) (capability.NodeView, error) {
	var n node
	err := r.Node.Decode(keyNode, &n)
	return capability.NodeView{
		Sections: capability.Sections{keyNode: n},
		Headline: fmt.Sprintf("%d bunks", n.Bunks),
		Lines:    []string{"bunks: all made"},
	}, err
}

// Workload implements capability.Reader.
func (reader) Workload(r capability.Reported) (capability.WorkloadView, error) {
	var b bunk
	if err := r.Row.Decode("newcomer", &b); err != nil || b.Bunk == 0 {
		return capability.WorkloadView{}, err
	}
	return capability.WorkloadView{
		Sections: capability.Sections{keyNode: b},
		Cells:    []string{fmt.Sprintf("no. %d", b.Bunk)},
		Reason:   "asleep",
		Lines:    []string{fmt.Sprintf("bunk      no. %d", b.Bunk)},
	}, nil
}
