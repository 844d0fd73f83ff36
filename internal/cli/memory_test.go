package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/table"
)

// zoneinfo has the lines of /proc/zoneinfo that the free room depends on.
const zoneinfo = `Node 0, zone   Normal
  pages free     1000
        min      1024
        low      2048
        high     4096
        protection: (0, 0, 0)
Node 1, zone   Normal
  pages free     1000
        min      1024
        low      2048
        high     4096
        protection: (0, 0, 0)
`

// twoNodes returns a recorded machine of two NUMA nodes with four CPUs each, and the groups of two workloads. app runs
// on node 0 with pages on both nodes, and wide runs on all CPUs.
func twoNodes(t *testing.T) host {
	t.Helper()
	h := newHost(t)
	machine, err := txtar.ParseFile("../../testdata/machines/vm-2s2n-smt.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range machine.Files {
		h.write(f.Name, string(f.Data))
	}
	for node, free := range []int{262144, 524288} {
		h.write(fmt.Sprintf("sys/devices/system/node/node%d/meminfo", node), fmt.Sprintf(
			"Node %[1]d MemTotal:  1048576 kB\nNode %[1]d MemFree: %[2]d kB\nNode %[1]d Inactive(file): 131072 kB\nNode %[1]d Dirty: 1024 kB\n", node, free))
	}
	h.write("proc/zoneinfo", zoneinfo)
	h.write("proc/77/cgroup", "0::/app\n")
	h.write("proc/1/cgroup", "0::/\n")
	h.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory hugetlb\n")
	h.group("app", "0-3", "0", "anon N0=451000320 N1=590000128\nfile N0=9000960 N1=8192\nshmem N0=0 N1=8192\n")
	h.group("wide", "0-7", "0-1", "anon N0=4096 N1=4096\nfile N0=0 N1=0\nshmem N0=0 N1=0\n")
	for _, name := range []string{"app", "wide", "absent"} {
		h.write("workloads/"+name+".yaml", fmt.Sprintf(
			"apiVersion: berth.dev/v1alpha1\nkind: Workload\nmetadata: {name: %s}\nspec: {cgroup: %[1]s, cpu: {request: \"1\"}}\n", name))
	}
	return h
}

func (h host) group(name, cpus, mems, stat string) {
	h.t.Helper()
	dir := "sys/fs/cgroup/" + name + "/"
	for file, text := range map[string]string{
		"cgroup.controllers": "cpuset cpu memory hugetlb", "cgroup.procs": "77",
		"cpuset.cpus.effective": cpus, "cpuset.mems.effective": mems,
		"memory.numa_stat": stat, "memory.max": "1073741824", "memory.current": "1047000000",
		"hugetlb.2MB.numa_stat": "total=2097152 N0=2097152 N1=0",
	} {
		h.write(dir+file, text+"\n")
	}
}

func TestMemoryShow(t *testing.T) {
	t.Parallel()
	const reported = `"workloads": [
    {"name": "app", "group": "app", "state": "Active", "since": "2000-01-01T00:00:00Z", "policy": "none",
     "localize": {"phase": "InProgress", "left": {"shared": 12, "noRoom": 144043, "gone": 1}, "more": true}},
    {"name": "wide", "group": "wide", "state": "Active", "since": "2000-01-01T00:00:00Z", "policy": "none"}]`
	for name, args := range map[string][]string{
		"one.txt":   {"memory", "show", "app"},
		"one.json":  {"memory", "show", "app", "-o", "json"},
		"one.yaml":  {"memory", "show", "app", "-o", "yaml"},
		"all.txt":   {"memory", "show"},
		"pid.txt":   {"memory", "show", "--pid", "77"},
		"live.txt":  {"memory", "show"},
		"live.json": {"memory", "show", "-o", "json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := twoNodes(t)
			if strings.HasPrefix(name, "live") {
				h.write("state/checkpoint.json", `{"version": "recorded", `+reported+`}`)
				h.live()
			}
			got := h.run(args...)
			file := "testdata/memory/" + name
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", args, diff)
			}
		})
	}
}

// stopAfter calls stop after the given number of writes.
type stopAfter struct {
	text bytes.Buffer
	left int
	stop func()
}

func (w *stopAfter) Write(p []byte) (int, error) {
	if w.left--; w.left <= 0 {
		w.stop()
	}
	return w.text.Write(p)
}

