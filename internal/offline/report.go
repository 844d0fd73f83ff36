package offline

import (
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/plan"
)

// name is that of the capability.
const name = "isolate"

// Describe implements capability.Capability.
func (*Work) Describe() capability.Info {
	return capability.Info{
		Name:    name,
		Owners:  []plan.Owner{plan.OwnerIsolate},
		Reverts: true,
		Summary: "cores of their own for offline workloads, by what online ones leave",
		Page:    "docs/isolate.md",
		Keys:    []string{v1alpha1.LabelQoSClass, v1alpha1.AnnotationCPUQOS},
		Reader:  reader{},
	}
}

// keyNode is the key of Node in the checkpoint and in the JSON of status.
const keyNode = "isolation"

// Node is what is true of the node as a whole.
type Node struct {
	// Support is what this kernel has, Idle says that groups are.
	Support Support `json:"support"`
	Idle    bool    `json:"idle"`
}

// Workload is what is true of one workload.
type Workload struct {
	// Precedence is nil where none is asked for.
	Precedence *Precedence `json:"precedence,omitempty"`
}

// Outcome implements capability.Capability.
func (w *Work) Outcome(time.Time) capability.Outcome {
	p := &w.precedences
	if len(p.rows) == 0 { // no workload asks for anything
		return capability.Outcome{}
	}
	out := capability.Outcome{Node: capability.Sections{keyNode: Node{Support: p.support, Idle: p.idle()}}}
	for i := range p.containers {
		c := &p.containers[i]
		if row, has := p.rows[c.Name]; has {
			out.Rows = append(out.Rows, capability.Row{
				Workload: capability.Workload{Name: c.Name, Group: c.Group, State: stateActive, Since: p.since[c.Name], Policy: string(v1alpha1.CPUBurstNone)},
				Section:  Workload{Precedence: &row},
			})
		}
	}
	return out
}

// stateActive is that of a workload, as those of burst.
const stateActive capability.State = "Active"

// Recall implements capability.Capability. The boundary starts anew: what the online side did
// before is not known.
func (*Work) Recall(capability.Sections) error { return nil }
