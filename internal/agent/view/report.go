package view

import (
	"errors"

	"github.com/berth-project/berth/internal/capability"
)

// Status is what the capabilities report about one workload. Its JSON is a stable contract.
type Status struct {
	capability.Workload
	// Sections are keyed by the names of the capabilities, next to the other keys of the JSON.
	Sections capability.Sections `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (s Status) MarshalJSON() ([]byte, error) {
	return capability.Joined{s.Workload, s.Sections}.MarshalJSON()
}

// UnmarshalJSON implements json.Unmarshaler. It preserves sections of capabilities that this version does not know.
func (s *Status) UnmarshalJSON(data []byte) (err error) {
	s.Sections, err = capability.Split(data, &s.Workload)
	return err
}

// Said is the report of the capability with this name.
type Said struct {
	Name string
	capability.Outcome
}

// Join joins the reports of the capabilities and adds problems that users must fix. If two capabilities report the same
// key, the first one's value remains and Join returns an error.
func Join(problems []string, all []Said) (Report, error) {
	r := Report{Problems: problems, Node: capability.Sections{}}
	var errs []error
	for _, one := range all {
		errs = append(errs, r.add(one.Name, one.Outcome))
	}
	r.pin()
	return r, errors.Join(errs...)
}

// pin marks workloads with exclusive CPUs as pinned if the capability that reports their state has nothing to do.
func (r *Report) pin() {
	for _, h := range r.Shown.Holdings {
		if i, known := r.at[h.Workload]; known && h.Exclusive && r.Workloads[i].State == capability.StateOff {
			r.Workloads[i].State = capability.StatePinned
		}
	}
}

// Report joins the reports of an agent's capabilities.
type Report struct {
	// Workloads are in the order in which they were reported, each once.
	Workloads []Status
	// Problems are what users must fix, as sentences.
	Problems []string
	// Node is what is true of the node.
	Node  capability.Sections
	Shown capability.Shown
	at    map[string]int // workloads by name
}

// add adds the report of the capability with this name. The first capability with a row for a workload gives its state.
func (r *Report) add(name string, o capability.Outcome) error {
	if r.at == nil && len(o.Rows) > 0 { // most capabilities report about the same workloads
		r.Workloads, r.at = make([]Status, 0, len(o.Rows)), make(map[string]int, len(o.Rows))
	}
	for _, row := range o.Rows {
		i, known := r.at[row.Name]
		if known {
			r.Workloads[i].Warnings = append(r.Workloads[i].Warnings, row.Warnings...)
		} else {
			i = len(r.Workloads)
			r.at[row.Name] = i
			r.Workloads = append(r.Workloads, Status{row.Workload, capability.Sections{}})
		}
		if row.Section != nil {
			r.Workloads[i].Sections[name] = row.Section
		}
	}
	r.Problems = append(r.Problems, o.Problems...)
	r.Shown.Add(o.Shown)
	return r.Node.Add(o.Node)
}
