package roster

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/unit"
	"github.com/berth-project/berth/internal/workload"
)

// Ready is a workload that counts, with what is wrong about it all the same.
type Ready struct {
	Workload workload.Workload
	Warnings []string
}

// Waiting is a workload that does not count at the moment, and why: what it names is not
// there yet, or its file is damaged. Of a damaged one only the name is known.
type Waiting struct {
	Workload workload.Workload
	Reason   string
	// Damaged says that the file is at fault: it is listed among the problems.
	Damaged bool
}

// Options is what a Roster needs from its surroundings. Every field is required.
type Options struct {
	Host *cgroup.Host
	Log  *slog.Logger
	// Fail is called with a failure of the agent's own work.
	Fail func(what string, err error)
}

// Roster is the workloads of this node. It is for one goroutine at a time.
type Roster struct {
	opts    Options
	byName  map[string]*Entry
	entries []*Entry // by name
	waiting []Waiting
	// started are the start times of processes by workload and pid, once they were found.
	// Those of a workload that waits stay.
	started map[string]map[int]uint64
	// held are the groups of an earlier agent's workloads, until they were looked for.
	held    map[string]string
	changes uint64
}

// New returns a Roster of no workload yet.
func New(opts Options) *Roster {
	return &Roster{opts: opts, byName: map[string]*Entry{}, started: map[string]map[int]uint64{}}
}

// Adopt makes the workloads those of ready. One that stays keeps its Entry and, unless it
// names its group anew, its group.
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

// waits says whether a workload counts once what it names is there.
func (r *Roster) waits(name string) bool {
	return slices.ContainsFunc(r.waiting, func(w Waiting) bool { return w.Workload.Name == name })
}

// Entries are the workloads that count, by name. Callers change neither the slice nor what
// is in it.
func (r *Roster) Entries() []*Entry { return r.entries }

// Waiting are the workloads that do not count at the moment.
func (r *Roster) Waiting() []Waiting { return r.waiting }

// Changes counts how often workloads came, went or changed, and groups were found or lost:
// while it stays, so does everything but the reasons of those without a group.
func (r *Roster) Changes() uint64 { return r.changes }

// Usage returns the CPU time that the group at path used: by the handle of the workload that has it,
// else opened for that.
func (r *Roster) Usage(path string) (unit.CPUTime, error) {
	for _, e := range r.entries {
		if e.Group != nil && e.Group.Path() == path {
			return e.Group.Usage()
		}
	}
	return cgroup.Peek(r.opts.Host, path, (*cgroup.Group).Usage)
}

// Standalone are the workloads of a host without Kubernetes whose group is known, each by
// that.
func (r *Roster) Standalone() []workload.Workload {
	var all []workload.Workload
	for _, e := range r.entries {
		if e.Group != nil {
			all = append(all, e.Workload.In(e.Group.Path()))
		}
	}
	return all
}

// Started are the start times of processes by workload and pid. They have to outlive the
// agent: a pid that the kernel gave to another process is not the workload's any more.
func (r *Roster) Started() map[string]map[int]uint64 {
	all := make(map[string]map[int]uint64, len(r.started))
	for name, processes := range r.started {
		all[name] = maps.Clone(processes)
	}
	return all
}

// Recall takes over what an earlier agent of this boot had Started, and the groups that its
// workloads had, by name.
func (r *Roster) Recall(started map[string]map[int]uint64, held map[string]string) {
	maps.Copy(r.started, started)
	r.held = held
}

// Release takes the group from an Entry and says why. Find looks for it again.
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

// drop closes the group of an Entry, and with it gives up the claim to it.
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

// sameGroup says whether both values name their processes alike.
func sameGroup(a, b *workload.Workload) bool {
	return a.Cgroup == b.Cgroup && a.Unit == b.Unit && slices.Equal(a.PIDs, b.PIDs)
}
