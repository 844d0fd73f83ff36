package apply

import "github.com/berth-project/berth/internal/plan"

// Standing is what stands at a target. The identity may be known without the value, and
// comes with the error then.
type Standing struct {
	Value plan.Value
	ID    plan.Identity
	Err   error
}

// Read returns what stands at targets, in their order. It writes nothing.
func (a *Applier) Read(targets []plan.Target) []Standing {
	call := a.open()
	defer call.close()
	all := make([]Standing, len(targets))
	for i, t := range targets {
		all[i].Value, all[i].ID, all[i].Err = call.read(t)
	}
	return all
}
