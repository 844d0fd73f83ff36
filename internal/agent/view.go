package agent

import (
	"sync"
	"time"

	"github.com/berth-project/berth/internal/agent/throttled"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/unit"
)

// viewer makes views of an agent. It remembers the CPU times of the last view to compute the load since. It is safe for
// concurrent use.
type viewer struct {
	agent *controller

	mu     sync.Mutex
	before []unit.CPUSpent
	at     time.Duration
	others throttled.Others
	// changes are the journal's entries, read when it had counted this many changes.
	changes []view.Change
	counted uint64
}

// look returns the present view.
func (v *viewer) look() (*view.View, error) {
	c := v.agent
	f, problems, said, containers := v.copied()
	var err error
	if f.Report, err = view.Join(problems, said); err != nil {
		c.opts.Log.Warn("view", "error", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	f.Changes = v.changed()
	if err := v.measure(&f); err != nil {
		c.opts.Log.Debug("view without loads", "error", err)
	}
	v.throttled(&f, containers)
	return view.Of(f), nil
}

// changed returns the journal's entries in the order of a view, and reads them again if they may differ.
func (v *viewer) changed() []view.Change {
	j := v.agent.journal
	if now := j.Changed(); v.changes == nil || v.counted != now { // counted before they are read: they may be newer
		v.changes, v.counted = view.InOrder(changes(v.agent.host, j.Entries())), now
	}
	return v.changes
}

// changes returns the journal's entries, named by the files of this host.
func changes(host *cgroup.Host, entries []journal.Entry) []view.Change {
	all := make([]view.Change, 0, len(entries))
	for _, e := range entries {
		file, original := host.InFile(cgroupfile.Knob(e.Target), cgroup.Value(e.Original))
		_, written := host.InFile(cgroupfile.Knob(e.Target), cgroup.Value(e.Intent))
		all = append(all, view.Change{
			Object: e.Target.Object, Knob: file, Original: plan.Value(original), Written: plan.Value(written),
			Owner: e.Owner, Workload: e.Workload, Why: e.Why, Since: e.Since, Writes: e.Writes,
		})
	}
	return all
}

// copied copies the data of a view that the agent's mutex guards. It does not encode, read or join: the container
// runtime waits for the mutex. No code changes a list of containers.
func (v *viewer) copied() (f view.Facts, problems []string, said []view.Said, containers []observed.Workload) {
	c := v.agent
	c.mu.Lock()
	defer c.mu.Unlock()
	f = view.Facts{Version: c.opts.Version, At: c.opts.Now(), Events: c.counts.events.All()}
	problems, said = c.gather(f.At)
	return f, problems, said, c.assignment.Running()
}

// throttled adds the throttling of containers that did not ask for burst.
func (v *viewer) throttled(f *view.Facts, containers []observed.Workload) {
	var err error
	f.Throttling, err = v.others.Look(v.agent.opts.Clock(), v.agent.host, containers, f.Report.Shown.Quotas)
	if err != nil {
		v.agent.opts.Log.Debug("view without some throttling", "error", err)
	}
}

// measure adds the load of the CPUs since its last call.
func (v *viewer) measure(f *view.Facts) error {
	now := v.agent.opts.Clock()
	spent, err := kernel.CPUsSpent(v.agent.opts.Root)
	if err != nil {
		return err
	}
	if v.before != nil {
		f.Loads, f.LoadSeconds = view.Loads(v.before, spent), (now - v.at).Seconds()
	}
	v.before, v.at = spent, now
	return nil
}
