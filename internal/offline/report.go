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
		Keys:    []string{v1alpha1.LabelQoSClass},
		Reader:  reader{},
	}
}

// Outcome implements capability.Capability.
func (*Work) Outcome(time.Time) capability.Outcome { return capability.Outcome{} }

// Recall implements capability.Capability. The boundary starts anew: what the online side did
// before is not known.
func (*Work) Recall(capability.Sections) error { return nil }
