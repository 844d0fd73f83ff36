package thread

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// one is a thread that the knob concerns, as the driver saw it.
type one struct {
	id    int
	start uint64
	now   kernel.Scheduled
	had   had // before Berth
}

func (t one) isOf(j journal.Thread) bool { return j.TID == t.id && j.Start == t.start }

// isGone reports whether the thread has ended, even if another thread has its id now.
func (t one) isGone() bool {
	start, err := kernel.ThreadStart(t.id)
	return err != nil || start != t.start
}

// groups are the threads of a group, sorted by what has to be done with them.
type groups struct {
	// Threads in lack do not have what the knob names. Threads in given have it, and had something else before. Threads
	// in have also had it before. another is the part of lack that the journal has with another setting than the
	// present one.
	lack, given, have, another []one
}

func (g groups) value(a aim, base time.Duration) plan.Value {
	switch {
	case len(g.given) > 0 && len(g.lack) > 0:
		return Some
	case len(g.given) > 0:
		return All
	case len(g.another) > 0:
		return plan.Value(g.others(a, base))
	case len(g.lack) > 0 || len(g.have) == 0:
		return None
	}
	return All
}

// others describes the threads in another: what the first three have and had, and how many more there are.
func (g groups) others(a aim, base time.Duration) string {
	const named = 3
	var parts []string
	for _, t := range g.another[:min(len(g.another), named)] {
		parts = append(parts, fmt.Sprintf("thread %d has %s, had %s", t.id, a.named(has(t.now, base)), a.named(t.had)))
	}
	if more := len(g.another) - named; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// look sorts the threads of the group, and the recorded threads that left it, by what the journal says about them.
func (j *job) look() (groups, error) {
	var all groups
	tids, err := j.listed()
	if err != nil {
		return all, err
	}
	threads, _ := j.recorded()
	record, err := recordOf(threads)
	if err != nil {
		return all, err
	}
	for _, tid := range tids {
		t, there, err := seen(tid)
		if err != nil {
			return all, err
		}
		if there && j.aim.concerns(t.now) {
			j.sort(&all, record, t)
		}
	}
	left, err := j.elsewhere(record, tids)
	all.given = append(all.given, left...)
	return all, err
}

// listed returns the threads of the group, and none if the group is gone.
func (j *job) listed() ([]int, error) {
	if j.group == nil {
		return nil, nil
	}
	tids, foreign, err := j.host.ThreadIDs(j.group)
	if err == nil && foreign > 0 {
		err = fmt.Errorf("%s: %w", j.at.Object, ErrUnseen)
	}
	return tids, err
}

// recorded returns the threads on record. It returns false if the journal has no entry for this group: the entry may
// belong to an earlier group of the same name.
func (j *job) recorded() ([]journal.Thread, bool) {
	if j.group != nil && !j.call.IsOf(j.at, j.id) {
		return nil, false
	}
	return j.call.Threads(j.at)
}

// elsewhere returns the threads outside the group that still have what Berth gave them: recorded threads, and threads
// that recorded processes started since. Child processes that were started outside the group are on no record.
func (j *job) elsewhere(r record, here []int) (all []one, err error) {
	passed := make(map[int]bool, len(here))
	for _, tid := range here {
		passed[tid] = true
	}
	var left []one
	for i, on := range r.threads {
		if passed[on.TID] {
			continue
		}
		t, there, err := seen(on.TID)
		if err != nil {
			return nil, err
		}
		if there && t.isOf(on) {
			t.had, passed[t.id] = r.had[i], true
			left = append(left, t)
		}
	}
	for _, t := range left {
		if j.isGiven(t) {
			all = append(all, t)
		}
		more, err := j.startedBy(t, passed)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// startedBy returns the threads of a process, named by its first thread, that are on no record. They inherited what
// they have from a recorded thread.
func (j *job) startedBy(first one, passed map[int]bool) (all []one, err error) {
	tids, err := threadsOf(first)
	if err != nil {
		return nil, err
	}
	for _, tid := range tids {
		if passed[tid] {
			continue
		}
		t, there, err := seen(tid)
		if err != nil {
			return nil, err
		}
		if t.had = first.had; there && j.isGiven(t) {
			all = append(all, t)
		}
	}
	return all, nil
}

// isGiven reports whether a thread has what the knob names and had something else before.
func (j *job) isGiven(t one) bool {
	return !j.done[t.id] && j.aim.concerns(t.now) && j.aim.isMet(t.now) && !j.aim.wasMet(t.had)
}

// threadsOf lists the threads of a process by its first thread. It returns none if the process is gone, or if first is
// not the first thread of its process.
func threadsOf(first one) ([]int, error) {
	if pid, err := kernel.ThreadProcess(first.id); err != nil || pid != first.id {
		return nil, nil //nolint:nilerr // it is gone
	}
	tids, err := kernel.ProcessThreads(first.id)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil, nil
	}
	if start, gone := kernel.ThreadStart(first.id); gone != nil || start != first.start { // another process has its id
		return nil, nil //nolint:nilerr // it is gone
	}
	return tids, err
}

// seen reads the state of a thread. It returns false if the thread is gone.
func seen(tid int) (one, bool, error) {
	start, err := kernel.ThreadStart(tid)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return one{}, false, nil
	}
	if err != nil {
		return one{}, false, err
	}
	now, err := kernel.ThreadScheduled(tid)
	if errors.Is(err, syscall.ESRCH) {
		return one{}, false, nil
	}
	return one{id: tid, start: start, now: now}, true, err
}

// sort adds a thread to the part of groups where it belongs. If no thread is on record, Berth gave nothing yet.
// Nothing shows whether somebody set a slice that equals the default, so the thread counts as lacking it and gets it.
func (j *job) sort(all *groups, r record, t one) {
	met := j.aim.isMet(t.now)
	if len(r.threads) == 0 {
		if met && (j.aim.policy != nil || j.aim.slice != j.slice) {
			all.have = append(all.have, t)
		} else {
			all.lack = append(all.lack, t)
		}
		return
	}
	var on bool
	t.had, on = r.of(t)
	switch {
	case j.done[t.id] || !met:
		all.lack = append(all.lack, t)
		if on && !j.done[t.id] && !j.aim.same(has(t.now, j.slice), t.had) {
			all.another = append(all.another, t)
		}
	case j.aim.wasMet(t.had):
		all.have = append(all.have, t)
	default:
		all.given = append(all.given, t)
	}
}

// record is what the journal says about the threads of a target.
type record struct {
	threads []journal.Thread
	had     []had // of each thread
	common  had   // what all threads had, else the default
	agree   bool  // all threads had the same
}

func recordOf(threads []journal.Thread) (record, error) {
	r := record{threads: threads}
	for _, t := range threads {
		h, err := parse(t.Had)
		if err != nil {
			return r, fmt.Errorf("thread %d in the journal: %w", t.TID, err)
		}
		r.had = append(r.had, h)
	}
	if same := func(h had) bool { return h == r.had[0] }; len(r.had) > 0 && !slices.ContainsFunc(r.had, func(h had) bool { return !same(h) }) {
		r.common, r.agree = r.had[0], true
	}
	return r, nil
}

// generations limits how many processes above a thread are looked at. The kernel has no cycle of them, but a process
// may end meanwhile and another may get its id.
const generations = 64

// of returns what a thread had, and whether the thread is on record. A thread that is not on record inherited its
// setting from a recorded one: in its process, or in the nearest process above. The latter is looked for only where the
// recorded threads had different settings.
func (r record) of(t one) (had, bool) {
	if i := slices.IndexFunc(r.threads, t.isOf); i >= 0 {
		return r.had[i], true
	}
	pid, err := kernel.ThreadProcess(t.id)
	for range generations {
		if err != nil || pid == 0 {
			break
		}
		start, gone := kernel.ThreadStart(pid)
		first := one{id: pid, start: start}
		if i := slices.IndexFunc(r.threads, first.isOf); i >= 0 && gone == nil {
			return r.had[i], false
		}
		if r.agree {
			break
		}
		pid, err = kernel.ThreadParent(pid)
	}
	return r.common, false
}
