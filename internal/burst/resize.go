package burst

import "time"

// YieldFor is how long a group keeps to its limit, without burst, after its owner
// announced a resize: as long as the new limit may take to show.
const YieldFor = 5 * time.Second

// resize keeps a container of a pod at its limit while its owner is about to write
// another one: on cgroup v1 the kernel refuses the pod a quota below that of a container
// in it, and everywhere one below the burst.
type resize struct {
	// until is how long an announced resize counts.
	until time.Duration
	// noBurst says that the group has no kernel burst meanwhile, held that its ceiling
	// is its limit, be the resize announced or only in the specification.
	noBurst, held bool
	// keeps says that the group of the pod stays as high as for the raised group, above until when.
	keeps bool
	above time.Duration
}

// Yield puts the group back to its limit, without burst, for YieldFor: its owner is
// about to write another limit, and what the specification says by now need not have
// come here yet. It says what has to be written at once. The group of the pod keeps its
// quota for as long: a kubelet that found that one raised takes what is less for a decrease,
// and writes the containers first, which the kernel refuses on cgroup v1 above their pod's.
func (g *Group) Yield(now time.Duration) (quota, burst bool) {
	g.resize.until = now + YieldFor
	if quota = g.Raised() && g.Facts.LimitQuota > 0; quota {
		g.Decision.Quota = g.Facts.LimitQuota
	}
	if quota || g.resize.keeps {
		g.resize.keeps, g.resize.above = true, g.resize.until
	}
	g.holdForResize(now)
	return quota, g.Facts.Burst > 0 && g.Policy.Kernel
}

// Resized says that a new limit stands: the announced resize is over for the group, not yet for
// others of its pod.
func (g *Group) Resized() { g.resize.until, g.resize.noBurst = 0, false }

// holdForResize bounds the group by its limit while it is being resized.
func (g *Group) holdForResize(now time.Duration) {
	g.resize.noBurst = now < g.resize.until
	g.resize.held = g.resize.noBurst || g.Resizing
	g.resize.keeps = g.resize.keeps && now < g.resize.above
	if g.resize.held {
		g.Facts.Ceiling = g.Facts.Limit()
	}
}
