package cgroup_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/unit"
)

// recorded opens the host in testdata/NAME.txtar.
func recorded(t *testing.T, name string) (*cgroup.Host, string) {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := txtar.Write(archive, dir); err != nil {
		t.Fatal(err)
	}
	return opened(t, dir), dir
}

// written opens a host with these files.
func written(t testing.TB, files map[string]string) *cgroup.Host {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return opened(t, dir)
}

func opened(t testing.TB, dir string) *cgroup.Host {
	t.Helper()
	root, err := hostfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	host, err := cgroup.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return host
}

func TestHierarchies(t *testing.T) {
	type hiers = map[cgroup.Controller]cgroup.Hierarchy
	for name, want := range map[string]struct {
		layout string
		hiers  hiers
	}{
		"v1": {"v1", hiers{
			cgroup.CPU:     {Version: 1, Mount: "/sys/fs/cgroup/cpu,cpuacct", Root: "/"},
			cgroup.CPUAcct: {Version: 1, Mount: "/sys/fs/cgroup/cpu,cpuacct", Root: "/"},
			cgroup.CPUSet:  {Version: 1, Mount: "/sys/fs/cgroup/cpuset", Root: "/"},
		}},
		"v2": {"v2", hiers{
			cgroup.CPU:     {Version: 2, Mount: "/sys/fs/cgroup", Root: "/", Delegates: true},
			cgroup.CPUAcct: {Version: 2, Mount: "/sys/fs/cgroup", Root: "/", Delegates: true},
			cgroup.CPUSet:  {Version: 2, Mount: "/sys/fs/cgroup", Root: "/", Delegates: true},
		}},
		"hybrid": {"hybrid", hiers{
			cgroup.CPU:     {Version: 1, Mount: "/sys/fs/cgroup/cpu", Root: "/"},
			cgroup.CPUAcct: {Version: 1, Mount: "/sys/fs/cgroup/cpuacct", Root: "/", ReadOnly: true},
			cgroup.CPUSet:  {Version: 2, Mount: "/sys/fs/cgroup/unified", Root: "/"},
		}},
		"container": {"v2", hiers{
			cgroup.CPU:     {Version: 2, Mount: "/sys/fs/cgroup", Root: "/kubepods/pod1/abc", ReadOnly: true},
			cgroup.CPUAcct: {Version: 2, Mount: "/sys/fs/cgroup", Root: "/kubepods/pod1/abc", ReadOnly: true},
			cgroup.CPUSet:  {Version: 2, Mount: "/sys/fs/cgroup", Root: "/kubepods/pod1/abc", ReadOnly: true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			host, _ := recorded(t, name)
			got := hiers{}
			for _, c := range cgroup.Controllers() {
				hier, err := host.Hierarchy(c)
				if err != nil {
					t.Fatal(err)
				}
				got[c] = hier
			}
			if diff := cmp.Diff(want.hiers, got); diff != "" {
				t.Errorf("hierarchies (-want +got):\n%s", diff)
			}
			if host.Layout() != want.layout {
				t.Errorf("layout %s, want %s", host.Layout(), want.layout)
			}
		})
	}
}

func TestHiddenMount(t *testing.T) {
	const mounts = `22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:25 / /a/cpu rw - cgroup cgroup rw,cpu
31 22 0:25 / /b/cpu ro - cgroup cgroup rw,cpu
32 22 0:40 / /a rw - tmpfs tmpfs rw
33 22 0:26 / /c rw - cgroup cgroup rw,cpuset
34 33 0:41 / /c rw - tmpfs tmpfs rw
35 22 0:26 / /d rw - cgroup cgroup rw,cpuset
`
	host, err := open(t, mounts)
	if err != nil {
		t.Fatal(err)
	}
	cpu, err := host.Hierarchy(cgroup.CPU)
	if err != nil || cpu.Mount != "/b/cpu" || !cpu.ReadOnly {
		t.Errorf("cpu = %+v, %v, want the read-only one that is not hidden", cpu, err)
	}
	cpuset, err := host.Hierarchy(cgroup.CPUSet)
	if err != nil || cpuset.Mount != "/d" {
		t.Errorf("cpuset = %+v, %v, want the one nothing is mounted on", cpuset, err)
	}
	if _, err := host.Hierarchy(cgroup.CPUAcct); !errors.Is(err, cgroup.ErrNoHierarchy) {
		t.Errorf("cpuacct: %v", err)
	}
}

func open(t *testing.T, mounts string) (*cgroup.Host, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "proc/self"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "proc/self/mountinfo"), []byte(mounts), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := hostfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return cgroup.Open(root)
}

