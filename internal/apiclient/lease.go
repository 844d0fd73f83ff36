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

// LeaseAge is how long ago a Lease was renewed, by the clocks of its node and of this host, and
// whether that is so long that its agent does not count as alive.
func LeaseAge(renewed, now time.Time) (age time.Duration, silent bool) {
	age = now.Sub(renewed)
	return age, age > LeaseAllowed
}

// Absence says why the agent of a node does not live, by its Lease, "" where it does.
func Absence(l *coordinationv1.LeaseSpec, now time.Time) string {
	if l.HolderIdentity == nil || *l.HolderIdentity == "" {
		return "its agent ended"
	}
	if l.RenewTime == nil {
		return "its agent never renewed its Lease"
	}
	if age, silent := LeaseAge(l.RenewTime.Time, now); silent {
		return fmt.Sprintf("its agent renewed its Lease %v ago", age.Round(time.Second))
	}
	return ""
}
