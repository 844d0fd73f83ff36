package offline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// lasts is how long both sides must share cores before Berth reports it: the next pass after a container was made may
// end the sharing.
const lasts = 2 * time.Second

// overlap has the cores that run groups of both sides, by the CPUs in effect.
type overlap struct {
	// cpus are the CPUs of these cores.
	cpus  cpuset.Set
	cores int
	// online and offline are a group of each side on one of them.
	online, offline string
	// binding names the offline containers that other programs bound to these CPUs, "" for none.
	binding string
	// first is when an overlap first appeared, 0 for none now, last when Saw was called.
	first, last time.Duration
}

// Saw stores the CPUs on which a pass found the groups, and what its writes cost.
func (w *Work) Saw(now time.Duration, found *reconcile.Report) {
	o := overlap{first: w.overlap.first, last: now}
	if t := w.last.topology; t != nil && w.decision.Exists {
		o.find(t, found.Groups)
	}
	if o.cpus.IsEmpty() {
		o.first = 0
	} else {
		o.first = cmp.Or(o.first, max(now, 1))
		o.binding = bindingOf(w.opts.Placed().Rows, o.cpus)
	}
	w.overlap = o
	w.heed(found.Limits)
	w.cookies.Saw()
}

// bindingOf names the offline containers that other programs bound to some of these CPUs and to no other CPUs of
// offline work, "" for none.
func bindingOf(rows []place.Row, cpus cpuset.Set) string {
	var all []string
	for i := range rows {
		if r := &rows[i]; r.Bound && r.Desired.Intersects(cpus) && !slices.Contains(all, r.Pod) {
			all = append(all, r.Pod)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "bound there by others, which Berth leaves as it is: " + strings.Join(all, ", ")
}

// find compares the sides core by core.
func (o *overlap) find(t *topology.Topology, groups []reconcile.Status) {
	var online, offline cpuset.Set
	for _, g := range groups {
		if g.Owner == plan.OwnerIsolate {
			offline = offline.Union(g.CPUs)
		} else {
			online = online.Union(g.CPUs)
		}
	}
	for _, c := range t.Cores {
		if c.CPUs.Intersects(online) && c.CPUs.Intersects(offline) {
			o.cpus, o.cores = o.cpus.Union(c.CPUs), o.cores+1
		}
	}
	for _, g := range groups {
		switch {
		case !g.CPUs.Intersects(o.cpus):
		case g.Owner == plan.OwnerIsolate:
			o.offline = g.Group
		default:
			o.online = g.Group
		}
	}
}

// text says which cores are shared, "" for none or if the sharing is younger than lasts.
func (o *overlap) text() string {
	if o.first == 0 || o.last-o.first < lasts {
		return ""
	}
	text := fmt.Sprintf("the cores of CPUs %s run online and offline containers: %s and %s, for example", o.cpus, o.online, o.offline)
	if o.binding != "" {
		text += "; " + o.binding
	}
	return text
}