func TestOpenErrors(t *testing.T) {
	for mounts, want := range map[string]error{
		"":                                      cgroup.ErrNoHierarchy,
		"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n": cgroup.ErrNoHierarchy,
		"garbage\n":                             cgroup.ErrMalformed,
	} {
		if _, err := open(t, mounts); !errors.Is(err, want) {
			t.Errorf("Open(%q) = %v, want %v", mounts, err, want)
		}
	}
}

// reading is everything that can be read from one group, as text.
type reading struct{ Bandwidth, Throttling, Usage, CPUs, Procs string }

func TestReadings(t *testing.T) {
	for _, c := range []struct {
		host, group string
		want        reading
	}{
		{"v1", "redis", reading{
			"{200000 100000 0 false}", "{1000 250 9000000001 0 0}", "123456789012", "2-3", "[101 102]",
		}},
		{"v1", "batch/job:1", reading{
			"{-1 100000 0 true}", "malformed", "malformed", "0-7", "[103]",
		}},
		{"v1", "batch", reading{
			"kernel has no such cgroup file", "kernel has no such cgroup file", "kernel has no such cgroup file", "0-7", "[103]",
		}},
		{"v2", "system.slice/web.service", reading{
			"{150000 50000 50000 true}", "{10 3 4567000 2 89000}", "123456000", "0-3,8-11", "[201 202]",
		}},
		{"v2", "system.slice/idle.service", reading{
			"controller is not enabled for the cgroup", "controller is not enabled for the cgroup", "7000", "0-3,8-11", "[]",
		}},
		{"v2", "", reading{
			"kernel has no such cgroup file", "kernel has no such cgroup file", "kernel has no such cgroup file", "0-15", "[1 201 202]",
		}},
		{"hybrid", "app", reading{
			"{100000 200000 40000 true}", "{1 0 0 5 600}", "42", "1", "[301]",
		}},
		{"hybrid", "lonely", reading{
			"no such cgroup", "no such cgroup", "7", "no such cgroup", "[]",
		}},
	} {
		t.Run(c.host+"/"+c.group, func(t *testing.T) {
			host, _ := recorded(t, c.host)
			g, err := host.Group(c.group)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			for range 2 { // the second time from the open files
				if diff := cmp.Diff(c.want, readAll(g)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func readAll(g *cgroup.Group) reading {
	bandwidth, berr := g.Bandwidth()
	throttling, terr := g.Throttling()
	usage, uerr := g.Usage()
	cpus, cerr := g.EffectiveCPUs()
	procs, perr := g.Procs()
	return reading{
		text(bandwidth, berr), text(throttling, terr), text(int64(usage), uerr), text(cpus.String(), cerr), text(procs, perr),
	}
}

// text returns the value, or the class of the error.
func text(value any, err error) string {
	for _, class := range []error{cgroup.ErrNoController, cgroup.ErrNoKnob, cgroup.ErrMalformed, cgroup.ErrNoGroup, cgroup.ErrUnset} {
		if errors.Is(err, class) {
			return class.Error()
		}
	}
	if err != nil {
		return "unclassified: " + err.Error()
	}
	return fmt.Sprint(value)
}

func TestGroupErrors(t *testing.T) {
	host, dir := recorded(t, "v1")
	for path, want := range map[string]error{
		"nobody":                         cgroup.ErrNoGroup,
		"redis/sub":                      cgroup.ErrNoGroup,
		"/redis":                         cgroup.ErrBadPath,
		"redis/":                         cgroup.ErrBadPath,
		"redis//x":                       cgroup.ErrBadPath,
		"./redis":                        cgroup.ErrBadPath,
		".":                              cgroup.ErrBadPath,
		"..":                             cgroup.ErrBadPath,
		"../cpuset/redis":                cgroup.ErrBadPath,
		"redis/../redis":                 cgroup.ErrBadPath,
		"redis/..":                       cgroup.ErrBadPath,
		"a\nb":                           cgroup.ErrBadPath,
		"a\x00b":                         cgroup.ErrBadPath,
		strings.Repeat("a/", 4000) + "a": cgroup.ErrBadPath,
	} {
		g, err := host.Group(path)
		if !errors.Is(err, want) {
			t.Errorf("Group(%q) = %v, %v, want %v", path, g, err, want)
		}
	}
	// A group whose name is a symbolic link to another place is not followed.
	if err := os.Symlink("/etc", filepath.Join(dir, "sys/fs/cgroup/cpu,cpuacct/evil")); err != nil {
		t.Fatal(err)
	}
	if g, err := host.Group("evil"); err == nil {
		t.Errorf("followed a link out of the tree to %s", g.Path())
	}
}

func TestMissingHierarchyIsNamed(t *testing.T) {
	host, _ := recorded(t, "hybrid")
	g, err := host.Group("lonely")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	err = g.Has(cgroup.CPU)
	if !errors.Is(err, cgroup.ErrNoGroup) {
		t.Fatalf("Has(cpu) = %v", err)
	}
	for _, part := range []string{"lonely", "controller cpu ", "/sys/fs/cgroup/cpu"} {
		if !strings.Contains(err.Error()+" ", part) {
			t.Errorf("%v does not name %q", err, part)
		}
	}
	if err := g.Has(cgroup.CPUAcct); err != nil {
		t.Errorf("Has(cpuacct) = %v", err)
	}
}

func TestPathOf(t *testing.T) {
	for _, c := range []struct {
		host string
		pid  int
		want string
		err  error
	}{
		{"v1", 101, "redis", nil},
		{"v1", 103, "batch/job:1", nil},
		{"v1", 1, "", nil},
		{"v1", 99, "", cgroup.ErrNoProcess},
		{"v2", 201, "system.slice/web.service", nil},
		{"v2", 203, "gone.slice", nil},
		{"v2", 204, "", cgroup.ErrNoGroup},
		{"hybrid", 303, "app", nil},
		{"container", 7, "", nil},
		{"container", 8, "inner", nil},
		{"container", 9, "", cgroup.ErrNoGroup},
	} {
		host, _ := recorded(t, c.host)
		got, err := host.PathOf(c.pid)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: PathOf(%d) = %q, %v, want %q, %v", c.host, c.pid, got, err, c.want, c.err)
		}
	}
}

func TestSoleGroup(t *testing.T) {
	for _, c := range []struct {
		host string
		pids []int
		want string
		why  string
	}{
		{"v1", []int{101, 102}, "redis", ""},
		{"v1", []int{102, 101, 101}, "redis", ""},
		{"v1", []int{101}, "", `"redis" also holds process 102`},
		{"v1", []int{103}, "", `"batch/job:1" also holds 1 processes of other pid namespaces`},
		{"v1", []int{1}, "", "process 1 is in the root group"},
		{"v1", []int{101, 103}, "", `process 101 is in "redis" and process 103 in "batch/job:1"`},
		{"v1", nil, "", "no process given"},
		{"v1", []int{55}, "", "no such process: 55"},
		{"v2", []int{201}, "", `also holds process 202`},
		{"v2", []int{203}, "", "no such cgroup"},
		{"v2", []int{202, 201}, "system.slice/web.service", ""},
		{"hybrid", []int{301}, "app", ""},
		{"hybrid", []int{303}, "", `process 303 is in "app" for cpu and in "lonely" for cpuacct`},
		{"container", []int{8}, "inner", ""},
	} {
		host, _ := recorded(t, c.host)
		got, err := host.SoleGroup(c.pids)
		if got != c.want {
			t.Errorf("%s: SoleGroup(%v) = %q, %v, want %q", c.host, c.pids, got, err, c.want)
		}
		if (err == nil) != (c.why == "") || (err != nil && !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: SoleGroup(%v): %v, want %q", c.host, c.pids, err, c.why)
		}
	}
}

func TestAncestors(t *testing.T) {
	host, _ := recorded(t, "v2")
	for path, want := range map[string][]string{
		"":                         nil,
		"system.slice":             nil,
		"system.slice/web.service": {"system.slice"},
		"user.slice/user-1000.slice/user@1000.service": {"user.slice/user-1000.slice", "user.slice"},
	} {
		g, err := host.Group(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, g.Ancestors()); diff != "" {
			t.Errorf("ancestors of %q (-want +got):\n%s", path, diff)
		}
		g.Close()
	}
}

func TestEncode(t *testing.T) {
	for _, c := range []struct {
		host, group   string
		knob          cgroup.Knob
		value         cgroup.Value
		file, content string
		err           error
	}{
		{"v1", "redis", cgroup.KnobMax, "300000 100000", "cpu.cfs_quota_us", "300000", nil},
		{"v1", "redis", cgroup.KnobMax, "150000 50000", "cpu.cfs_quota_us", "300000", nil},
		{"v1", "redis", cgroup.KnobMax, "150000 200000", "cpu.cfs_quota_us", "75000", nil},
		{"v1", "redis", cgroup.KnobMax, "75001 200000", "", "", cgroup.ErrPeriod},
		{"v1", "redis", cgroup.KnobMax, "150000 60000", "", "", cgroup.ErrPeriod},
		{"v1", "redis", cgroup.KnobMax, "max 60000", "cpu.cfs_quota_us", "-1", nil},
		{"v1", "redis", cgroup.KnobBurst, "5000 50000", "cpu.cfs_burst_us", "10000", nil},
		{"v1", "redis", cgroup.KnobBurst, "0 60000", "cpu.cfs_burst_us", "0", nil},
		{"v1", "redis", cgroup.KnobBurst, "max 60000", "", "", cgroup.ErrMalformed},
		{"v1", "redis", cgroup.KnobMax, "300000", "", "", cgroup.ErrMalformed},
		{"v1", "redis", "cpu.weight", "1 1", "", "", cgroup.ErrNoKnob},
		{"v2", "system.slice/web.service", cgroup.KnobMax, "300000 60000", "cpu.max", "300000 60000", nil},
		{"v2", "system.slice/web.service", cgroup.KnobMax, "max 50000", "cpu.max", "max 50000", nil},
		{"v2", "system.slice/web.service", cgroup.KnobBurst, "10000 25000", "cpu.max.burst", "20000", nil},
		{"v2", "system.slice/web.service", cgroup.KnobBurst, "10000 30000", "", "", cgroup.ErrPeriod},
		{"hybrid", "lonely", cgroup.KnobMax, "max 50000", "", "", cgroup.ErrNoGroup},
	} {
		host, _ := recorded(t, c.host)
		g, err := host.Group(c.group)
		if err != nil {
			t.Fatal(err)
		}
		dir, file, content, err := g.Encode(c.knob, c.value)
		if file != c.file || content != c.content || !errors.Is(err, c.err) || (err == nil) != (dir != nil) {
			t.Errorf("%s: Encode(%s, %q) = %q, %q, %v, want %q, %q, %v",
				c.host, c.knob, c.value, file, content, err, c.file, c.content, c.err)
		}
		g.Close()
	}
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		host, group string
		knob        cgroup.Knob
		want        cgroup.Value
		err         error
	}{
		{"v1", "redis", cgroup.KnobMax, "200000 100000", nil},
		{"v1", "redis", cgroup.KnobBurst, "", cgroup.ErrNoKnob},
		{"v1", "batch/job:1", cgroup.KnobMax, "max 100000", nil},
		{"v1", "batch/job:1", cgroup.KnobBurst, "0 100000", nil},
		{"v1", "redis", "cpu.weight", "", cgroup.ErrNoKnob},
		{"v2", "system.slice/web.service", cgroup.KnobMax, "150000 50000", nil},
		{"v2", "system.slice/web.service", cgroup.KnobBurst, "50000 50000", nil},
		{"hybrid", "app", cgroup.KnobBurst, "40000 200000", nil},
	} {
		host, _ := recorded(t, c.host)
		g, err := host.Group(c.group)
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.Read(c.knob)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: Read(%s) = %q, %v, want %q, %v", c.host, c.knob, got, err, c.want, c.err)
		}
		g.Close()
	}
}

func TestLimit(t *testing.T) {
	b := cgroup.Bandwidth{Quota: 150_000, Period: 100_000, Burst: 1000, HasBurst: true}
	if b.Limit() != unit.CPUs(1.5) || b.Max() != "150000 100000" || b.BurstValue() != "1000 100000" {
		t.Errorf("%v, %q, %q", b.Limit(), b.Max(), b.BurstValue())
	}
}

// TestGroupOfSomeControllers checks that a group opened for some controllers is not searched in other hierarchies.
func TestGroupOfSomeControllers(t *testing.T) {
	host, _ := recorded(t, "v1")
	g, err := host.Group("redis", cgroup.CPU)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if _, err := g.Bandwidth(); err != nil {
		t.Error(err)
	}
	if _, err := g.Dir(cgroup.CPUSet); !errors.Is(err, cgroup.ErrNoGroup) {
		t.Errorf("a controller that it was not opened for: %v", err)
	}
	hybrid, _ := recorded(t, "hybrid")
	if _, err := hybrid.Group("lonely", cgroup.CPU); !errors.Is(err, cgroup.ErrNoGroup) {
		t.Errorf("a group that only others have: %v", err)
	}
}
