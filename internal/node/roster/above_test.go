package roster

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/value/unit"
)

// TestAboveKeepsWhatItKnows checks that a quota which cannot be read for a moment keeps its last value. A group that
// was never read, or cannot be opened, has an unknown limit rather than none.
func TestAboveKeepsWhatItKnows(t *testing.T) {
	m := newMachine(t, "slice", "other")
	a := NewAbove(m.host)
	defer a.Close()
	file := m.Path("sys/fs/cgroup/slice/cpu.max")
	for i, c := range []struct {
		what   string
		change func()
		want   float64
	}{
		{"read", func() {}, 0.5},
		{"damaged", func() { m.Write("sys/fs/cgroup/slice/cpu.max", "nonsense\n") }, 0.5},
		{"another", func() { m.Write("sys/fs/cgroup/slice/cpu.max", "70000 100000\n") }, 0.7},
		{"none", func() { m.Write("sys/fs/cgroup/slice/cpu.max", "max 100000\n") }, 0},
		{"removed", func() { _ = os.RemoveAll(filepath.Dir(file)) }, 0},
	} {
		c.change()
		a.Round(m.now + time.Duration(i)*time.Second)
		if got := a.Limit("slice"); float64(got) != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	m.Write("sys/fs/cgroup/other/cpu.max", "nonsense\n")
	if got := a.Limit("other"); got != Unknown {
		t.Errorf("never read: %v, want %v", got, Unknown)
	}
	if err := os.RemoveAll(m.Path("sys/fs/cgroup/other")); err != nil {
		t.Fatal(err)
	}
	m.Write("sys/fs/cgroup/file", "")
	if got := a.Limit("file/below"); got != Unknown {
		t.Errorf("cannot be opened: %v, want %v", got, Unknown)
	}
	if got := a.Limit("nowhere"); got != 0 {
		t.Errorf("not there: %v, want 0", got)
	}
}

// TestAboveReadsLittle checks that reading a quota reads one file only. Among many groups below, a group without a
// quota is read again only every five seconds.
func TestAboveReadsLittle(t *testing.T) {
	m := newMachine(t, "slice", "slice/one", "slice/other")
	a := NewAbove(m.host)
	defer a.Close()
	set := func(group, quota string) { m.Write("sys/fs/cgroup/"+group+"/cpu.max", quota+" 100000\n") }
	m.Write("sys/fs/cgroup/slice/cpu.max.burst", "not to be read\n")
	set("slice/one", "max")
	for second, c := range []struct {
		one, other string
		want       [3]unit.CPUs // limits of the slice, and of one and other below it
	}{
		{"max", "50000", [3]unit.CPUs{0.5, 0, 0.5}},
		{"60000", "60000", [3]unit.CPUs{0.5, 0, 0.6}},
		{"60000", "70000", [3]unit.CPUs{0.5, 0, 0.7}},
		{"60000", "max", [3]unit.CPUs{0.5, 0, 0}},
		{"60000", "70000", [3]unit.CPUs{0.5, 0, 0}},
		{"70000", "70000", [3]unit.CPUs{0.5, 0.7, 0}},
		{"80000", "70000", [3]unit.CPUs{0.5, 0.8, 0}},
		{"80000", "70000", [3]unit.CPUs{0.5, 0.8, 0}},
		{"80000", "70000", [3]unit.CPUs{0.5, 0.8, 0.7}},
	} {
		set("slice/one", c.one)
		set("slice/other", c.other)
		a.Round(m.now + time.Duration(second)*time.Second)
		got := [3]unit.CPUs{a.Limit("slice"), a.LimitBelow("slice/one"), a.LimitBelow("slice/other")}
		if got != c.want {
			t.Errorf("second %d: %v, want %v", second, got, c.want)
		}
	}
}
