package top

import (
	"cmp"
	"fmt"
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

// rows returns the sorted workloads that pass the filter.
func (s *screen) rows() []row {
	earlier := map[string]*capability.Quota{}
	if s.before != nil {
		for _, w := range s.before.Workloads {
			earlier[w.Name] = w.Quota
		}
	}
	var rows []row
	holders := holdersOf(s.now)
	for i := range s.now.Workloads {
		r := rowOf(&s.now.Workloads[i], earlier[s.now.Workloads[i].Name], s.now.Pools)
		if at := slices.Index(holders, r.name); at >= 0 {
			r.holder = at
		}
		if strings.Contains(strings.ToLower(r.name+" "+r.state), strings.ToLower(s.filter)) {
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, s.order.compare)
	return rows
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
	case h == nil && w.Throttling != nil:
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
