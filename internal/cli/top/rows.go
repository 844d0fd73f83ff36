package top

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
)

// order is the sort order of workloads.
type order int

const (
	byName order = iota
	byCPUs
	byCredit
	byThrottling
	orders
)

func (o order) String() string {
	return [orders]string{byName: "name", byCPUs: "CPUs", byCredit: "credit", byThrottling: "throttling"}[o]
}

// compare sorts first what an administrator looks for: many CPUs, little credit, much throttling.
func (o order) compare(a, b row) int {
	var c int
	switch o {
	case byCPUs:
		c = cmp.Compare(b.count, a.count)
	case byCredit:
		c = cmp.Compare(a.credit, b.credit)
	case byThrottling:
		c = cmp.Compare(max(b.throttled, b.above), max(a.throttled, a.above))
	}
	return cmp.Or(c, strings.Compare(a.name, b.name))
}

// row is one workload.
type row struct {
	name, state, cpus, quota string
	count                    int
	// credit is a share of its maximum, +Inf for a workload without credit or maximum.
	credit float64
	// throttled and above are shares of the periods, -1 if there was no period.
	throttled, above float64
	holder           int // -1 for none
	// helps is true if burst would help a workload that did not ask for it.
	helps bool
}

// listing has the rows of a view, so that the next view formats and sorts only the rows that changed.
type listing struct {
	now, before *view.View
	order       order
	filter      string
	// all are in the order of the view; rows pass the filter, and are sorted.
	all, rows []row
	// holders are the places of workloads among those with exclusive CPUs.
	holders map[string]int
}

// rows returns the sorted workloads that pass the filter. They are valid until the next call.
func (s *screen) rows() []row {
	l := &s.made.rows
	if l.now == s.now && l.before == s.before && l.order == s.order && l.filter == s.filter {
		return l.rows
	}
	if l.continues(s) {
		l.change(s.now)
	} else {
		*l = listing{order: s.order, filter: s.filter, holders: placesOf(holdersOf(s.now))}
		l.begin(s.before, s.now)
	}
	l.now, l.before = s.now, s.before
	return l.rows
}

// continues reports whether a screen shows the next view of the listing, with the same workloads, holders and pools.
func (l *listing) continues(s *screen) bool {
	same := func(a, b view.Workload) bool { return a.Name == b.Name }
	held := func(a, b view.CPU) bool { return a.Holder == b.Holder } // mostly, and then nothing needs to be sorted
	return l.now != nil && l.now == s.before && l.order == s.order && l.filter == s.filter &&
		slices.EqualFunc(l.now.Workloads, s.now.Workloads, same) && slices.Equal(l.now.Pools, s.now.Pools) &&
		(slices.EqualFunc(l.now.CPUs, s.now.CPUs, held) || maps.Equal(l.holders, placesOf(holdersOf(s.now))))
}

// begin makes all rows.
func (l *listing) begin(before, now *view.View) {
	earlier := map[string]*capability.Quota{}
	if before != nil {
		for _, w := range before.Workloads {
			earlier[w.Name] = w.Quota
		}
	}
	l.all = make([]row, len(now.Workloads))
	for i := range now.Workloads {
		w := &now.Workloads[i]
		l.all[i] = rowOf(w, earlier[w.Name], now.Pools)
		if at, holds := l.holders[w.Name]; holds {
			l.all[i].holder = at
		}
	}
	l.sort()
}

// change makes the rows that changed since the last view. A row with shares changes once more after its workload: then
// there was no period.
func (l *listing) change(now *view.View) {
	var at []int
	var next []row
	for i := range now.Workloads {
		w, was, old := &now.Workloads[i], &l.now.Workloads[i], &l.all[i]
		if *w == *was && (w.Quota == nil || old.throttled < 0 && old.above < 0) {
			continue // a stream leaves the parts of an unchanged workload as they are
		}
		r := rowOf(w, was.Quota, now.Pools)
		if r.holder = old.holder; r != *old {
			at, next = append(at, i), append(next, r)
		}
	}
	const few = 8
	if len(at) > len(l.all)/few {
		for i, r := range next {
			l.all[at[i]] = r
		}
		l.sort()
		return
	}
	for i, r := range next {
		l.replace(l.all[at[i]], r)
		l.all[at[i]] = r
	}
}

