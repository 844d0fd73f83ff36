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

func (g groups) value(base time.Duration) plan.Value {
	switch {
	case len(g.given) > 0 && len(g.lack) > 0:
		return Some
	case len(g.given) > 0:
		return All
	case len(g.another) > 0:
		return plan.Value(g.others(base))
	case len(g.lack) > 0 || len(g.have) == 0:
		return None
	}
	return All
}

// others says of the threads that were given something else what they have and had, of the first.
func (g groups) others(base time.Duration) string {
	const named = 3
	var parts []string
	for _, t := range g.another[:min(len(g.another), named)] {
		parts = append(parts, fmt.Sprintf("thread %d has %s, had %s", t.id, has(t.now, base), t.had))
	}
	if more := len(g.another) - named; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// look lists the threads of the group, by what the journal has of them.
func (j *job) look() (groups, error) {
	var all groups
	tids, foreign, err := j.host.ThreadIDs(j.group)
	switch {
	case err != nil:
		return all, err
	case foreign > 0:
		return all, fmt.Errorf("%s: %w", j.group.Path(), ErrUnseen)
	}
	threads, _ := j.call.Threads(j.at)
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
	return all, nil
}

// elsewhere are threads on record that are in other groups by now, and have what the knob names still. Processes that
// one of them started there are on no record.
func (j *job) elsewhere() (all []one, err error) {
	here, _, err := j.host.ThreadIDs(j.group)
	if err != nil {
		return nil, err
	}
	threads, _ := j.call.Threads(j.at)
	record, err := recordOf(threads)
	if err != nil {
		return nil, err
	}
	is := map[int]bool{}
	for _, tid := range here {
		is[tid] = true
	}
	for i, on := range threads {
		if is[on.TID] || j.done[on.TID] {
			continue
		}
		t, there, err := seen(on.TID)
		if err != nil {
			return nil, err
		}
		if t.had = record.had[i]; there && t.isOf(on) && j.aim.concerns(t.now) && j.aim.isMet(t.now) && !j.aim.wasMet(t.had) {
			all = append(all, t)
		}
	}
	return all, nil
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
		if met && (j.aim.policy != nil || j.aim.slice != j.base) {
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
		if on && !j.done[t.id] && !j.aim.same(has(t.now, j.base), t.had) {
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
