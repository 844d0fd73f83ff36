// Package checkpoint reads and writes the file in which an agent saves state across a restart. The agent replaces the
// whole file; commands read it at any time.
package checkpoint

import (
	"bytes"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/node/statedir"
)

// File is the checkpoint's name in stateDir.
const File = "checkpoint.json"

// Checkpoint is the state that survives an agent's restart. Status prints it if no agent answers. It may be deleted at
// any time; then every capability starts without its state.
type Checkpoint struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	BootID  string    `json:"bootID"`
	Written time.Time `json:"written"`
	// Clock is the same moment by the agent's clock, which counts from boot and which nobody can set; 0 if an older
	// agent wrote it.
	Clock time.Duration `json:"clock,omitempty"`
	// Workloads are sorted by name, under the key workloads of the JSON.
	Workloads []view.Status `json:"-"`
	// Problems describe documents that do not take effect as written.
	Problems []string `json:"problems,omitempty"`
	// Sections are the capabilities' reports on the node and their saved state, beside the other keys of the JSON.
	Sections capability.Sections `json:"-"`
}

// Load reads the checkpoint of stateDir. A missing file is the zero Checkpoint and no error: it is a cache. Load is
// safe while an agent runs.
func Load(stateDir string) (Checkpoint, error) {
	var cp Checkpoint
	if err := statedir.Load(stateDir, File, &cp); err != nil {
		return Checkpoint{}, err
	}
	return cp, nil
}

// Save replaces the checkpoint of stateDir.
func (cp Checkpoint) Save(stateDir string) error {
	data, err := cp.MarshalJSON() // json.Marshal would process it again
	if err != nil {
		return fmt.Errorf("encode %s: %w", File, err)
	}
	return statedir.Replace(stateDir, File, data)
}

const keyWorkloads = "workloads"

// ownKeys are the fields of a Checkpoint without the sections.
type ownKeys Checkpoint

// MarshalJSON implements json.Marshaler.
func (cp Checkpoint) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.Grow(len(cp.Workloads) << 10) // a workload has a little less than 1 KiB
	err := capability.Joined{ownKeys(cp), list(cp.Workloads), cp.Sections}.Write(&out)
	return out.Bytes(), err
}

// list is the workloads of a checkpoint under their key.
type list []view.Status

// Write implements capability.Object.
func (l list) Write(to *bytes.Buffer) error {
	to.WriteString(`{"` + keyWorkloads + `":[`)
	for i, w := range l {
		if i > 0 {
			to.WriteByte(',')
		}
		if err := (capability.Joined{w.Workload, w.Sections}).Write(to); err != nil {
			return fmt.Errorf("workload %s: %w", w.Name, err)
		}
	}
	to.WriteString("]}")
	return nil
}

// UnmarshalJSON implements json.Unmarshaler. It retains sections of capabilities that this version does not know.
func (cp *Checkpoint) UnmarshalJSON(data []byte) (err error) {
	if cp.Sections, err = capability.Split(data, (*ownKeys)(cp)); err != nil {
		return err
	}
	err = cp.Sections.Decode(keyWorkloads, &cp.Workloads)
	delete(cp.Sections, keyWorkloads)
	return err
}

// View returns the node as far as the checkpoint has it, which is not all of a View.
func (cp Checkpoint) View() *view.View {
	return view.Of(view.Facts{
		Version: cp.Version, At: cp.Written,
		Report: view.Report{Workloads: cp.Workloads, Problems: cp.Problems, Node: cp.Sections},
	})
}
