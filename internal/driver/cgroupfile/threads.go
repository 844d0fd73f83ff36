package cgroupfile

import (
	"errors"
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

// affinity is what was found out about the affinities of threads. All calls share it.
type affinity struct {
	// keeps says that this kernel was seen to keep them over a change of CPUs: nothing is
	// to be done then.
	keeps bool
	// resets says that it was seen to reset them.
	resets bool
	// problem is why they cannot be kept here, "" while nothing speaks against it.
	problem string
	// before has, by group and while a change is being made, the CPUs of the groups that
	// journaled threads were in.
	before map[string]map[int]cpuset.Set
}

// Limits is apply.Limiter: why a change of CPUs may cost threads the affinity that they
// gave themselves.
func (o *opener) Limits() string {
	if o.affinity.keeps {
		return ""
	}
	return o.affinity.problem
}

// within is what becomes of an affinity in a group that has these CPUs: where the two
// share none the kernel lets the thread run on all of the group's.
func within(asked, group cpuset.Set) cpuset.Set {
	if both := asked.Intersect(group); !both.IsEmpty() {
		return both
	}
	return group
}

// Note is apply.SideEffects: it journals the affinities that threads gave themselves in a
// group whose CPUs are about to change.
func (s *groups) Note(t plan.Target) error {
	if !movesThreads(t) {
		return nil
	}
	known, journaled := s.call.Threads(t)
	switch kept := s.affinity.keeps && Knob(t) == cgroup.KnobCPUs; {
	case !journaled:
		return nil
	case kept && len(known) > 0:
		return s.call.KeepThreads(t, nil) // what an earlier agent noted is the kernel's to keep
	case kept:
		return nil
	}
	g, err := s.get(reached(t))
	if err != nil {
		return nil //nolint:nilerr // the change itself says what is wrong with the group
	}
	before := map[int]cpuset.Set{}
	var threads []journal.Thread
	for tid, group := range s.threads(g) {
		thread, asks := threadOf(known, tid, group)
		if asks && len(threads) < mostThreads && !kernel.ThreadIsBound(tid) {
			before[tid] = group
			threads = append(threads, thread)
		}
	}
	slices.SortFunc(threads, func(a, b journal.Thread) int { return a.TID - b.TID })
	if err := s.call.KeepThreads(t, threads); err != nil {
		return err
	}
	if len(threads) > 0 {
		s.affinity.before[t.String()] = before
	}
	return nil
}

// movesThreads says that a change of a target may cost threads their affinity.
func movesThreads(t plan.Target) bool {
	return Knob(t) == cgroup.KnobCPUs || Knob(t) == cgroup.KnobPartition
}

// reached is the group at the top of those whose threads a change of a target reaches: a
// partition takes its CPUs from all others.
func reached(t plan.Target) string {
	if Knob(t) == cgroup.KnobPartition {
		return ""
	}
	return t.Object
}

// threadOf returns what the journal is to have for a thread, if that asked for an affinity
// of its own: what it has already, or what stands now.
func threadOf(known []journal.Thread, tid int, group cpuset.Set) (journal.Thread, bool) {
	has, err := kernel.ThreadAffinity(tid)
	if err != nil {
		return journal.Thread{}, false // gone
	}
	old := slices.IndexFunc(known, func(o journal.Thread) bool { return o.TID == tid })
	if old < 0 && has == group {
		return journal.Thread{}, false
	}
	start, err := kernel.ThreadStart(tid)
	if err != nil {
		return journal.Thread{}, false // gone
	}
	if old >= 0 && known[old].Start == start && stillAsks(known[old], has, group) {
		return known[old], true
	}
	return journal.Thread{TID: tid, Start: start, CPUs: has.String(), Without: group.Difference(has).String()}, has != group
}

// stillAsks says that a thread has not given itself another affinity since it was
// journaled: it has what becomes of that one, or what the kernel resets it to.
func stillAsks(t journal.Thread, has, group cpuset.Set) bool {
	asked, err := cpuset.Parse(t.CPUs)
	return err == nil && (has == within(asked, group) || has == group)
}

// threads returns the threads that a change of CPUs reaches, with the CPUs of their group.
func (s *groups) threads(g *cgroup.Group) map[int]cpuset.Set {
	tasks, foreign, err := g.Tasks()
	if err != nil {
		return nil // the change itself says what is wrong with the group
	}
	if foreign > 0 {
		s.affinity.problem = "the threads of other containers cannot be seen from this pid namespace: " +
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

// GiveBack is apply.SideEffects: it gives the threads of a group that were journaled their
// affinity again, within the CPUs that the group has now, where the kernel reset it.
//
// It infers that from what it finds: an affinity that follows from what was asked for is the
// kernel's work, or Berth's; all CPUs of the group are a reset; anything else is what the
// thread asked for meanwhile. A thread that asked for all of them meanwhile looks like one
// that was reset.
//
// A thread that asked for more than its group had shows the rest only when the group gets
// it. Where it then has all CPUs of the group, none of which it was seen to do without,
// that is a reset on one kernel and its own choice on the other, which would be lost for good
// if it were narrowed. So it is left as it is until a change shows which kernel this is, or
// until the group has one of the CPUs that it did without.
//
// Of partitions it infers nothing about the kernel: one that keeps the affinities of programs
// may reset those of its own threads (see also widen).
func (s *groups) GiveBack(t plan.Target) {
	g, err := s.get(reached(t))
	if err != nil || !movesThreads(t) {
		return
	}
	if Knob(t) == cgroup.KnobPartition {
		defer s.widen(g, t)()
	}
	s.giveBack(g, t)
}

func (s *groups) giveBack(g *cgroup.Group, t plan.Target) {
	threads, _ := s.call.Threads(t)
	if len(threads) == 0 {
		return
	}
	var still []journal.Thread
	if !s.affinity.keeps || Knob(t) == cgroup.KnobPartition {
		still = s.giveBackAll(g, t, threads)
	}
	if len(still) < len(threads) {
		// What a thread has again it may give up any time: noted longer, it would be
		// forced back into it. Best effort: the threads are there again next time.
		_ = s.call.KeepThreads(t, still)
	}
}

// giveBackAll gives threads their affinity again and returns those of which it is not
// over. It finds out whether this kernel keeps affinities: then it is over for all.
func (s *groups) giveBackAll(g *cgroup.Group, t plan.Target, threads []journal.Thread) []journal.Thread {
	before := s.affinity.before[t.String()]
	delete(s.affinity.before, t.String())
	now := s.threads(g)
	kept, reset := false, false
	var still []journal.Thread
	for _, thread := range threads {
		group, there := now[thread.TID]
		if !there {
			continue
		}
		was, noted := before[thread.TID]
		changed, same := noted && was != group, noted && was == group
		state := s.restoreThread(thread, group)
		if same || state == threadOpen || !showsAll(thread, group) {
			still = append(still, thread)
		}
		kept = kept || changed && state == threadKept
		reset = reset || state == threadReset
		s.affinity.resets = s.affinity.resets || changed && state == threadReset && Knob(t) == cgroup.KnobCPUs
	}
	return s.unfinished(t, still, kept && !reset)
}

// unfinished returns the threads of which it is not over, now that it is known whether this kernel
// keeps affinities. A change of a partition says nothing of lists of CPUs.
func (s *groups) unfinished(t plan.Target, still []journal.Thread, keeps bool) []journal.Thread {
	if Knob(t) == cgroup.KnobPartition {
		return still
	}
	if s.affinity.keeps = keeps; keeps {
		return nil
	}
	return still
}

// widen returns what gives noted threads back the CPUs of a partition that is none any more: the kernel
// leaves its own threads that it moved off them where they are, such as kswapd of a NUMA node. A thread
// that was not noted is left alone, whatever it has: what it had before is not known. So one that
// asks, while there is a partition, for all that it then sees has asked for no more.
func (s *groups) widen(top *cgroup.Group, t plan.Target) func() {
	noted, _ := s.call.Threads(t)
	return func() {
		taken, over := s.takenBy(t)
		if !over || len(noted) == 0 {
			return
		}
		now := s.threads(top)
		for _, thread := range noted {
			group, there := now[thread.TID]
			should, known := asked(thread, group)
			has, err := kernel.ThreadAffinity(thread.TID)
			if there && known && err == nil && should.Intersects(taken) && has == should.Difference(taken) {
				_ = hostwrite.Affinity(thread.TID, should) // best effort, as for those that the kernel reset
			}
		}
	}
}

// takenBy returns the CPUs of a partition that is none any more, and false where there is one.
func (s *groups) takenBy(t plan.Target) (taken cpuset.Set, over bool) {
	g, err := s.get(t.Object)
	if err != nil {
		return taken, false
	}
	now, err := g.Read(cgroup.KnobPartition)
	if err != nil || now != cgroup.Member {
		return taken, false
	}
	list, err := g.Read(cgroup.KnobCPUs)
	if err != nil {
		return taken, false
	}
	taken, _, err = list.List()
	return taken, err == nil
}

// asked is what a noted thread asked for, within a group with these CPUs, and false for one that is gone.
func asked(noted journal.Thread, group cpuset.Set) (cpuset.Set, bool) {
	start, gone := kernel.ThreadStart(noted.TID)
	own, err := cpuset.Parse(noted.CPUs)
	return within(own, group), gone == nil && err == nil && start == noted.Start
}

// showsAll says that a thread which has what it asked for has all of it in this group, and
// that the group has more: a thread that was reset would look different.
func showsAll(t journal.Thread, group cpuset.Set) bool {
	asked, err := cpuset.Parse(t.CPUs)
	return err == nil && asked.IsSubsetOf(group) && asked != group
}

// threadState is what was found of a thread's affinity.
type threadState int

const (
	threadUnclear threadState = iota // it is gone, asked for something else, or has all in any case
	threadKept                       // it has what it asked for
	threadReset                      // it has all CPUs of its group, and did not ask for them
	threadOpen                       // it has all CPUs of its group, and may have asked for them
)

// restoreThread gives one thread its affinity again, within the CPUs of its group.
func (s *groups) restoreThread(thread journal.Thread, group cpuset.Set) threadState {
	start, gone := kernel.ThreadStart(thread.TID)
	if gone != nil || start != thread.Start {
		return threadUnclear
	}
	has, err := kernel.ThreadAffinity(thread.TID)
	if err != nil {
		return threadUnclear
	}
	state, should := judge(thread, has, group)
	if state == threadOpen && s.affinity.resets {
		state = threadReset
	}
	if state != threadReset {
		return state
	}
	if err := hostwrite.Affinity(thread.TID, should); errors.Is(err, syscall.EPERM) {
		s.affinity.problem = "the kernel resets the affinity of threads when CPU sets change, and the agent may not give it back: " + err.Error()
	}
	return threadReset
}

// judge says what became of the affinity of a thread which has these CPUs in its group now,
// and which it should have.
//
// A kernel that keeps affinities also keeps what the thread asked for beyond the CPUs that
// its group had, and that shows when the group gets such CPUs. So a thread with all CPUs of
// its group was reset only if it was seen to do without one of them.
func judge(thread journal.Thread, has, group cpuset.Set) (threadState, cpuset.Set) {
	asked, bad := cpuset.Parse(thread.CPUs)
	without, worse := cpuset.Parse(thread.Without)
	should := within(asked, group)
	switch {
	case bad != nil, worse != nil, should == group:
		return threadUnclear, should
	case has != group && has.Intersect(asked.Union(without)) == should:
		return threadKept, should
	case has != group:
		return threadUnclear, should
	case has.Intersects(without):
		return threadReset, should
	}
	return threadOpen, should
}
