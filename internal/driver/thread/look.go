package thread

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/plan"
)

// one is a thread that the aim is for.
type one struct {
	id    int
	start uint64
	now   kernel.Scheduled
	had   had // before Berth
}

func (t one) isOf(j journal.Thread) bool { return j.TID == t.id && j.Start == t.start }

// groups are the threads of a group by what is to be done with them.
type groups struct {
	// lack have not what the knob names; given have it, and had another one before; have had
	// it before as well. Of those that lack it, another are on record with something else, too.
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

// others says of the threads that were given something else what they have and had, of the first.
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

// look lists the threads of the group, and those that left it, by what the journal has of them.
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

// listed are the threads of the group, none where it is gone.
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

// recorded are the threads on record, and says false where the journal does not have the target: its
// entry may be of a group that had the name before.
func (j *job) recorded() ([]journal.Thread, bool) {
	if j.group != nil && !j.call.IsOf(j.at, j.id) {
		return nil, false
	}
	return j.call.Threads(j.at)
}

// elsewhere are the threads outside of the group that have what the knob names from Berth: those on record,
// and those that processes on record started since. Processes that these started there are on no record.
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

// startedBy are the threads of a process, by its first thread, that are on no record: they have what they
// have from one that is.
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

// isGiven says whether a thread has what the knob names, and had something else.
func (j *job) isGiven(t one) bool {
	return !j.done[t.id] && j.aim.concerns(t.now) && j.aim.isMet(t.now) && !j.aim.wasMet(t.had)
}

// threadsOf lists the threads of a process by its first thread, and none by another one, or where it is
// gone.
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

// seen looks at one thread, and says false of one that is gone.
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

// sort puts a thread where it belongs. Before any is on record, none was given anything; whether a
// slice that equals the default was set does not show, and so it is.
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

// record is what the journal has of the threads of a target.
type record struct {
	threads []journal.Thread
	had     []had // of each of them
	common  had   // what all of them had, else the default
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
		r.common = r.had[0]
	}
	return r, nil
}

// of returns what a thread had, and says whether that is on record. Another has what it has from one
// that is.
func (r record) of(t one) (had, bool) {
	if i := slices.IndexFunc(r.threads, t.isOf); i >= 0 {
		return r.had[i], true
	}
	pid, err := kernel.ThreadProcess(t.id)
	if err != nil {
		return r.common, false
	}
	start, err := kernel.ThreadStart(pid)
	first := one{id: pid, start: start}
	if i := slices.IndexFunc(r.threads, first.isOf); i >= 0 && err == nil {
		return r.had[i], false
	}
	return r.common, false
}
