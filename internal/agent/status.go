package agent

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/capability"
)

// Status is what the agent knows of one workload. It is written into the
// checkpoint, where status and explain read it; its JSON is a stable contract.
type Status struct {
	capability.Workload
	// Sections are what the capabilities report of it, by their names, beside the
	// other keys of the JSON.
	Sections capability.Sections `json:"-"`
}

// Checkpoint is what survives an agent's restart, and what status prints. It may be
// deleted at any time; then every capability starts anew.
type Checkpoint struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	// Listen is the address that was bound, where Fetch asks.
	Listen  string    `json:"listen,omitempty"`
	BootID  string    `json:"bootID"`
	Written time.Time `json:"written"`
	// Workloads in the order of their names, as the key workloads of the JSON.
	Workloads []Status `json:"-"`
	// Problems are documents that do not count as written, in words.
	Problems []string `json:"problems,omitempty"`
	// Sections are what the capabilities report of the node and what they remember,
	// beside the other keys of the JSON.
	Sections capability.Sections `json:"-"`
}

// keyWorkloads is the key of the workloads in a checkpoint.
const keyWorkloads = "workloads"

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

// ownKeys are the fields of a Checkpoint without the sections.
type ownKeys Checkpoint

// MarshalJSON implements json.Marshaler. The list of the workloads is put together here:
// encoding/json would go over each of them several times more, and an agent writes its
// checkpoint every ten seconds.
func (cp Checkpoint) MarshalJSON() ([]byte, error) {
	list := []byte(`{"` + keyWorkloads + `":[`)
	for i, w := range cp.Workloads {
		one, err := w.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("workload %s: %w", w.Name, err)
		}
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, one...)
	}
	list = append(list, "]}"...)
	return capability.Joined{ownKeys(cp), json.RawMessage(list), cp.Sections}.MarshalJSON()
}

// UnmarshalJSON implements json.Unmarshaler, as that of Status.
func (cp *Checkpoint) UnmarshalJSON(data []byte) (err error) {
	if cp.Sections, err = capability.Split(data, (*ownKeys)(cp)); err != nil {
		return err
	}
	err = cp.Sections.Decode(keyWorkloads, &cp.Workloads)
	delete(cp.Sections, keyWorkloads)
	return err
}
