package cgroup_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
)

func TestList(t *testing.T) {
	for v, want := range map[cgroup.Value]string{"0": "0", "3,1-2": "1-3", "0-1023": "0-1023", cgroup.Inherit: ""} {
		set, inherits, err := v.List()
		if err != nil || set.String() != want || inherits != (v == cgroup.Inherit) {
			t.Errorf("%q: %s, %v, %v", v, set, inherits, err)
		}
	}
	for _, v := range []cgroup.Value{"", "\n", "max", "1-", "0 1", "Inherit", "1024", cgroup.ListValue(cpuset.Set{})} {
		if _, _, err := v.List(); !errors.Is(err, cgroup.ErrMalformed) {
			t.Errorf("%q: %v, want ErrMalformed", v, err)
		}
	}
}

func TestSameLists(t *testing.T) {
	for _, c := range []struct {
		a, b cgroup.Value
		want bool
	}{
		{"0-3", "0,1,2-3", true},
		{"0-3", "0-2", false},
		{"0-3", cgroup.Inherit, false},
		{cgroup.Inherit, cgroup.Inherit, true},
		{"", cgroup.Inherit, false},
		{"x", "y", false},
	} {
		for _, k := range []cgroup.Knob{cgroup.KnobCPUs, cgroup.KnobMems} {
			if cgroup.Same(k, c.a, c.b) != c.want || cgroup.Same(k, c.b, c.a) != c.want {
				t.Errorf("Same(%s, %q, %q) is not %v", k, c.a, c.b, c.want)
			}
		}
	}
	if cgroup.KnobCPUs.Controller() != cgroup.CPUSet || cgroup.KnobMems.Controller() != cgroup.CPUSet ||
		cgroup.KnobMax.Controller() != cgroup.CPU || cgroup.KnobBurst.Controller() != cgroup.CPU {
		t.Error("a knob is in the wrong controller's hierarchy")
	}
}

// lists contains everything known about a group's CPUs and memory nodes.
type lists struct{ CPUs, Mems, EffectiveCPUs, EffectiveMems, Unpinned string }

// TestListFiles reads lists on a host of plain files, in which the kernel's values stay as the test wrote them.
func TestListFiles(t *testing.T) {
	v1, v1dir := plain(t, map[string]string{
		"proc/self/mountinfo": "31 23 0:28 / /cpu rw - cgroup cgroup rw,cpu\n32 23 0:29 / /cpuset rw - cgroup cgroup rw,cpuset\n",
		"cpu/a/b/cpu.shares":  "2", // the cpu hierarchy has other directories
		"cpuset/cpuset.cpus":  "0-7", "cpuset/cpuset.mems": "0-1",
		"cpuset/a/cpuset.cpus": "0-3", "cpuset/a/cpuset.mems": "0",
		"cpuset/a/b/cpuset.cpus": "2,3", "cpuset/a/b/cpuset.mems": "0",
		"cpuset/a/b/cpuset.effective_cpus": "2", "cpuset/a/b/cpuset.effective_mems": "0",
		"cpuset/new/cpuset.cpus": "", "cpuset/new/cpuset.mems": "",
		"sys/devices/system/cpu/online": "0-2,4-7",
	})
	v2, v2dir := plain(t, map[string]string{
		"proc/self/mountinfo":   "31 23 0:28 / /cg rw - cgroup2 cgroup2 rw\n",
		"cg/cgroup.controllers": "cpu cpuset", "cg/cpuset.cpus.effective": "0-7", "cg/cpuset.mems.effective": "0-1",
		"cg/a/cgroup.controllers": "cpu cpuset", "cg/a/cpuset.cpus": "0-3", "cg/a/cpuset.mems": "",
		"cg/a/cpuset.cpus.effective": "0-2", "cg/a/cpuset.mems.effective": "0-1",
		"cg/a/b/cgroup.controllers": "cpu", "sys/devices/system/cpu/online": "0-2,4-7",
	})
	for _, c := range []struct {
		host *cgroup.Host
		path string
		want lists
	}{
		{v1, "a/b", lists{"2-3", "0", "2", "0", "0-3"}},
		{v1, "new", lists{"cpuset is not set up yet", "cpuset is not set up yet", "", "", "0-7"}},
		{v2, "a", lists{"0-3", "inherit", "0-2", "0-1", "inherit"}},
		{v2, "a/b", lists{"controller is not enabled for the cgroup", "controller is not enabled for the cgroup", "0-2", "0-1", "inherit"}},
	} {
		g, err := c.host.Group(c.path)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		for range 2 {
			if d := cmp.Diff(c.want, readLists(g)); d != "" {
				t.Errorf("%s (-want +got):\n%s", c.path, d)
			}
		}
	}
	writes := []struct {
		host *cgroup.Host
		path string
		knob cgroup.Knob
		v    cgroup.Value
		file string
		want string
	}{
		{v1, "a/b", cgroup.KnobCPUs, "3", v1dir + "/cpuset/a/b/cpuset.cpus", "3"},
		{v1, "a/b", cgroup.KnobMems, "0,1", v1dir + "/cpuset/a/b/cpuset.mems", "0-1"},
		{v2, "a", cgroup.KnobCPUs, cgroup.Inherit, v2dir + "/cg/a/cpuset.cpus", "\n"},
		{v2, "a", cgroup.KnobMems, "1", v2dir + "/cg/a/cpuset.mems", "1"},
	}
	for _, w := range writes {
		g, err := w.host.Group(w.path)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		dir, file, content, err := g.Encode(w.knob, w.v)
		if err == nil {
			err = hostwrite.Existing(dir, file, content)
		}
		if got, rerr := os.ReadFile(w.file); err != nil || rerr != nil || string(got) != w.want {
			t.Errorf("%s of %s: %q, %v, %v", w.knob, w.path, got, err, rerr)
		}
	}
	checkAttainable(t, v1, v2)
}

