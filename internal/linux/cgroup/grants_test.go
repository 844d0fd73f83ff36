package cgroup_test

import (
	"testing"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/unit"
)

func TestGrants(t *testing.T) {
	for _, test := range []struct {
		limit unit.CPUs
		value cgroup.Value
		want  bool
	}{
		{0.417, "41700 100000", true},
		{0.417, "42000 100000", true}, // systemd: 10 ms a second, rounded up
		{0.417, "41000 100000", false},
		{0.417, "43000 100000", false},
		{0.417, "84000 200000", true},
		{0.417, "21000 50000", true},
		{1.001, "101000 100000", true},
		{0.5, "50000 100000", true},
		{0.5, "51000 100000", false}, // a multiple of 10m is never rounded
		{1.0 / 3, "33333 100000", true},
		{1.0 / 3, "34000 100000", true},
		{0.005, "1000 100000", true}, // the minimum of the kernel and of the kubelet
		{0.005, "500 100000", true},
		{0.005, "2000 100000", false},
		{0.5, "max 100000", false},
		{0, "1000 100000", false},
		{0.5, "rubbish", false},
	} {
		if got := cgroup.Grants(test.limit, test.value); got != test.want {
			t.Errorf("Grants(%v, %q) = %v", test.limit, test.value, got)
		}
	}
}
