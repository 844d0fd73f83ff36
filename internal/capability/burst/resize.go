package burst

import "time"

// YieldFor is how long a group stays at its limit, without burst, after its owner announced a resize: the time that the
// new limit may need to show.
const YieldFor = 5 * time.Second

// resize keeps a container of a pod at its limit while its owner is about to write another limit. On cgroup v1 the
// kernel refuses a pod's quota below the quota of a container in it. On both versions it refuses a quota below the
// burst.
type resize struct {
	// until is the end of an announced resize.
	until time.Duration
	// noBurst is true while the group has no kernel burst for an announced resize. held is true while its ceiling is
	// its limit, for a resize that is announced or only in the specification.
	noBurst, held bool
	// keeps is true while the pod's group still has the quota that it had for the raised container, at most until
	// above.
	keeps bool
	above time.Duration
}

// Yield puts the group back to its limit, without burst, for YieldFor: its owner is about to write another limit, and
// the specification may not have arrived yet. It returns which of quota and burst must be written at once. The pod's
// group retains its quota for the same time. A kubelet that finds the pod raised mistakes a lower quota for a decrease,
// and writes the containers first. On cgroup v1 the kernel refuses a container a quota above its pod's.
func (g *Group) Yield(now time.Duration) (quota, burst bool) {
	g.resize.until = now + YieldFor
	if quota = g.Raised() && g.Facts.LimitQuota > 0; quota {
		g.Decision.Quota = g.Facts.LimitQuota
	}
	if quota || g.resize.keeps {
		g.resize.keeps, g.resize.above = true, g.resize.until
	}
	g.holdForResize(now)
	return quota, g.Facts.Burst > 0 && g.Policy.KernelBurst
}

// Resized records that a new limit is in effect: the announced resize is over for the group, but not yet for other
// groups of its pod.
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
