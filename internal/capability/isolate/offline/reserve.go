package offline

import (
	"cmp"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// reserve is the pull reserve: CPUs that idle offline work leaves free while it has no cores of its own.
type reserve struct {
	// asked means that there should be a reserve. limit is why it is not possible, "" if it is. cpus are the CPUs of
	// the reserve.
	asked bool
	limit string
	cpus  cpuset.Set
}

// Reserve is the shown state of a requested pull reserve.
type Reserve struct {
	// CPUs are the CPUs that offline work leaves free, Limit is why there are none.
	CPUs  string `json:"cpus"`
	Limit string `json:"limit,omitempty"`
}

// leave passes the reserve on in n.Offline. There is no reserve while offline work has cores of its own ready: online
// work then has its side to itself. There is also none while a BPF scheduler has all threads: it ignores cpu.idle when
// it chooses threads to pull, and offline work would lose the CPUs for nothing.
func (w *Work) leave(n *capability.Node) {
	percent := 0
	if n.Config != nil {
		percent = int(*n.Config.Isolation.PullReservePercent)
	}
	r := &w.precedences.reserve
	if r.asked = percent > 0 && w.precedences.yields && len(n.Offline.Cores) < 2; !r.asked {
		r.cpus = cpuset.Set{}
		return
	}
	before := r.cpus
	r.limit = cmp.Or(n.Obstacle.Message, w.unenforced())
	if w.unenforced() != "" {
		r.cpus = cpuset.Set{}
	} else if n.Topology != nil { // otherwise it stays as it was
		r.cpus = isolate.Reserve(w.movable(n), r.cpus, percent)
	}
	if r.cpus != before {
		w.opts.Log.Info("reserve", "cpus", r.cpus.String())
	}
	if !r.cpus.IsEmpty() {
		n.Offline.Reserve, n.Offline.Why = r.cpus, "which stay free of offline work (isolation.pullReservePercent)"
	}
}

// report returns what status shows, nil if no reserve is requested.
func (r *reserve) report() *Reserve {
	switch {
	case !r.asked:
		return nil
	case r.limit != "":
		return &Reserve{Limit: r.limit}
	case r.cpus.IsEmpty():
		return &Reserve{Limit: "no L3 has two cores that offline work may run on"}
	}
	return &Reserve{CPUs: r.cpus.String()}
}

// line returns the same for people.
func (r *Reserve) line() string {
	if r.Limit != "" {
		return "reserve: none: " + r.Limit
	}
	return "reserve: CPUs " + r.CPUs + " stay free of offline work"
}
