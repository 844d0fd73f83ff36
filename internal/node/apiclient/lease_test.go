package apiclient_test

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/internal/node/apiclient"
)

func TestLeaseAge(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for ago, want := range map[time.Duration]bool{0: false, 180 * time.Second: false, 180*time.Second + 1: true, -time.Hour: false} {
		if age, silent := apiclient.LeaseAge(now.Add(-ago), now); age != ago || silent != want {
			t.Errorf("renewed %v ago: %v, %t", ago, age, silent)
		}
	}
}

// TestSighting looks at a Lease once a second of the observer's clock, and says what is known at the end.
func TestSighting(t *testing.T) {
	const quiet = int(apiclient.LeaseQuiet / time.Second)
	began := time.Unix(1_000_000, 0)
	lease := func(holder string, renewed int) *coordinationv1.LeaseSpec {
		at := metav1.NewMicroTime(began.Add(-time.Hour + time.Duration(renewed)*time.Second))
		return &coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at}
	}
	for name, tt := range map[string]struct {
		says   func(second int) *coordinationv1.LeaseSpec // nil: the look fails
		until  int
		want   string
		renews bool
	}{
		"at first": {func(int) *coordinationv1.LeaseSpec { return lease("a", 0) }, 0, "", false},
		"for long": {func(int) *coordinationv1.LeaseSpec { return lease("a", 0) }, quiet - 1, "", false},
		"too long": {func(int) *coordinationv1.LeaseSpec { return lease("a", 0) }, quiet, "its agent did not renew its Lease for 2m0s", false},
		"is over":  {func(int) *coordinationv1.LeaseSpec { return lease("", 0) }, quiet, "its agent ended", false},
		"nobody's": {func(int) *coordinationv1.LeaseSpec { return &coordinationv1.LeaseSpec{} }, quiet, "its agent ended", false},
		"untouched": {func(int) *coordinationv1.LeaseSpec {
			return &coordinationv1.LeaseSpec{HolderIdentity: lease("a", 0).HolderIdentity}
		}, quiet, "its agent never renewed its Lease", false},
		"renewed":  {func(s int) *coordinationv1.LeaseSpec { return lease("a", s/60) }, 10 * quiet, "", true},
		"ends":     {func(s int) *coordinationv1.LeaseSpec { return lease(map[bool]string{true: "a"}[s < 60], 0) }, quiet + 50, "", false},
		"ended":    {func(s int) *coordinationv1.LeaseSpec { return lease(map[bool]string{true: "a"}[s < 60], 0) }, quiet + 60, "its agent ended", false},
		"the next": {func(s int) *coordinationv1.LeaseSpec { return lease(map[bool]string{true: "b"}[s > 60], 0) }, quiet + 50, "", true},
		"stopped":  {func(s int) *coordinationv1.LeaseSpec { return lease("a", min(s/60, 2)) }, 120 + quiet, "its agent did not renew its Lease for 2m0s", false},
		"a failed look": {func(s int) *coordinationv1.LeaseSpec {
			if s == quiet-1 {
				return nil
			}
			return lease("a", 0)
		}, 2*quiet - 1, "", false},
	} {
		var s apiclient.Sighting
		for i := 0; i <= tt.until; i++ {
			if l := tt.says(i); l != nil {
				s.See(l, began.Add(time.Duration(i)*time.Second))
			} else {
				s.Miss()
			}
		}
		now := began.Add(time.Duration(tt.until) * time.Second)
		if got, renews := s.Absence(now), s.Renews(now); got != tt.want || renews != tt.renews {
			t.Errorf("%s: %q, renews %t, want %q, %t", name, got, renews, tt.want, tt.renews)
		}
	}
}
