package roster

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestAboveKeepsWhatItKnows: a quota that cannot be read for a moment is not none, and neither is that of a group that
// cannot be opened.
func TestAboveKeepsWhatItKnows(t *testing.T) {
	m := newMachine(t, "slice", "other")
	a := NewAbove(m.host)
	defer a.Close()
	file := filepath.Join(m.dir, "sys/fs/cgroup/slice/cpu.max")
	for i, c := range []struct {
		what   string
		change func()
		want   float64
	}{
		{"read", func() {}, 0.5},
		{"damaged", func() { m.write("sys/fs/cgroup/slice/cpu.max", "nonsense\n") }, 0.5},
		{"another", func() { m.write("sys/fs/cgroup/slice/cpu.max", "70000 100000\n") }, 0.7},
		{"none", func() { m.write("sys/fs/cgroup/slice/cpu.max", "max 100000\n") }, 0},
		{"removed", func() { _ = os.RemoveAll(filepath.Dir(file)) }, 0},
	} {
		c.change()
		a.Round(m.now + time.Duration(i)*time.Second)
		if got := a.Limit("slice"); float64(got) != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	m.write("sys/fs/cgroup/other/cpu.max", "nonsense\n")
	if got := a.Limit("other"); got != Unknown {
		t.Errorf("never read: %v, want %v", got, Unknown)
	}
	if err := os.RemoveAll(filepath.Join(m.dir, "sys/fs/cgroup/other")); err != nil {
		t.Fatal(err)
	}
	m.write("sys/fs/cgroup/file", "")
	if got := a.Limit("file/below"); got != Unknown {
		t.Errorf("cannot be opened: %v, want %v", got, Unknown)
	}
	if got := a.Limit("nowhere"); got != 0 {
		t.Errorf("not there: %v, want 0", got)
	}
}
