package apiclient

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/berth-project/berth/api/v1alpha1"
)

// LeaseAllowed is how long ago the agent of a node may have renewed its Lease, as long as the
// scheduler's arguments say nothing else.
const LeaseAllowed = v1alpha1.DefaultStaleAfterSeconds * time.Second

// An agent renews its Lease every LeaseRenewed, and looks at it every LeaseLooked in between; either may take it
// LeaseAnswered.
const (
	LeaseRenewed  = time.Minute
	LeaseLooked   = 10 * time.Second
	LeaseAnswered = 4 * time.Second
)

// LeaseQuiet is for how long the Lease of an agent that lives stays unchanged at most. The time for a renewal may come
// just after a look, and an API server that went away without a word costs its client 45 s (30 s until an HTTP/2 ping,
// 15 s for its answer).
const LeaseQuiet = 2 * LeaseRenewed

// LeaseAge is how long ago a Lease was renewed, by the clocks of its node and of this host, and
// whether that is so long that its agent does not count as alive.
func LeaseAge(renewed, now time.Time) (age time.Duration, silent bool) {
	age = now.Sub(renewed)
	return age, age > LeaseAllowed
}

// Sighting is what one observer saw of a Lease. Clocks of hosts differ, so an agent lives as long as its renewals are seen
// to go on, and the observer's own clock alone counts. The zero value is of a Lease that nobody looked at.
type Sighting struct {
	last  *coordinationv1.LeaseSpec
	since time.Time // zero while it is not known since when last stands
	moved bool
}

// See takes in what a Lease says at a moment of the observer's clock.
func (s *Sighting) See(l *coordinationv1.LeaseSpec, now time.Time) {
	same := s.last != nil && holderOf(s.last) == holderOf(l) && s.last.RenewTime.Equal(l.RenewTime)
	s.moved = s.moved || s.last != nil && !same
	if !same || s.since.IsZero() {
		s.since = now
	}
	s.last = l
}

// Miss says that a look failed. An API server that is away for the observer may be so for the agent: the
// time until then says nothing.
func (s *Sighting) Miss() { s.since = time.Time{} }

// Renews reports whether the Lease was seen to change, and not to stand for too long since.
func (s *Sighting) Renews(now time.Time) bool {
	return s.moved && holderOf(s.last) != "" && s.Absence(now) == ""
}

// Absence says why the agent does not live, "" as long as it may.
func (s *Sighting) Absence(now time.Time) string {
	stands := now.Sub(s.since)
	switch {
	case s.since.IsZero() || stands < LeaseQuiet:
		return ""
	case holderOf(s.last) == "":
		return "its agent ended"
	case s.last.RenewTime == nil:
		return "its agent never renewed its Lease"
	}
	return fmt.Sprintf("its agent did not renew its Lease for %v", stands.Round(time.Second))
}

func holderOf(l *coordinationv1.LeaseSpec) string {
	if l.HolderIdentity == nil {
		return ""
	}
	return *l.HolderIdentity
}