func checkAttainable(t *testing.T, v1, v2 *cgroup.Host) {
	t.Helper()
	for _, c := range []struct {
		host    *cgroup.Host
		path    string
		v, want cgroup.Value
	}{
		{v1, "a/b", "2-3", "2"}, {v1, "a/b", "3", "3"}, {v1, "a/b", "0-2", "0-2"}, {v2, "a", "2-3", "2-3"}, {v2, "a", cgroup.Inherit, cgroup.Inherit},
	} {
		g, err := c.host.Group(c.path)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		if got := g.Attainable(cgroup.KnobCPUs, c.v); got != c.want {
			t.Errorf("Attainable(%s) of %s = %s, want %s", c.v, c.path, got, c.want)
		}
	}
}

func readLists(g *cgroup.Group) lists {
	cpus, cerr := g.Read(cgroup.KnobCPUs)
	mems, merr := g.Read(cgroup.KnobMems)
	ecpus, ecerr := g.EffectiveCPUs()
	emems, emerr := g.EffectiveMems()
	unpinned, uerr := g.Unpinned(cgroup.KnobCPUs)
	return lists{text(cpus, cerr), text(mems, merr), text(ecpus.String(), ecerr), text(emems.String(), emerr), text(unpinned, uerr)}
}

// plain returns a host of plain files.
func plain(t *testing.T, files map[string]string) (*cgroup.Host, string) {
	t.Helper()
	host, err := open(t, files["proc/self/mountinfo"])
	if err != nil {
		t.Fatal(err)
	}
	dir := host.Root().Path()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.TrimSuffix(content, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if host, err = cgroup.Open(host.Root()); err != nil { // v2 lists its controllers in a file
		t.Fatal(err)
	}
	return host, dir
}

// TestSpare checks that a list spares the CPUs of valid partitions beside the group, and no other CPUs.
func TestSpare(t *testing.T) {
	files := map[string]string{"proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"}
	for path, g := range map[string]struct{ list, exclusive, kind string }{
		"":           {},
		"db":         {"0-1", "", "member"},
		"rt":         {"3,9", "", "root"}, // CPU 9 is offline
		"dpdk":       {"", "5", "isolated"},
		"broken":     {"6", "", "root invalid (Cpu list in cpuset.cpus not exclusive)"},
		"pool":       {"0-15", "0-15", "member"},
		"slice":      {"", "", "member"},
		"slice/deep": {"7", "7", "isolated"},
		"slice/job":  {"0-1", "", "member"},
		"old":        {"0-1", "", ""},
		"blind":      {},
		"blind/rt":   {"x", "", "root"},
		"blind/db":   {"0-1", "", "member"},
	} {
		at := "sys/fs/cgroup/" + path
		files[at+"/cgroup.controllers"] = "cpuset\n"
		for name, text := range map[string]string{"cpuset.cpus": g.list, "cpuset.cpus.exclusive": g.exclusive, "cpuset.cpus.partition": g.kind} {
			if path != "" && (g.kind != "" || name == "cpuset.cpus") {
				files[at+"/"+name] = text + "\n"
			}
		}
	}
	host := written(t, files)
	for _, c := range []struct {
		group   string
		v, want cgroup.Value
	}{
		{"db", "0-15", "0-2,4,6-8,10-15"},
		{"db", "0-2", "0-2"},
		{"db", "3,5", "0-1"}, // all CPUs: the list stays unchanged
		{"db", cgroup.Inherit, cgroup.Inherit},
		{"db", "x", "x"},
		{"rt", "3", "3"},
		{"slice/job", "0-15", "0-6,8-15"},
		{"slice/deep", "0-15", "0-15"},
		{"", "0-15", "0-15"},
		{"blind/db", "0-15", "0-1"}, // a partition beside it cannot be read: the list stays unchanged
	} {
		g, err := host.Group(c.group)
		if err != nil {
			t.Fatal(err)
		}
		if got := cgroup.Spare(g, c.v); got != c.want {
			t.Errorf("%q: of %s it may have %s, want %s", c.group, c.v, got, c.want)
		}
		_ = g.Close()
	}
}
