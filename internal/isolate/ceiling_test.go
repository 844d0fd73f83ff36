package isolate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/isolate"
	"github.com/berth-project/berth/internal/unit"
)

// The one group whose groups are all offline has the quota.
func TestQuotaGroup(t *testing.T) {
	t.Parallel()
	tree := map[string][]string{
		"kubepods/besteffort": {"kubepods/besteffort/pod1", "kubepods/besteffort/pod2"},
		"system.slice":        {"system.slice/batch.service", "system.slice/sshd.service"},
		"batch.slice":         {"batch.slice/a.service"},
	}
	gone := errors.New("gone")
	children := func(group string) ([]string, error) {
		if group == "gone" {
			return nil, gone
		}
		return tree[group], nil
	}
	for _, test := range []struct {
		offline []string
		want    string
		err     error
	}{
		{[]string{"kubepods/besteffort/pod1", "kubepods/besteffort/pod2"}, "kubepods/besteffort", nil},
		{[]string{"kubepods/besteffort/pod1"}, "", isolate.ErrNoQuotaGroup}, // kube-proxy is beside it
		{[]string{"batch.slice/a.service"}, "batch.slice", nil},
		{[]string{"system.slice/batch.service"}, "", isolate.ErrNoQuotaGroup},
		{[]string{"batch.slice/a.service", "kubepods/besteffort/pod1"}, "", isolate.ErrNoQuotaGroup},
		{[]string{"batch.slice"}, "", isolate.ErrNoQuotaGroup},
		{nil, "", isolate.ErrNoQuotaGroup},
		{[]string{"gone/a"}, "", gone},
	} {
		if got, err := isolate.QuotaGroup(test.offline, children); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%q: %q, %v", test.offline, got, err)
		}
	}
}

// A ceiling starts at what is guaranteed, grows at the pace of a boundary, and falls at once when
// online use rises; without offline work, or without two cores, there is none.
func TestCeiling(t *testing.T) {
	t.Parallel()
	var movable []isolate.Core
	for i := range 8 {
		movable = append(movable, isolate.Core{CPUs: cpuset.Set{}.Add(i)})
	}
	node := isolate.Node{Policy: isolate.DefaultPolicy(), Movable: movable, Offline: true}
	var c isolate.Ceiling
	now, used := time.Second, unit.CPUTime(0)
	run := func(d time.Duration, online float64) (cores int, f isolate.Figures, why isolate.Reason) {
		for range int(d / time.Second) {
			c.Look(now, used)
			cores, f, why = c.Decide(now, node)
			now += time.Second
			used += unit.CPUTime(online * float64(time.Second))
		}
		return cores, f, why
	}
	if cores, _, why := run(time.Second, 1); cores != 1 || why != isolate.Started {
		t.Errorf("at the start %d cores: %s", cores, why)
	}
	cores, f, _ := run(time.Minute, 1)
	if cores != f.Target || f.Target != 4 || f.Use < 0.99 || f.Use > 1.01 {
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
