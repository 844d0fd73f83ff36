package agent

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/statedir"
)

// checkpointFile is the checkpoint's name in stateDir.
const checkpointFile = "checkpoint.json"

// checkpointEvery bounds how old the checkpoint on disk may be.
const checkpointEvery = 10 * time.Second

// LoadCheckpoint reads the checkpoint of stateDir. A missing one is the zero
// Checkpoint and no error: it is a cache. Safe while an agent runs.
func LoadCheckpoint(stateDir string) (Checkpoint, error) {
	var cp Checkpoint
	if err := statedir.Load(stateDir, checkpointFile, &cp); err != nil {
		return Checkpoint{}, err
	}
	return cp, nil
}

// save replaces the checkpoint.
func (cp Checkpoint) save(stateDir string) error {
	data, err := cp.MarshalJSON() // json.Marshal would go over all of it once more
	if err != nil {
		return fmt.Errorf("encode %s: %w", checkpointFile, err)
	}
	return statedir.Replace(stateDir, checkpointFile, data)
}

// checkpoint puts together what the capabilities report.
func (c *controller) checkpoint() Checkpoint {
	cp := Checkpoint{
		Version:  c.opts.Version,
		PID:      os.Getpid(),
		Listen:   c.listening,
		BootID:   c.opts.BootID,
		Written:  c.opts.Now(),
		Sections: capability.Sections{},
	}
	for _, p := range c.problems {
		cp.Problems = append(cp.Problems, p.Err.Error())
	}
	if c.unheard != nil {
		cp.Problems = append(cp.Problems, c.unheard.Error())
	}
	for _, one := range byName(c.capabilities) {
		if err := cp.add(one.Describe().Name, one.Outcome(cp.Written)); err != nil {
			c.fail("checkpoint", err)
		}
	}
	slices.SortStableFunc(cp.Workloads, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return cp
}

// add takes over what one capability reports. Where a workload stands is said by the
// first capability, by name, that has a row for it.
func (cp *Checkpoint) add(name string, o capability.Outcome) error {
	known := make(map[string]int, len(cp.Workloads))
	for i, w := range cp.Workloads {
		known[w.Name] = i
	}
	for _, row := range o.Rows {
		i, is := known[row.Name]
		if is {
			cp.Workloads[i].Warnings = append(cp.Workloads[i].Warnings, row.Warnings...)
		} else {
			i = len(cp.Workloads)
			cp.Workloads = append(cp.Workloads, Status{Workload: row.Workload, Sections: capability.Sections{}})
		}
		if row.Section != nil {
			cp.Workloads[i].Sections[name] = row.Section
		}
	}
	cp.Problems = append(cp.Problems, o.Problems...)
	return errors.Join(cp.Sections.Add(o.Node), cp.Sections.Add(o.State))
}
