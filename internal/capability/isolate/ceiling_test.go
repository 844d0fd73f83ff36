package isolate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// TestQuotaGroup checks that the quota goes to the one group directly above all offline groups.
func TestQuotaGroup(t *testing.T) {
	t.Parallel()
	here := func(groups ...string) []observed.Pod {
		var all []observed.Pod
		for _, g := range groups {
			all = append(all, observed.Pod{Name: "of " + g, Group: g, Here: true})
		}
		return all
	}
	both := here("kubepods/besteffort/pod1", "kubepods/besteffort/pod2")
	for what, test := range map[string]struct {
		offline, online []observed.Pod
		want            string
		err             error
	}{
		"all of a group":                  {both, here("kubepods/burstable/pod3", "other"), "kubepods/besteffort", nil},
		"an unknown group":                {append(both[:2:2], observed.Pod{Name: "ns/c", UID: "3", Here: true}), nil, "", isolate.ErrNoQuotaGroup},
		"an unknown group that is over":   {append(both[:2:2], observed.Pod{Name: "ns/c", UID: "3"}), nil, "kubepods/besteffort", nil},
		"a workload":                      {here("batch.slice/a.service"), nil, "batch.slice", nil},
		"an online workload of all":       {here("batch.slice/a.service"), here("batch.slice"), "", isolate.ErrNoQuotaGroup},
		"an online workload in it":        {here("batch.slice/a.service"), here("batch.slice/a.service/web"), "", isolate.ErrNoQuotaGroup},
		"an offline workload of all":      {here("batch.slice/a.service", "batch.slice"), nil, "", isolate.ErrNoQuotaGroup},
		"two groups":                      {here("batch.slice/a.service", "kubepods/besteffort/pod1"), nil, "", isolate.ErrNoQuotaGroup},
		"right below the root":            {here("batch.slice"), nil, "", isolate.ErrNoQuotaGroup},
		"nothing":                         {nil, nil, "", isolate.ErrNoQuotaGroup},
		"nothing here":                    {[]observed.Pod{{UID: "1", Group: "kubepods/besteffort/pod1"}}, nil, "", isolate.ErrNoQuotaGroup},
		"below another online workload":   {here("a/b/c"), here("a"), "", isolate.ErrNoQuotaGroup},
		"beside one whose name is longer": {here("batch.slice/a.service"), here("batch.slice2"), "batch.slice", nil},
	} {
		got, err := isolate.QuotaGroup(test.offline, test.online)
		if got != test.want || !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

// TestCeiling checks that a ceiling starts at the guarantee, grows at the pace of a boundary, and falls at once when
// online use rises. Without offline work, or with fewer than two cores, there is no ceiling.
func TestCeiling(t *testing.T) {
	t.Parallel()
	var movable []isolate.Core
	for i := range 8 {
		movable = append(movable, isolate.Core{CPUs: cpuset.Set{}.Add(i)})
	}
	node := isolate.Node{Policy: isolate.DefaultPolicy(), Movable: movable, Offline: true}
	var c isolate.Ceiling
	now, spent, used, busy, steal := time.Second, make([]unit.CPUSpent, 8), unit.CPUTime(0), 0.0, 0.0
	run := func(d time.Duration, online float64) (cores int, f isolate.Figures, why isolate.Reason) {
		for range int(d / time.Second) {
			c.Look(now, spent, used)
			var q isolate.Quota
			q, f, why = c.Decide(now, node)
			if cores = q.Cores; q.CPUs != cores {
				t.Fatalf("%+v on cores of a thread", q)
			}
			now += time.Second
			// Offline work uses all that it may, and no CPU is idle.
			used += unit.CPUTime(cores) * unit.CPUTime(time.Second)
			busy += online + float64(cores)
			for cpu := range spent {
				spent[cpu].Busy = unit.CPUTime(busy/8*100) * unit.CPUTime(time.Second/100) // in ticks
				spent[cpu].Steal += unit.CPUTime(steal * float64(time.Second))
			}
		}
		return cores, f, why
	}
	if cores, _, why := run(time.Second, 1); cores != 1 || why != isolate.Started {
		t.Errorf("at the start %d cores: %s", cores, why)
	}
	steal = 0.06
	if cores, _, why := run(10*time.Second, 1); cores != 1 || why != isolate.Stolen {
		t.Errorf("beside steal time %d cores: %s", cores, why)
	}
	steal = 0
	cores, f, _ := run(time.Minute, 1)
	if cores != f.Target || f.Target != 4 || f.Use < 0.92 || f.Use > 1.08 {
		t.Errorf("online work uses %.2f of a CPU: %d cores, target %d", float64(f.Use), cores, f.Target)
	}
	if cores, f, why := run(3*time.Second, 4); cores != f.Target || cores != 1 || why == isolate.Started {
		t.Errorf("online work uses %.2f CPUs: %d cores, target %d: %s", float64(f.Use), cores, f.Target, why)
	}
	node.Offline = false
	if cores, _, why := run(time.Second, 1); cores != 0 || why != isolate.NotWanted {
		t.Errorf("without offline work %d cores: %s", cores, why)
	}
	node.Offline, node.Movable = true, movable[:1]
	if cores, _, why := run(time.Second, 1); cores != 0 || why != isolate.TooFew {
		t.Errorf("with one core %d cores: %s", cores, why)
	}
}
