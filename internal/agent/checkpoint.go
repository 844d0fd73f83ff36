package agent

import (
	"maps"
	"os"
	"slices"
	"strings"
	"time"

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

// checkpoint gathers the state of all workloads.
func (c *controller) checkpoint() Checkpoint {
	cp := Checkpoint{
		Version: c.opts.Version,
		PID:     os.Getpid(),
		Listen:  c.listening,
		BootID:  c.opts.BootID,
		Written: c.opts.Now(),
		Node:    c.node.status(),
		CPUs:    c.cpus(),
		Ledgers: maps.Clone(c.saved),
		Carried: maps.Clone(c.carried),
		Started: map[string]map[int]uint64{},
	}
	cp.Kubelet = c.machine.kubelet.Said()
	cp.Node.LatenessSeconds = c.worstLateness.Seconds()
	for _, m := range c.byName {
		cp.Workloads = append(cp.Workloads, m.status())
		if len(m.started) > 0 {
			cp.Started[m.workload.Name] = maps.Clone(m.started)
		}
		if m.group != nil && m.state == StateActive {
			cp.Ledgers[m.group.Path()] = SavedLedger{Group: m.id, Ledger: m.law.Ledger}
			if m.workload.Pod.UID != "" {
				cp.Carried[carryKey(m.workload)] = m.law.Ledger
			}
		}
	}
	for _, w := range c.waiting {
		cp.Workloads = append(cp.Workloads, Status{
			Name: w.Workload.Name, File: w.Workload.File, Group: w.Workload.Cgroup, State: StatePending,
			Reason: w.Reason.Error(), Since: cp.Written, Policy: w.Workload.Burst.Policy,
		})
	}
	for _, p := range c.problems {
		cp.Problems = append(cp.Problems, p.Err.Error())
	}
	if c.unheard != nil {
		cp.Problems = append(cp.Problems, c.unheard.Error())
	}
	slices.SortFunc(cp.Workloads, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return cp
}