// replace puts a row in the place of another; bisection finds both places. No two rows are equal in their order.
func (l *listing) replace(old, next row) {
	if at, shown := slices.BinarySearchFunc(l.rows, old, l.order.compare); shown {
		l.rows = slices.Delete(l.rows, at, at+1)
	}
	if l.passes(&next) {
		at, _ := slices.BinarySearchFunc(l.rows, next, l.order.compare)
		l.rows = slices.Insert(l.rows, at, next)
	}
}

// sort filters and sorts all rows.
func (l *listing) sort() {
	l.rows = l.rows[:0]
	for i := range l.all {
		if l.passes(&l.all[i]) {
			l.rows = append(l.rows, l.all[i])
		}
	}
	slices.SortStableFunc(l.rows, l.order.compare)
}

func (l *listing) passes(r *row) bool {
	return l.filter == "" || strings.Contains(strings.ToLower(r.name+" "+r.state), strings.ToLower(l.filter))
}

// found returns the rows and the index of the selected row, or 0 if that row is gone.
func (s *screen) found() (selected int, rows []row) {
	rows = s.rows()
	return max(0, slices.IndexFunc(rows, func(r row) bool { return r.name == s.selected })), rows
}

func rowOf(w *view.Workload, before *capability.Quota, pools []capability.Pool) row {
	r := row{name: w.Name, state: stateOf(w, pools), cpus: "-", quota: "-", credit: math.Inf(1), throttled: -1, above: -1, holder: -1}
	if h := w.CPUs; h != nil {
		r.count = h.CPUs.Size()
		r.cpus = cmp.Or(h.CPUs.String(), "-")
	}
	q := w.Quota
	if t := w.Throttling; q == nil && t != nil {
		r.quota, r.throttled, r.helps = cpus(t.Limit)+"/"+cpus(t.Limit), share(t.Throttled, t.Periods), t.BurstHelps
	}
	if q == nil {
		return r
	}
	r.quota = cpus(q.Now) + "/" + cpus(q.Limit)
	if q.Capacity > 0 {
		r.credit = max(0, min(q.Credit/q.Capacity, 1))
	}
	if before == nil || before.Periods > q.Periods {
		before = &capability.Quota{} // since the group was made
	}
	r.throttled = share(rise(before.Throttled, q.Throttled), q.Periods-before.Periods)
	r.above = share(rise(before.Above, q.Above), q.Periods-before.Periods)
	return r
}

// rise returns how much a counter rose. A counter that fell is of another group: of a group that was made again, or of
// fewer groups above.
func rise(before, now uint64) uint64 { return now - min(before, now) }

// stateOf returns a workload's state in a word: its pool if it asks for nothing.
func stateOf(w *view.Workload, pools []capability.Pool) string {
	h := w.CPUs
	switch {
	case h != nil && h.Refused != "":
		return "refused"
	case w.Status != nil:
		return string(w.Status.State)
	case h == nil && w.Unmanaged():
		return "unmanaged"
	case h == nil || h.CPUs.IsEmpty():
		return "-"
	case h.Exclusive:
		return "pinned"
	}
	for _, p := range pools {
		if h.CPUs.IsSubsetOf(p.CPUs) {
			return p.Name
		}
	}
	return "-"
}

// cpus formats a number of CPUs; -1 means no limit.
func cpus(n float64) string {
	if n < 0 {
		return "max"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0")
}

// share returns part/whole, or -1 if whole is 0.
func share(part, whole uint64) float64 {
	if whole == 0 {
		return -1
	}
	return min(float64(part)/float64(whole), 1)
}

// percent formats a share.
func percent(share float64) string {
	if share < 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// holdersOf returns the workloads with exclusive CPUs, by name.
func holdersOf(v *view.View) []string {
	var all []string
	for _, c := range v.CPUs {
		if c.Holder != "" {
			all = append(all, c.Holder)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// placesOf returns the place of each holder.
func placesOf(holders []string) map[string]int {
	at := make(map[string]int, len(holders))
	for i, name := range holders {
		at[name] = i
	}
	return at
}
