package placement

import "github.com/berth-project/berth/internal/capability/place/alloc"

// Never returns why the node would refuse the pod even if nothing ran there: a reason that does not depend on its
// present pods. There is none if the empty node would accept the pod.
func Never(s *alloc.Scratch, n Node, a *Ask) Refusal {
	n.RequestedMilli = 0
	_, refusal := Decide(s, n, &Occupancy{}, a)
	if refusal.Code == Promised { // nothing is promised there
		refusal.Code = TooLarge
	}
	return refusal
}
