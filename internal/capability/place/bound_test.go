package place_test

import (
	"testing"

	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/node/observed"
)

// A group in the shared pool never gets CPUs outside its original list. It loses only CPUs of pinned pods, and reserved
// CPUs unless it has no others.
func TestOriginalBounds(t *testing.T) {
	s := two()
	s.reserved, s.isolated = "0,8", "7,15"
	for _, c := range []struct{ bound, want string }{
		{"", "2-6,10-14"},           // unknown
		{"0-31", "2-7,10-15"},       // all: it keeps isolated CPUs
		{"0-3", "2-3"},              // its own list
		{"2-7", "2-7"},              // with an isolated CPU
		{"7", "7"},                  // nothing else: it disturbs no pod
		{"0", "0"},                  // an administrator's choice of a reserved CPU
		{"0,7", "0,7"},              // never moved to the isolated CPU alone
		{"0-1", "0"},                // CPU 1 is the pod's
		{"1,9", "2-6,10-14"},        // nothing of the list is left
		{"0-3,7-11", "2-3,7,10-11"}, // both sockets
		{"16-31", "2-6,10-14"},      // absent CPUs
	} {
		n := place.New(s.facts(t))
		n.Pods.Put(placed(pod("a", 1, app("app", 2)), "app", "1,9", "0"))
		group := observed.Container{ID: "x.service", Name: "x.service", Phase: observed.Running}
		if c.bound != "" {
			group.Bound = set(t, c.bound)
		}
		n.Pods.Observe(group)
		equal(t, "bound "+c.bound, has(n), "x.service "+c.want)
	}
}
