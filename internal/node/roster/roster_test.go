package roster

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/unit"
	"github.com/berth-project/berth/test/plain"
)

// machine is a host made of plain files, with cgroup v2 and a Roster on it.
type machine struct {
	*Roster
	*plain.Host
	t    *testing.T
	log  strings.Builder
	now  time.Duration
	host *cgroup.Host
}

func newMachine(t *testing.T, groups ...string) *machine {
	t.Helper()
	m := &machine{Host: plain.WithGroups(t, "cpuset cpu"), t: t, now: time.Hour}
	for _, g := range groups {
		m.group(g, "50000 100000")
	}
	m.host = m.Cgroups()
	m.Roster = m.fresh()
	t.Cleanup(func() { m.Close() })
	return m
}

// fresh returns a Roster as another agent would have it.
func (m *machine) fresh() *Roster {
	return New(Options{
		Host: m.host, Log: slog.New(slog.NewTextHandler(&m.log, nil)),
		Fail: func(what string, err error) { m.t.Errorf("%s: %v", what, err) },
	})
}

func (m *machine) group(path, limit string) {
	dir := "sys/fs/cgroup/" + path + "/"
	m.Write(dir+"cgroup.controllers", "cpuset cpu\n")
	m.Write(dir+"cgroup.procs", "")
	m.Write(dir+"cpu.max", limit+"\n")
	m.Write(dir+"cpu.max.burst", "0\n")
	m.Write(dir+"cpu.stat", "usage_usec 0\nnr_periods 9\nnr_throttled 7\nthrottled_usec 1\nnr_bursts 0\nburst_usec 0\n")
}

// process makes a process in a group, with a start time.
func (m *machine) process(pid int, group string, start int) {
	m.Write(fmt.Sprintf("proc/%d/cgroup", pid), "0::/"+group+"\n")
	m.Write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (sh) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0\n", pid, start))
}

// find advances the time by soleEvery and calls Find.
func (m *machine) find() {
	m.now += soleEvery
	m.Find(m.now)
}

// has returns the group of each workload, or why it has none.
func (m *machine) has() map[string]string {
	all := map[string]string{}
	for _, e := range m.Entries() {
		all[e.Workload.Name] = e.Reason
		if e.Group != nil {
			all[e.Workload.Name] = "/" + e.Group.Path()
		}
	}
	return all
}