// TestMemoryWatch: Ctrl-C ends the watch with exit code 0.
func TestMemoryWatch(t *testing.T) {
	t.Parallel()
	h := twoNodes(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := stopAfter{left: 3, stop: stop} // a table, the separator, a table
	var problems bytes.Buffer
	args := []string{"memory", "show", "app", "--watch", "--root", h.dir, "--config", filepath.Join(h.dir, "agent.yaml")}
	if code := Run(ctx, args, Streams{Out: &out, Err: &problems}, "test"); code != exitDone {
		t.Errorf("exit code %d: %s", code, problems.String())
	}
	if n := strings.Count(out.text.String(), "WORKLOAD"); n != 2 {
		t.Errorf("%d tables in\n%s", n, out.text.String())
	}
}

// TestMemoryWatchNotes: a note is printed once, not with each table.
func TestMemoryWatchNotes(t *testing.T) {
	t.Parallel()
	h := twoNodes(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := stopAfter{left: 3, stop: stop}
	var problems bytes.Buffer
	args := []string{"memory", "show", "--watch", "--root", h.dir, "--config", filepath.Join(h.dir, "agent.yaml")}
	if code := Run(ctx, args, Streams{Out: &out, Err: &problems}, "test"); code != exitDone {
		t.Errorf("exit code %d: %s", code, problems.String())
	}
	if n := strings.Count(problems.String(), "note: "); n != 1 {
		t.Errorf("%d notes of 1: %s", n, problems.String())
	}
}

// TestMemoryShowWithoutGroups: the nodes are shown even if all workloads wait for their groups.
func TestMemoryShowWithoutGroups(t *testing.T) {
	t.Parallel()
	h := twoNodes(t)
	for _, name := range []string{"app", "wide"} {
		if err := os.Remove(filepath.Join(h.dir, "workloads", name+".yaml")); err != nil {
			t.Fatal(err)
		}
	}
	var out, problems bytes.Buffer
	args := []string{"memory", "show", "--root", h.dir, "--config", filepath.Join(h.dir, "agent.yaml")}
	if code := Run(t.Context(), args, Streams{Out: &out, Err: &problems}, "test"); code != exitDone {
		t.Errorf("exit code %d: %s", code, problems.String())
	}
	if !strings.Contains(out.String(), "NODE") || !strings.Contains(problems.String(), "note: absent: ") {
		t.Errorf("printed %q and %q", out.String(), problems.String())
	}
}

// TestHealthWithoutAgent: the error names what is missing in words, not by a URL.
func TestHealthWithoutAgent(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	var out, problems bytes.Buffer
	args := []string{"agent", "--check-health", "--state-dir", filepath.Join(h.dir, "state")}
	if code := Run(t.Context(), args, Streams{Out: &out, Err: &problems}, "test"); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	if !strings.HasPrefix(problems.String(), "berth: no agent runs: ") || strings.Contains(problems.String(), "http://") {
		t.Errorf("printed %q", problems.String())
	}
}

// TestMemoryExitCodes: scripts rely on the exit code of each class of failure.
func TestMemoryExitCodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(host)
		args   []string
		code   int
		says   string
	}{
		"unknown workload":  {nil, []string{"show", "nobody"}, exitUsage, `"nobody" is not known: allowed: absent, app, wide`},
		"two names":         {nil, []string{"show", "app", "wide"}, exitUsage, "got 2 arguments"},
		"name and pid":      {nil, []string{"show", "app", "--pid", "77"}, exitUsage, "not allowed with"},
		"pid 0":             {nil, []string{"show", "--pid", "0"}, exitUsage, "allowed: 1 or more"},
		"pid gone":          {nil, []string{"show", "--pid", "78"}, exitFailed, "no such process: 78"},
		"pid in the root":   {nil, []string{"show", "--pid", "1"}, exitFailed, "root group"},
		"group gone":        {nil, []string{"show", "absent"}, exitUsage, "no such cgroup"},
		"migrate a root":    {nil, []string{"migrate", "app"}, exitUsage, "only allowed with berth memory show"},
		"no memory by node": {func(h host) { h.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n") }, []string{"show"}, exitUsage, "memory: no mounted cgroup hierarchy"},
		"malformed":         {func(h host) { h.group("app", "0", "0", "anon N0=x") }, []string{"show", "app"}, exitUsage, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := twoNodes(t)
			if c.change != nil {
				c.change(h)
			}
			var out, problems bytes.Buffer
			args := append([]string{"memory"}, append(c.args, "--root", h.dir, "--config", filepath.Join(h.dir, "agent.yaml"))...)
			code := Run(t.Context(), args, Streams{Out: &out, Err: &problems}, "test")
			if code != c.code || !strings.Contains(problems.String(), c.says) {
				t.Errorf("exit code %d, want %d; %s, want %q", code, c.code, problems.String(), c.says)
			}
		})
	}
}

// reading opens the recorded host as the commands do.
func (h host) reading() *memoryHost {
	h.t.Helper()
	g := &globals{Root: h.dir}
	root, closed, err := g.openReading()
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(closed)
	o := &memoryHost{root: root}
	if err := o.discover(); err != nil {
		h.t.Fatal(err)
	}
	return o
}

func TestMigrateTarget(t *testing.T) {
	t.Parallel()
	o := twoNodes(t).reading()
	for name, c := range map[string]struct {
		to, group string
		want      string
		code      int
	}{
		"of its CPUs":       {"", "app", "0", exitDone},
		"CPUs on all nodes": {"", "wide", "", exitUsage},
		"by hand":           {"1", "wide", "1", exitDone},
		"all nodes":         {"0-1", "app", "", exitUsage},
		"no such node":      {"2", "app", "", exitUsage},
		"no node":           {",", "app", "", exitUsage},
		"no list":           {"x", "app", "", exitUsage},
		"foreign mems":      {"1", "app", "", exitFailed},
		"no group":          {"", "absent", "", exitFailed},
	} {
		f := migrateFlags{to: c.to}
		_, got, err := f.local(o, memoryTarget{name: name, group: c.group})
		if got.String() != c.want || exitCode(err) != c.code {
			t.Errorf("%s: %s, %v, want %q and exit code %d", name, got, err, c.want, c.code)
		}
	}
}

// TestMigrateLeavesTheAgentAlone: migrate refuses a group in which the agent is moving pages.
func TestMigrateLeavesTheAgentAlone(t *testing.T) {
	t.Parallel()
	phase := func(p string) capability.Sections {
		return capability.Sections{"localize": map[string]any{"phase": p}}
	}
	o := &memoryHost{targets: []memoryTarget{
		{name: "moving", group: "a/b", sections: phase("InProgress")},
		{name: "done", group: "c", sections: phase("Completed")},
		{name: "waits", sections: phase("InProgress")},
	}}
	for group, code := range map[string]int{
		"a/b": exitDiffers, "a": exitDiffers, "a/b/c": exitDiffers, "a/bc": exitDone, "c": exitDone, "d": exitDone,
	} {
		if err := o.idle(group); exitCode(err) != code {
			t.Errorf("%s: %v, want exit code %d", group, err, code)
		}
	}
}

// TestRoomOfBoundGroups: memory that bound groups may still use under their limits is not free room.
func TestRoomOfBoundGroups(t *testing.T) {
	t.Parallel()
	o := twoNodes(t).reading()
	o.targets = []memoryTarget{{name: "app", group: "app"}, {name: "wide", group: "wide"}, {name: "absent", group: "absent"}}
	want := observed.Bytes{1073741824 - 1047000000, 0}
	if diff := cmp.Diff(want, o.unused()); diff != "" {
		t.Errorf("unused (-want +got):\n%s", diff)
	}
}

func TestPassEnds(t *testing.T) {
	t.Parallel()
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		report mover.Report
		code   int
	}{
		"well":        {t.Context(), mover.Report{Outcome: locality.Completed}, exitDone},
		"nothing":     {t.Context(), mover.Report{Outcome: locality.Skipped}, exitDone},
		"room":        {t.Context(), mover.Report{Outcome: locality.Failed, Err: mover.ErrNoRoom}, exitFailed},
		"rights":      {t.Context(), mover.Report{Err: errors.Join(mover.ErrRights, syscall.EPERM)}, exitUnsupported},
		"mems":        {t.Context(), mover.Report{Err: errors.Join(mover.ErrMems, syscall.EACCES)}, exitFailed},
		"pagemap":     {t.Context(), mover.Report{Err: syscall.EACCES}, exitUnsupported},
		"real time":   {t.Context(), mover.Report{Err: mover.ErrRealTime}, exitUnsupported},
		"own mems":    {t.Context(), mover.Report{Err: mover.ErrOwnMems}, exitUnsupported},
		"unseen":      {t.Context(), mover.Report{Err: mover.ErrUnseen}, exitUnsupported},
		"group gone":  {t.Context(), mover.Report{Err: cgroup.ErrNoGroup}, exitFailed},
		"interrupted": {interrupted, mover.Report{Err: mover.ErrCanceled}, exitFailed},
	} {
		if err := failure(c.ctx, c.report); exitCode(err) != c.code {
			t.Errorf("%s: %v, want exit code %d", name, err, c.code)
		}
	}
}

func TestPassIsPrinted(t *testing.T) {
	t.Parallel()
	var w memoryWorkload
	w.Left = map[string]int64{}
	w.see(mover.Report{
		Outcome: locality.Completed, Calls: 3, Pauses: 1,
		Moved:    []mover.Moved{{Pair: locality.Pair{From: 1, To: 0}, Base: 4096, Huge: 2 << 20}},
		Left:     map[locality.Left]int64{locality.LeftShared: 2},
		Exited:   []mover.Exit{{PID: 7, Err: syscall.ESRCH}},
		Warnings: []string{"process 8: large"},
	}, mover.Order{Local: cpuset.Set{}.Add(0), DryRun: true})
	var b table.Page
	w.Pass.write(&b)
	const want = `
FROM  TO  PAGES    HUGE PAGES  POOL PAGES
1     0   4.0 KiB  2.0 MiB     0 B

Completed in 0.0 s, 3 calls, 1 pauses
(dry run: nothing was moved)
processes that ended meanwhile: 7
warning: process 8: large
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if w.Left["shared"] != 2 {
		t.Errorf("left %v", w.Left)
	}
}
