package placement

import "github.com/berth-project/berth/internal/alloc"

// Never returns why the node would refuse the pod also if nothing ran there: the
// reason to report, whatever runs there now. There is none where the empty node
// would take it.
func Never(s *alloc.Scratch, n Node, a *Ask) Refusal {
	n.RequestedMilli = 0
	_, refusal := Decide(s, n, &Occupancy{}, a)
	if refusal.Code == Promised { // nothing is promised there
		refusal.Code = TooLarge
	}
	return refusal
}
