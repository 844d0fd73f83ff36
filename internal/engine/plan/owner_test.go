package plan

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/linux/cgroup"
)

func TestOneOwner(t *testing.T) {
	setting := func(owner Owner, workload string, target Target) Setting {
		return Setting{Target: target, Value: "1000 1000", Owner: owner, Workload: workload}
	}
	quota := fileTarget("pod/a", cgroup.KnobMax)
	otherWay := quota
	otherWay.Driver = "another"
	for name, tt := range map[string]struct {
		settings []Setting
		want     []string // in the message, nil for no error
	}{
		"nothing": {},
		"one owner, many targets": {settings: []Setting{
			setting(OwnerBurst, "redis", quota), setting(OwnerBurst, "redis", fileTarget("pod", cgroup.KnobMax)),
			setting(OwnerPlace, "redis", fileTarget("pod/a", cgroup.KnobCPUs)),
		}},
		"one owner twice": {settings: []Setting{setting(OwnerBurst, "redis", quota), setting(OwnerBurst, "redis", quota)}},
		"two owners": {
			settings: []Setting{setting(OwnerBurst, "redis", quota), setting(OwnerPlace, "nginx", quota)},
			want:     []string{"pod/a cpu.max", "burst", "redis", "place", "nginx"},
		},
		"two owners by two ways": {
			settings: []Setting{setting(OwnerBurst, "redis", quota), setting(OwnerPlace, "nginx", otherWay)},
			want:     []string{"pod/a cpu.max", "burst", "redis", "place", "nginx"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := OneOwner(tt.settings)
			if errors.Is(err, ErrTwoOwners) != (tt.want != nil) {
				t.Fatalf("error %v, want one: %v", err, tt.want != nil)
			}
			for _, word := range tt.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not name %s", err, word)
				}
			}
		})
	}
}

// TestPlainValues checks that a value without order rules can be mixed with values that have some, and waits for none
// of them.
func TestPlainValues(t *testing.T) {
	plain := Change{Setting: Setting{Target: Target{Driver: "file", Object: "/proc/sys/vm", Knob: "stat_interval"}, Value: "2"}, From: "1"}
	quota := move("a", cgroup.KnobMax, "100 1000", "300 1000")
	for _, changes := range [][]Change{{plain, quota}, {quota, plain}} {
		if got := Order(kinds(), changes); len(got) != 2 || got[0] != quota || got[1] != plain {
			t.Errorf("order %v", got)
		}
	}
	if Needs(kinds(), plain, quota) || Needs(kinds(), quota, plain) {
		t.Error("a plain value is tied to a quota")
	}
	same := []Setting{{Target: plain.Target, Value: "1"}}
	if d := Diff(kinds(), same, map[Target]Value{plain.Target: "1"}); len(d) != 0 {
		t.Errorf("equal values differ: %v", d)
	}
	if (Kinds{"file": {Lifetime: Persistent}}).Lifetime(plain.Target) != Persistent || kinds().Lifetime(plain.Target) != ThisBoot {
		t.Error("the lifetime is not the kind's")
	}
}