func (m *machine) want(all map[string]string) {
	m.t.Helper()
	if diff := cmp.Diff(all, m.has()); diff != "" {
		m.t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func in(name, group string) Ready {
	return Ready{Workload: workload.Workload{Name: name, Cgroup: group}}
}

func by(name string, pids ...int) Ready {
	return Ready{Workload: workload.Workload{Name: name, PIDs: pids}}
}

// TestUsage checks that Usage reads the group of a workload as well as any other group.
func TestUsage(t *testing.T) {
	m := newMachine(t, "a", "above")
	m.Adopt([]Ready{in("one", "a")}, nil)
	m.find()
	m.Write("sys/fs/cgroup/above/cpu.stat", "usage_usec 7\n")
	m.Write("sys/fs/cgroup/a/cpu.stat", "usage_usec 5\n")
	for group, want := range map[string]unit.CPUTime{"a": 5000, "above": 7000} {
		if got, err := m.Usage(group); got != want || err != nil {
			t.Errorf("%s used %d, want %d: %v", group, got, want, err)
		}
	}
	if _, err := m.Usage("gone"); !errors.Is(err, cgroup.ErrNoGroup) {
		t.Errorf("a group that is not there: %v", err)
	}
}

func TestFindByPath(t *testing.T) {
	m := newMachine(t, "a", "b")
	m.Adopt([]Ready{in("one", "a"), in("two", "b"), in("gone", "c")}, nil)
	m.find()
	if got := m.has(); got["one"] != "/a" || got["two"] != "/b" || !strings.Contains(got["gone"], cgroup.ErrNoGroup.Error()) {
		t.Errorf("groups %v", got)
	}
	m.group("c", "max 100000")
	m.find()
	m.want(map[string]string{"one": "/a", "two": "/b", "gone": "/c"})
	if got := m.Standalone(); len(got) != 3 || got[0].Cgroup != "c" {
		t.Errorf("standalone %+v", got)
	}
	// Two workloads swap their groups: neither may still hold the claim to the other's group.
	before := m.Entries()[1].Group
	m.Adopt([]Ready{in("one", "b"), in("two", "a")}, nil)
	m.find()
	m.want(map[string]string{"one": "/b", "two": "/a"})
	if got := m.Entries()[0].Group; got == nil || got == before {
		t.Error("the handle of another group stayed")
	}
}

func TestOneGroupOfTwoWorkloads(t *testing.T) {
	m := newMachine(t, "a")
	m.Adopt([]Ready{in("one", "a")}, nil)
	m.find()
	m.Adopt([]Ready{in("one", "a"), in("two", "a")}, nil)
	m.find()
	shared := "group a: " + ErrShared.Error()
	m.want(map[string]string{"one": "/a", "two": shared})
	m.find()
	m.find()
	if n := strings.Count(m.log.String(), "workload waits"); n != 1 {
		t.Errorf("%d lines for one workload that waits", n)
	}
	m.Adopt([]Ready{in("two", "a")}, nil)
	m.find()
	m.want(map[string]string{"two": "/a"})
}

// TestOneGroupOfTwoWorkloadsAfterARestart checks that the workload that had the group before a restart keeps it. If
// neither had it, neither gets it.
func TestOneGroupOfTwoWorkloadsAfterARestart(t *testing.T) {
	shared := "group a: " + ErrShared.Error()
	for held, want := range map[string]map[string]string{
		"one": {"one": "/a", "two": shared},
		"two": {"one": shared, "two": "/a"},
		"":    {"one": shared, "two": shared},
	} {
		m := newMachine(t, "a")
		m.Recall(nil, map[string]string{held: "a"})
		m.Adopt([]Ready{in("one", "a"), in("two", "a")}, nil)
		m.find()
		m.want(want)
		m.find()
		m.want(want)
	}
}

// TestAdoptKeepsTheHandle checks that a workload keeps its open group as long as its file names the same group, even if
// other fields change.
func TestAdoptKeepsTheHandle(t *testing.T) {
	m := newMachine(t, "a", "b")
	m.Adopt([]Ready{in("one", "a")}, nil)
	m.find()
	e, changes := m.Entries()[0], m.Changes()
	before, w := e.Group, e.Workload
	m.find()
	if m.Changes() != changes {
		t.Error("a change while nothing changed")
	}
	other := in("one", "a")
	other.Workload.Class, other.Warnings = "LS", []string{"odd"}
	m.Adopt([]Ready{other}, nil)
	if e != m.Entries()[0] || e.Group != before || e.Workload == w || e.Workload.Class != "LS" || len(e.Warnings) != 1 || w.Class != "" {
		t.Errorf("after a change of the class: %+v", e)
	}
	if m.Changes() == changes {
		t.Error("the change is not counted")
	}
	m.Adopt([]Ready{in("one", "b")}, nil)
	if e.Group != nil || e.Reason == "" {
		t.Errorf("another group is named: %+v", e)
	}
}

// TestRelease checks that a released group is looked for again, and that the log has one line for it.
func TestRelease(t *testing.T) {
	m := newMachine(t, "a")
	m.Adopt([]Ready{in("one", "a")}, nil)
	for range 3 {
		m.find()
		m.Release(m.Entries()[0], "its file cannot be read")
	}
	m.want(map[string]string{"one": "its file cannot be read"})
	if n := strings.Count(m.log.String(), "its file cannot be read"); n != 1 {
		t.Errorf("%d lines for one reason", n)
	}
	m.find()
	m.find() // in between, the group could be read
	m.Release(m.Entries()[0], "its file cannot be read")
	if n := strings.Count(m.log.String(), "its file cannot be read"); n != 2 {
		t.Errorf("%d lines for a group lost twice", n)
	}
}

func TestOneClaim(t *testing.T) {
	m := newMachine(t, "a")
	other := m.fresh()
	other.Adopt([]Ready{in("one", "a")}, nil)
	other.Find(m.now)
	m.Adopt([]Ready{in("one", "a")}, nil)
	m.find()
	if got := m.has()["one"]; !strings.Contains(got, cgroup.ErrClaimed.Error()) {
		t.Errorf("a group that another agent has: %s", got)
	}
	other.Close()
	m.find()
	m.want(map[string]string{"one": "/a"})
}

func TestContainersThatDoNotRun(t *testing.T) {
	m := newMachine(t)
	stopped := in("pod/main", "")
	stopped.Workload.Pod.UID = "8a1c"
	m.Adopt([]Ready{stopped, in("root", ".")}, nil)
	m.find()
	if got := m.has(); got["pod/main"] != ErrEnded.Error() || got["root"] == "/" {
		t.Errorf("groups %v", got)
	}
	if strings.Contains(m.log.String(), "pod/main") {
		t.Errorf("it is no problem that a container does not run: %s", m.log.String())
	}
}

// TestFindByProcesses checks that a workload named by processes has their group only while exactly these processes are
// in it.
func TestFindByProcesses(t *testing.T) {
	m := newMachine(t, "a")
	m.process(7, "a", 100)
	m.Write("sys/fs/cgroup/a/cgroup.procs", "7\n")
	m.Adopt([]Ready{by("one", 7)}, nil)
	m.find()
	m.want(map[string]string{"one": "/a"})

	m.Write("sys/fs/cgroup/a/cgroup.procs", "7\n8\n")
	m.Find(m.now + soleEvery - 1)
	m.want(map[string]string{"one": "/a"})
	m.find()
	if got := m.has()["one"]; !strings.Contains(got, cgroup.ErrNotSole.Error()) {
		t.Errorf("another process in the group: %s", got)
	}
	m.Write("sys/fs/cgroup/a/cgroup.procs", "7\n")
	m.find()
	m.want(map[string]string{"one": "/a"})

	m.process(7, "a", 200)
	m.find()
	refused := fmt.Sprintf("pids [7]: %v: 7", ErrOther)
	m.want(map[string]string{"one": refused})
	// A damaged file or a new agent of this boot does not forget which process it was.
	m.Adopt(nil, []Waiting{{Workload: workload.Workload{Name: "one"}, Damaged: true}})
	before := m.Started()
	m.Roster = m.fresh()
	m.Recall(before, nil)
	m.Adopt([]Ready{by("one", 7)}, nil)
	m.find()
	m.want(map[string]string{"one": refused})
	// A removed file, or a file with other processes, does.
	m.Adopt(nil, nil)
	if got := m.Started(); len(got) != 0 {
		t.Errorf("processes of no workload: %v", got)
	}
	m.Adopt([]Ready{by("one", 7)}, nil)
	m.find()
	m.want(map[string]string{"one": "/a"})
}

func TestRootGroupIsRefused(t *testing.T) {
	m := newMachine(t)
	m.process(7, "", 100)
	m.Adopt([]Ready{by("one", 7)}, nil)
	m.find()
	if got := m.has()["one"]; got == "/" || got == "" {
		t.Errorf("the root group: %q", got)
	}
}

func TestAbove(t *testing.T) {
	m := newMachine(t, "a", "a/b", "a/b/c")
	above := NewAbove(m.host)
	t.Cleanup(above.Close)
	half, none := unit.CPUs(0.5), unit.CPUs(0)
	see := func(path string, limit unit.CPUs, throttled uint64) {
		t.Helper()
		if got, n := above.Limit(path), above.Throttled(path); got != limit || n != throttled {
			t.Errorf("%s: %v CPUs, throttled %d times; want %v, %d", path, got, n, limit, throttled)
		}
	}
	above.Round(time.Second)
	see("a", half, 7)
	see("x", none, 0)
	m.Write("sys/fs/cgroup/a/cpu.max", "max 100000\n")
	see("a", half, 7) // once a round
	above.Round(2 * time.Second)
	see("a", none, 7)
	see("a/b", half, 7)

	m.Write("sys/fs/cgroup/a/b/cpu.max", "") // the files of a removed group cannot be read either
	if err := os.RemoveAll(m.Path("sys/fs/cgroup/a/b")); err != nil {
		t.Fatal(err)
	}
	above.Round(3 * time.Second)
	see("a/b", none, 0)
	m.group("a/b", "20000 100000")
	above.Round(4 * time.Second)
	see("a/b", 0.2, 7)
	see("a", none, 7)
	above.Round(4*time.Second + keptFor)
	if len(above.byPath) != 2 {
		t.Errorf("%d groups are open", len(above.byPath))
	}
	above.Round(4*time.Second + keptFor + 1)
	if len(above.byPath) != 0 {
		t.Errorf("%d groups are open that nothing asks for", len(above.byPath))
	}
}

func TestApart(t *testing.T) {
	m := newMachine(t, "offline", "bound", "shared", "wide")
	m.Adopt([]Ready{in("offline", "offline"), in("bound", "bound"), in("shared", "shared"), in("wide", "wide")}, nil)
	m.find()
	var apart Apart
	used := 0
	// second advances one second in which each group uses that many CPU-seconds, and checks how many of them are apart.
	second := func(seconds int, want unit.CPUSeconds) {
		t.Helper()
		m.now += time.Second
		used += seconds
		for _, e := range m.Entries() {
			m.Write("sys/fs/cgroup/"+e.Group.Path()+"/cpu.stat", fmt.Sprintf("usage_usec %d\n", used*1_000_000))
		}
		got := apart.Used(m.now, m.Entries(), map[string]bool{"bound": true}, map[string]int{"wide": 1})
		if got.Seconds() != want {
			t.Errorf("%v CPU-seconds are apart, want %v", got.Seconds(), want)
		}
	}
	second(5, 0)
	second(1, 1+1) // of bound and of wide
	second(3, 3+1) // wide's use beyond its exclusive CPU belongs to the pool
	offline := in("offline", "offline")
	offline.Workload.Offline = true
	m.Adopt([]Ready{offline, in("bound", "bound"), in("shared", "shared"), in("wide", "wide")}, nil)
	m.find()
	second(1, 1+1) // offline: its use while in the pool is not counted
	second(1, 1+1+1)
	m.Write("sys/fs/cgroup/bound/cpu.stat", "")
	if got := apart.Used(m.now, m.Entries(), map[string]bool{"bound": true}, map[string]int{"wide": 1}); got != 0 {
		t.Errorf("%v is apart of groups that used nothing or cannot be read", got)
	}
	second(1, 1+1+1) // nothing was lost in between
}
