package apiclient

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/berth-project/berth/api/v1alpha1"
)

// LeaseAllowed is the maximum age of a renewal of an agent's Lease, unless the scheduler's arguments have another
// value.
const LeaseAllowed = v1alpha1.DefaultStaleAfterSeconds * time.Second

// An agent renews its Lease every LeaseRenewed, and reads it every LeaseLooked in between. Both time out after
// LeaseAnswered.
const (
	LeaseRenewed  = time.Minute
	LeaseLooked   = 10 * time.Second
	LeaseAnswered = 4 * time.Second
)

// LeaseQuiet is the longest time that the Lease of a live agent remains unchanged. A renewal may become due just after
// a read. An API server that went away silently costs its client 45 s (30 s until an HTTP/2 ping, 15 s for its answer).
const LeaseQuiet = 2 * LeaseRenewed

// LeaseAge returns the time since a Lease was renewed, by the clocks of its node and of this host. silent reports
// whether that is too long for a live agent.
func LeaseAge(renewed, now time.Time) (age time.Duration, silent bool) {
	age = now.Sub(renewed)
	return age, age > LeaseAllowed
}

// Sighting is one observer's record of a Lease. Clocks of hosts differ, so an agent is alive while the observer sees
// its renewals, by the observer's own clock. The zero value is a Lease that was never read.
type Sighting struct {
	last  *coordinationv1.LeaseSpec
	since time.Time // zero while it is unknown since when last is unchanged
	moved bool
}

// See records the content of a Lease at a time of the observer's clock.
func (s *Sighting) See(l *coordinationv1.LeaseSpec, now time.Time) {
	same := s.last != nil && holderOf(s.last) == holderOf(l) && s.last.RenewTime.Equal(l.RenewTime)
	s.moved = s.moved || s.last != nil && !same
	if !same || s.since.IsZero() {
		s.since = now
	}
	s.last = l
}

// Miss records that a read failed. If the observer cannot reach the API server, perhaps the agent cannot either, so the
// time until now proves nothing.
func (s *Sighting) Miss() { s.since = time.Time{} }

// Renews reports whether the Lease was seen to change, and not too long ago.
func (s *Sighting) Renews(now time.Time) bool {
	return s.moved && holderOf(s.last) != "" && s.Absence(now) == ""
}

// Absence returns why the agent is not alive, "" while it may be.
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
