package roster

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/unit"
)

// Ready is a workload that can be used, with warnings about it.
type Ready struct {
	Workload workload.Workload
	Warnings []string
}

// Waiting is a workload that cannot be used at the moment, with the reason: what it names does not exist yet, or its
// file is damaged. Only the name of a damaged workload is known.
type Waiting struct {
	Workload workload.Workload
	Reason   string
	// Damaged says that the file is at fault: the file is listed among the problems.
	Damaged bool
}

// Options is what a Roster needs from its surroundings. Every field is required.
type Options struct {
	Host *cgroup.Host
	Log  *slog.Logger
	// Fail is called with a failure of the agent's own work.
	Fail func(what string, err error)
}

// Roster has the workloads of this node. It is for one goroutine at a time.
type Roster struct {
	opts    Options
	byName  map[string]*Entry
	entries []*Entry // by name
	waiting []Waiting
	// started has the start times of processes by workload and pid, once they were found. Those of waiting workloads
	// remain.
	started map[string]map[int]uint64
	// held has the groups of an earlier agent's workloads, by workload, until Find looked for them.
	held    map[string]string
	changes uint64
}

// New returns a Roster without workloads.
func New(opts Options) *Roster {
	return &Roster{opts: opts, byName: map[string]*Entry{}, started: map[string]map[int]uint64{}}
}

// Adopt replaces the workloads. A workload that stays keeps its Entry. It also keeps its group, unless it now names its
// group differently.
func (r *Roster) Adopt(ready []Ready, waiting []Waiting) {
	before := r.byName
	r.byName, r.entries = make(map[string]*Entry, len(ready)), nil
	for _, one := range ready {
		w := one.Workload
		e := before[w.Name]
		switch {
		case e == nil:
			e = &Entry{}
		case !sameGroup(e.Workload, &w):
			r.drop(e, "not looked at yet")
			if !slices.Equal(e.Workload.PIDs, w.PIDs) {
				delete(r.started, w.Name)
			}
		}
		e.Workload, e.Warnings = &w, one.Warnings
		r.byName[w.Name] = e
	}
	for name, e := range before {
		if r.byName[name] == nil {
			r.drop(e, "it is not there any more")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.byName)) {
		r.entries = append(r.entries, r.byName[name])
	}
	r.waiting = waiting
	maps.DeleteFunc(r.started, func(name string, _ map[int]uint64) bool { return r.byName[name] == nil && !r.waits(name) })
	r.changes++
}

// waits reports whether the workload is among the waiting workloads.
func (r *Roster) waits(name string) bool {
	return slices.ContainsFunc(r.waiting, func(w Waiting) bool { return w.Workload.Name == name })
}

// Entries returns the workloads that can be used, by name. Callers change neither the slice nor its elements.
func (r *Roster) Entries() []*Entry { return r.entries }

// Waiting returns the workloads that cannot be used at the moment.
func (r *Roster) Waiting() []Waiting { return r.waiting }

// Changes returns how often workloads came, went or changed, and groups were found or lost. While it is unchanged, so
// is everything except the reasons of workloads without a group.
func (r *Roster) Changes() uint64 { return r.changes }

// Usage returns the CPU time that the group at path used. It uses the handle of the workload that has the group, or
// else opens the group.
func (r *Roster) Usage(path string) (unit.CPUTime, error) {
	for _, e := range r.entries {
		if e.Group != nil && e.Group.Path() == path {
			return e.Group.Usage()
		}
	}
	return cgroup.Peek(r.opts.Host, path, (*cgroup.Group).Usage)
}

// Standalone returns the workloads of a host without Kubernetes whose group is known, each with the path of its group.
func (r *Roster) Standalone() []workload.Workload {
	var all []workload.Workload
	for _, e := range r.entries {
		if e.Group != nil {
			all = append(all, e.Workload.In(e.Group.Path()))
		}
	}
	return all
}

// Started returns the start times of processes by workload and pid. They have to outlive the agent: a pid that the
// kernel gave to another process does not belong to the workload any more.
func (r *Roster) Started() map[string]map[int]uint64 {
	all := make(map[string]map[int]uint64, len(r.started))
	for name, processes := range r.started {
		all[name] = maps.Clone(processes)
	}
	return all
}

// Recall restores what an earlier agent of this boot knew. started is what its Started returned; held is the path of
// each workload's group, by workload name.
func (r *Roster) Recall(started map[string]map[int]uint64, held map[string]string) {
	maps.Copy(r.started, started)
	r.held = held
}

// Release closes the group of an Entry and records why. Find looks for it again.
func (r *Roster) Release(e *Entry, reason string) {
	known := e.Reason == reason
	r.drop(e, reason)
	if !known && !e.Workload.Stopped() {
		r.opts.Log.Info("workload waits", "workload", e.Workload.Name, "reason", reason)
	}
}

// Close closes all groups.
func (r *Roster) Close() {
	for _, e := range r.entries {
		r.drop(e, "the agent stops")
	}
}

// drop closes the group of an Entry, and thus gives up the claim to it.
func (r *Roster) drop(e *Entry, reason string) {
	e.Reason = reason
	if e.Group == nil {
		return
	}
	if err := e.Group.Close(); err != nil {
		r.opts.Fail("release", fmt.Errorf("close group of workload %s: %w", e.Workload.Name, err))
	}
	e.Group = nil
	r.changes++
}

// sameGroup reports whether both workloads name their processes in the same way.
func sameGroup(a, b *workload.Workload) bool {
	return a.Cgroup == b.Cgroup && a.Unit == b.Unit && slices.Equal(a.PIDs, b.PIDs)
}
