package cgroupfile

import (
	"errors"
	"slices"
	"syscall"

	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// mostThreads limits how many threads of a group are journaled: the workload decides how many there are.
const mostThreads = 4096

// affinity is what the driver learned about the affinities of threads. All calls share it.
type affinity struct {
	// keeps is true once this kernel was seen to retain affinities when CPUs change. Then there is nothing to restore.
	keeps bool
	// resets is true once this kernel was seen to reset affinities.
	resets bool
	// problem says why affinities cannot be preserved here, "" if no reason is known.
	problem string
	// before has the CPUs of the groups that the journaled threads were in, by target, while a change is made.
	before map[string]map[int]cpuset.Set
}

// Limits implements apply.Limiter. It says why a change of CPUs may cost threads the affinity that they set
// themselves.
func (o *opener) Limits() string {
	if o.affinity.keeps {
		return ""
	}
	return o.affinity.problem
}

// within returns the affinity that results from asked in a group with these CPUs. If the two have no CPU in common,
// the kernel lets the thread run on all CPUs of the group.
func within(asked, group cpuset.Set) cpuset.Set {
	if both := asked.Intersect(group); !both.IsEmpty() {
		return both
	}
	return group
}

// Note implements apply.SideEffects. It journals the affinities that threads set themselves in a group whose CPUs are
// about to change.
func (s *groups) Note(t plan.Target) error {
	if !movesThreads(t) {
		return nil
	}
	known, journaled := s.call.Threads(t)
	switch kept := s.affinity.keeps && Knob(t) == cgroup.KnobCPUs; {
	case !journaled:
		return nil
	case kept && len(known) > 0:
		return s.call.KeepThreads(t, nil) // from an earlier agent: not needed on this kernel
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

// movesThreads reports whether a change of a target may cost threads their affinity.
func movesThreads(t plan.Target) bool {
	return Knob(t) == cgroup.KnobCPUs || Knob(t) == cgroup.KnobPartition
}

// reached returns the top group whose threads a change of a target reaches: a partition takes its CPUs from all other
// groups.
func reached(t plan.Target) string {
	if Knob(t) == cgroup.KnobPartition {
		return ""
	}
	return t.Object
}

// threadOf returns the journal entry of a thread, and whether the thread asked for an affinity of its own. The entry
// is the known one while the thread still asks for it, otherwise the present affinity.
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

// stillAsks reports whether a thread has not set another affinity since it was journaled: it has either the affinity
// that results from the journaled one, or the CPUs to which the kernel resets it.
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

// GiveBack implements apply.SideEffects. It restores the affinity of journaled threads that the kernel reset, within
// the CPUs that the group has now.
//
// The kernel does not report a reset, so GiveBack infers it. An affinity that results from the journaled one is the
// kernel's work, or Berth's. All CPUs of the group are a reset. Any other affinity is a later choice of the thread. A
// thread that has since chosen all CPUs of the group looks like a reset thread.
//
// A thread may have asked for CPUs that its group did not have. Those CPUs show only when the group gets them. If the
// thread then has all CPUs of the group, and none that it was seen to do without, the case is ambiguous. It is a reset
// on one kernel and the thread's own choice on another kernel, and narrowing the affinity would lose that choice for
// good. GiveBack therefore waits until a change shows which kernel this is, or until the group has a CPU that the
// thread did without.
//
// GiveBack infers nothing about the kernel from a change of a partition. A kernel that retains the affinities of
// programs may still reset the affinities of its own threads (see also widen).
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
		// The journal forgets a thread that has its affinity back: the thread may choose another affinity, and must
		// not be forced back. Best effort: the next change finds the same threads again.
		_ = s.call.KeepThreads(t, still)
	}
}

// giveBackAll restores the affinity of threads and returns the threads that must stay journaled. It also finds out
// whether this kernel retains affinities; then it returns none.
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

// unfinished returns the threads that must stay journaled, now that keeps is known. A change of a partition does not
// show how the kernel treats changes of CPU lists.
func (s *groups) unfinished(t plan.Target, still []journal.Thread, keeps bool) []journal.Thread {
	if Knob(t) == cgroup.KnobPartition {
		return still
	}
	if s.affinity.keeps = keeps; keeps {
		return nil
	}
	return still
}

// widen returns a function that gives journaled threads the CPUs of an ended partition back. The kernel does not
// return its own threads, such as the kswapd of a NUMA node, to the CPUs that it moved them off. A thread that is not
// journaled stays as it is, because its earlier affinity is unknown. A thread that asks for all visible CPUs while the
// partition exists therefore does not get the partition's CPUs later.
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
				_ = hostwrite.Affinity(thread.TID, should) // best effort, as for threads that the kernel reset
			}
		}
	}
}

// takenBy returns the CPUs of an ended partition. It returns false if the group still is a partition.
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

// asked returns the affinity that a journaled thread asked for, within a group with these CPUs. It returns false if
// the thread is gone.
func asked(noted journal.Thread, group cpuset.Set) (cpuset.Set, bool) {
	start, gone := kernel.ThreadStart(noted.TID)
	own, err := cpuset.Parse(noted.CPUs)
	return within(own, group), gone == nil && err == nil && start == noted.Start
}

// showsAll reports whether the group has all CPUs that the thread asked for, and more. Only then does a thread that was
// reset differ from a thread that was not.
func showsAll(t journal.Thread, group cpuset.Set) bool {
	asked, err := cpuset.Parse(t.CPUs)
	return err == nil && asked.IsSubsetOf(group) && asked != group
}

// threadState is what the driver found out about a thread's affinity.
type threadState int

const (
	threadUnclear threadState = iota // it is gone, chose another affinity, or asked for all CPUs
	threadKept                       // it has the affinity that it asked for
	threadReset                      // it has all CPUs of its group, and did not ask for them
	threadOpen                       // it has all CPUs of its group, and may have asked for them
)

// restoreThread restores the affinity of one thread if the kernel reset it, within the CPUs of its group.
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

// judge returns the state of a thread's affinity and the affinity that the thread should have. has is the thread's
// present affinity, and group the present CPUs of its group.
//
// A kernel that retains affinities also retains CPUs that the thread asked for and its group did not have. They show
// when the group gets them. A thread with all CPUs of its group was therefore reset only if it was seen to do without
// one of them.
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
