package apply

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/hostwrite"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/plan"
)

// mostThreads bounds how many threads of a group are remembered: whoever is in the group
// chooses how many there are.
const mostThreads = 4096

// affinity is what an Applier found out about the affinities of threads.
type affinity struct {
	// keeps says that this kernel was seen to keep them over a change of CPUs: nothing is
	// to be done then.
	keeps bool
	// problem is why they cannot be kept here, "" while nothing speaks against it.
	problem string
	// before has, while a change is being made, the CPUs of the groups that journaled
	// threads were in.
	before map[plan.Target]map[int]cpuset.Set
}

// AffinityProblem says why a change of CPUs may cost threads of the group the affinity
// that they gave themselves, "" where nothing speaks for that.
func (a *Applier) AffinityProblem() string {
	if a.affinity.keeps {
		return ""
	}
	return a.affinity.problem
}

// within is what becomes of an affinity in a group that has these CPUs: where the two
// share none the kernel lets the thread run on all of the group's.
func within(asked, group cpuset.Set) cpuset.Set {
	if both := asked.Intersect(group); !both.IsEmpty() {
		return both
	}
	return group
}

// NoteThreads journals the affinities that threads gave themselves in a group whose CPUs
// are about to change, of which there is an entry. The error is ErrJournal, and then the
// change must not be made.
func (a *Applier) NoteThreads(g *cgroup.Group, t plan.Target) error {
	entry, known := a.journal.Entry(t)
	if !known || t.Knob != cgroup.KnobCPUs || a.affinity.keeps {
		return nil
	}
	before := map[int]cpuset.Set{}
	var threads []journal.Thread
	for tid, group := range a.threads(g) {
		thread, asks := threadOf(entry, tid, group)
		if asks && len(threads) < mostThreads {
			before[tid] = group
			threads = append(threads, thread)
		}
	}
	slices.SortFunc(threads, func(a, b journal.Thread) int { return a.TID - b.TID })
	if err := a.journal.KeepThreads(t, threads); err != nil {
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	if len(threads) > 0 {
		a.affinity.before[t] = before
	}
	return nil
}

// threadOf returns what the journal is to have for a thread, if that asked for an affinity
// of its own: what it has already, or what stands now.
func threadOf(e journal.Entry, tid int, group cpuset.Set) (journal.Thread, bool) {
	has, err := kernel.ThreadAffinity(tid)
	if err != nil {
		return journal.Thread{}, false // gone
	}
	old := slices.IndexFunc(e.Threads, func(o journal.Thread) bool { return o.TID == tid })
	if old < 0 && has == group {
		return journal.Thread{}, false
	}
	start, err := kernel.ThreadStart(tid)
	if err != nil {
		return journal.Thread{}, false // gone
	}
	if old >= 0 && e.Threads[old].Start == start && stillAsks(e.Threads[old], has, group) {
		return e.Threads[old], true
	}
	return journal.Thread{TID: tid, Start: start, CPUs: has.String()}, has != group
}

// stillAsks says that a thread has not given itself another affinity since it was
// journaled: it has what becomes of that one, or what the kernel resets it to.
func stillAsks(t journal.Thread, has, group cpuset.Set) bool {
	asked, err := cpuset.Parse(t.CPUs)
	return err == nil && (has == within(asked, group) || has == group)
}

// threads returns the threads that a change of CPUs reaches, with the CPUs of their group.
func (a *Applier) threads(g *cgroup.Group) map[int]cpuset.Set {
	tasks, foreign, err := g.Tasks()
	if err != nil {
		return nil // the change itself says what is wrong with the group
	}
	if foreign > 0 {
		a.affinity.problem = "the threads of other containers cannot be seen from this pid namespace: " +
			"a kernel that resets their affinity when CPU sets change, as Linux did before 6.2, takes it from them"
	}
	all := map[int]cpuset.Set{}
	for _, group := range tasks {
		for _, tid := range group.TIDs {
			all[tid] = group.CPUs
		}
	}
	return all
}

// RestoreThreads gives the threads of a group that were journaled their affinity again,
// within the CPUs that the group has now, where the kernel reset it.
//
// It tells that by what it finds: an affinity that follows from what was asked for is the
// kernel's work, or Berth's; all CPUs of the group are a reset; anything else is what the
// thread asked for meanwhile. A thread that asked for all of them meanwhile looks like one
// that was reset.
func (a *Applier) RestoreThreads(g *cgroup.Group, t plan.Target) {
	entry, _ := a.journal.Entry(t)
	if len(entry.Threads) == 0 || a.affinity.keeps {
		return
	}
	before := a.affinity.before[t]
	delete(a.affinity.before, t)
	now := a.threads(g)
	kept, reset := false, false
	for _, thread := range entry.Threads {
		group, there := now[thread.TID]
		if !there {
			continue
		}
		was, noted := before[thread.TID]
		switch a.restoreThread(thread, group) {
		case threadReset:
			reset = true
		case threadKept:
			kept = kept || noted && was != group
		case threadUnclear:
		}
	}
	if kept && !reset {
		a.affinity.keeps = true
		_ = a.journal.KeepThreads(t, nil) // best effort: the kernel knows them
	}
}

// threadState is what was found of a thread's affinity.
type threadState int

const (
	threadUnclear threadState = iota // it is gone, asked for something else, or has all in any case
	threadKept                       // it has what it asked for
	threadReset                      // it had all CPUs of its group, and was given back its own
)

// restoreThread gives one thread its affinity again, within the CPUs of its group.
func (a *Applier) restoreThread(thread journal.Thread, group cpuset.Set) threadState {
	asked, bad := cpuset.Parse(thread.CPUs)
	start, gone := kernel.ThreadStart(thread.TID)
	if bad != nil || gone != nil || start != thread.Start {
		return threadUnclear
	}
	has, err := kernel.ThreadAffinity(thread.TID)
	should := within(asked, group)
	switch {
	case err != nil, should == group:
		return threadUnclear
	case has == should:
		return threadKept
	case has != group:
		return threadUnclear
	}
	if err := hostwrite.Affinity(thread.TID, should); errors.Is(err, syscall.EPERM) {
		a.affinity.problem = "the kernel resets the affinity of threads when CPU sets change, and the agent may not give it back: " + err.Error()
	}
	return threadReset
}
