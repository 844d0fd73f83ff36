package view

import (
	"errors"

	"github.com/berth-project/berth/internal/capability"
)

// Status is what the capabilities report of one workload. Its JSON is a stable contract.
type Status struct {
	capability.Workload
	// Sections are by the names of the capabilities, beside the other keys of the JSON.
	Sections capability.Sections `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (s Status) MarshalJSON() ([]byte, error) {
	return capability.Joined{s.Workload, s.Sections}.MarshalJSON()
}

// UnmarshalJSON implements json.Unmarshaler. It keeps sections of capabilities that
// this version does not know.
func (s *Status) UnmarshalJSON(data []byte) (err error) {
	s.Sections, err = capability.Split(data, &s.Workload)
	return err
}

// Said is what the capability of a name reports.
type Said struct {
	Name string
	capability.Outcome
}

// Join puts together what capabilities report, with what else users have to mend. A key that
// two of them have is the first one's, and an error.
func Join(problems []string, all []Said) (Report, error) {
	r := Report{Problems: problems, Node: capability.Sections{}, State: capability.Sections{}, at: map[string]int{}}
	var errs []error
	for _, one := range all {
		errs = append(errs, r.add(one.Name, one.Outcome))
	}
	r.pin()
	return r, errors.Join(errs...)
}

// pin says of workloads with exclusive CPUs that they are pinned, where the capability that
// says where they stand has nothing to do for them.
func (r *Report) pin() {
	for _, h := range r.Shown.Holdings {
		if i, known := r.at[h.Workload]; known && h.Exclusive && r.Workloads[i].State == capability.StateOff {
			r.Workloads[i].State = capability.StatePinned
		}
	}
}

// Report is what the capabilities of an agent say, put together.
type Report struct {
	// Workloads are in the order in which they were reported, each once.
	Workloads []Status
	// Problems are what users have to mend, as sentences.
	Problems []string
	// Node is what is true of the node, State what capabilities remember for themselves.
	Node, State capability.Sections
	Shown       capability.Shown
	at          map[string]int // workloads by name
}

// add takes over what the capability of this name reports. Where a workload stands is said by
// the first capability that has a row for it.
func (r *Report) add(name string, o capability.Outcome) error {
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
	return errors.Join(r.Node.Add(o.Node), r.State.Add(o.State))
}
