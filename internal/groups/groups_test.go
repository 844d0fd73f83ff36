package groups

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// host is a v2 hierarchy of files.
type host struct {
	Groups
	t   *testing.T
	dir string
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir()}
	h.write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n")
	h.write("sys/devices/system/cpu/possible", "0-7\n")
	h.write("sys/devices/system/cpu/online", "0-5\n")
	h.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n")
	h.write("sys/fs/cgroup/cpuset.cpus.effective", "0-5\n")
	root, err := hostfs.Open(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	if h.Host, err = cgroup.Open(root); err != nil {
		t.Fatal(err)
	}
	if h.Journal, err = journal.Open(filepath.Join(h.dir, "state"), "boot", cgroupfile.Values()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Journal.Close() })
	return h
}

func (h *host) write(name, content string) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// group makes a group with a list of its own, "" for none.
func (h *host) group(path, list, effective string) {
	h.write("sys/fs/cgroup/"+path+"/cgroup.controllers", "cpuset cpu\n")
	h.write("sys/fs/cgroup/"+path+"/cpuset.cpus", list+"\n")
	h.write("sys/fs/cgroup/"+path+"/cpuset.cpus.effective", effective+"\n")
}

// journals records the original list of a group as it is now.
func (h *host) journals(path string, original plan.Value, owner plan.Owner) {
	h.t.Helper()
	h.recorded(path, cgroup.KnobCPUs, original, owner)
}

// recorded records the original value of a knob of a group as it is now.
func (h *host) recorded(path string, k cgroup.Knob, original plan.Value, owner plan.Owner) {
	h.t.Helper()
	group, err := h.Host.Group(path)
	if err != nil {
		h.t.Fatal(err)
	}
	defer group.Close()
	id, err := group.ID(k.Controller())
	if err != nil {
		h.t.Fatal(err)
	}
	err = h.Journal.Begin(journal.Entry{
		Target: cgroupfile.Target(path, k), ID: cgroupfile.Identity(id), Boot: "boot",
		Original: original, Owner: owner, Workload: "w", Why: "test", Since: time.Unix(1, 0),
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func wants(t *testing.T, what string, got cpuset.Set, list string) {
	t.Helper()
	want, err := cpuset.Parse(list)
	if err != nil || got != want {
		t.Errorf("%s: %s, want %s", what, got, list)
	}
}

// The effective CPUs are the group's, also where Berth narrowed them; the original ones are
// the journal's, or the group's own, or those of the next group above with a list.
func TestCPUs(t *testing.T) {
	h := newHost(t)
	h.group("slice", "0-3", "0-3")
	h.group("slice/pod", "", "0-3")
	h.group("slice/pod/c", "1", "1")
	h.group("free", "", "0-5")
	h.group("given", "2-3", "2-3")
	h.group("shrunk", "0-1", "0-1")
	h.group("slice/pod/named", "0-7", "0-3") // it went back to what it inherits while processes ran
	h.group("slice/again", "2", "2")
	h.journals("given", plan.Value(cgroup.Inherit), plan.OwnerPlace)
	h.journals("shrunk", "0-4", plan.OwnerBurst)
	h.journals("slice/again", "0-7", plan.OwnerPlace)
	for _, test := range []struct{ group, effective, original string }{
		{"slice", "0-3", "0-3"},
		{"slice/pod", "0-3", "0-3"},
		{"slice/pod/c", "1", "1"},
		{"free", "0-5", "0-7"}, // every CPU of the machine
		{"given", "2-3", "0-7"},
		{"shrunk", "0-1", "0-4"},
		{"slice/gone", "", "0-3"},
		{"slice/pod/named", "0-3", "0-3"},
		{"slice/again", "2", "0-3"},
	} {
		wants(t, "effective CPUs of "+test.group, h.EffectiveCPUs(test.group), test.effective)
		wants(t, "original CPUs of "+test.group, h.OriginalCPUs(test.group), test.original)
	}
}

// An entry is about one group; what was made again under its name is not in the journal.
func TestJournaled(t *testing.T) {
	h := newHost(t)
	h.group("given", "2-3", "2-3")
	h.group("shrunk", "0-1", "0-1")
	h.group("free", "", "0-5")
	h.journals("given", "0-5", plan.OwnerPlace)
	h.journals("shrunk", "0-4", plan.OwnerBurst)
	is := func(group string, want plan.Owner, given string) {
		t.Helper()
		owner, cpus := h.Journaled(group)
		if owner != want {
			t.Errorf("%s: owner %q; want %q", group, owner, want)
		}
		wants(t, "CPUs that "+group+" was given", cpus, given)
	}
	is("given", plan.OwnerPlace, "") // nothing is written yet
	intend := func(owner plan.Owner, from, to plan.Value) {
		t.Helper()
		if err := h.Journal.Intend(plan.Change{Setting: plan.Setting{
			Target: cgroupfile.Target("given", cgroup.KnobCPUs), Value: to, Owner: owner, Workload: "w", Why: "test",
		}, From: from}); err != nil {
			t.Fatal(err)
		}
	}
	intend(plan.OwnerPlace, "0-5", "2-3")
	is("given", plan.OwnerPlace, "2-3")
	intend(plan.OwnerPlace, "2-3", "5") // an agent that dies now leaves it on 2-3
	is("given", plan.OwnerPlace, "2-3")
	h.group("given", "2-3,5", "2-3,5") // what another program makes of it is not what it was given
	is("given", plan.OwnerPlace, "5")
	h.group("given", "2-3", "2-3")
	h.group("next", "3-4", "3-4")
	h.journals("next", "0-5", plan.OwnerPlace)
	if err := h.Journal.Intend(plan.Change{Setting: plan.Setting{Target: cgroupfile.Target("next", cgroup.KnobCPUs), Value: "3-4", Owner: plan.OwnerPlace}, From: "0-5"}); err != nil {
		t.Fatal(err)
	}
	is("given", plan.OwnerPlace, "5") // another one has some of the earlier ones: a program wrote them again
	if err := h.Journal.Forget(cgroupfile.Target("next", cgroup.KnobCPUs)); err != nil {
		t.Fatal(err)
	}
	intend(plan.OwnerPlace, "2-3", "0-5") // back to its original: that is not its own
	is("given", plan.OwnerPlace, "2-3")
	h.group("given", "0-5", "0-5")
	is("given", plan.OwnerPlace, "")
	h.group("given", "2-3", "2-3")
	intend(plan.OwnerPool, "2-3", "0-1,4-5")
	is("given", plan.OwnerPool, "0-1,4-5")
	intend(plan.OwnerPlace, "0-1,4-5", "2-3") // what it had in the pool is not its own
	is("given", plan.OwnerPlace, "2-3")
	is("shrunk", plan.OwnerBurst, "")
	is("free", "", "")
	dir := filepath.Join(h.dir, "sys/fs/cgroup/given")
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	is("given", "", "")
	h.group("given", "4", "4")
	is("given", "", "")
	wants(t, "original CPUs of another group", h.OriginalCPUs("given"), "4")
}

// On v1 a group that the hierarchy of CPU sets does not have is in the root of it.
func TestGroupOutsideOfCPUSets(t *testing.T) {
	h := newHost(t)
	h.write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"+
		"32 23 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n")
	h.write("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-5\n")
	h.write("sys/fs/cgroup/cpu/app/cpu.shares", "2\n")
	root, err := hostfs.Open(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	if h.Host, err = cgroup.Open(root); err != nil {
		t.Fatal(err)
	}
	if got := h.EffectiveCPUs("app").String(); got != "0-5" {
		t.Errorf("it may run on %q", got)
	}
	if got := h.EffectiveCPUs("none"); !got.IsEmpty() {
		t.Errorf("a group that is not there may run on %q", got)
	}
}

// A group's own limit is the one that it would have without Berth.
func TestOriginalLimit(t *testing.T) {
	h := newHost(t)
	for group, quota := range map[string]string{"two": "200000 100000", "none": "max 100000", "raised": "900000 100000"} {
		h.group(group, "", "0-5")
		h.write("sys/fs/cgroup/"+group+"/cpu.max", quota+"\n")
	}
	h.recorded("raised", cgroup.KnobMax, "150000 100000", plan.OwnerBurst)
	for group, want := range map[string]unit.CPUs{"two": 2, "none": 0, "raised": 1.5, "missing": 0} {
		if got := h.OriginalLimit(group); got != want {
			t.Errorf("%s: limit %g, want %g", group, got, want)
		}
	}
}

// Few groups are held, however many are read. What stands is read each time, and one that all
// ask for stays held.
func TestHeldGroups(t *testing.T) {
	h := newHost(t)
	for i := range 3 * mostHeld {
		name := "above/" + strconv.Itoa(i)
		h.group("above", strconv.Itoa(i%6), "0-5")
		h.group(name, "", "0-5")
		wants(t, name, h.EffectiveCPUs(name), "0-5")
		wants(t, "above "+name, h.OriginalCPUs(name), strconv.Itoa(i%6))
	}
	if len(h.held) != mostHeld {
		t.Errorf("%d groups are held", len(h.held))
	}
	if !slices.ContainsFunc(h.held, func(g *cgroup.Group) bool { return g.Path() == "above" }) {
		t.Error("the group above is opened again each time")
	}
}

// A group that is held and cannot be read is opened anew: systemd takes a controller away and gives it
// back, and the files that were open answer ENODEV from then on.
func TestHeldGroupWithOldFiles(t *testing.T) {
	h := newHost(t)
	h.group("a", "", "0-5")
	wants(t, "held", h.EffectiveCPUs("a"), "0-5")
	old := h.held[0]
	err := h.read("a", func(g *cgroup.Group) error {
		if g == old {
			return syscall.ENODEV
		}
		return nil
	})
	if err != nil || len(h.held) != 1 || h.held[0] == old {
		t.Errorf("%v, %d held", err, len(h.held))
	}
	if err := h.read("a", func(*cgroup.Group) error { return syscall.ENODEV }); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("what fails again as well: %v", err)
	}
}

// TestHasProcesses looks at groups with a process, with one below, with none, and at one that is gone. What cannot be
// read may have one.
func TestHasProcesses(t *testing.T) {
	h := newHost(t)
	for _, group := range []string{"busy", "above", "above/below", "idle", "unread"} {
		h.write("sys/fs/cgroup/"+group+"/cgroup.controllers", "cpuset cpu\n")
		h.write("sys/fs/cgroup/"+group+"/cgroup.procs", "")
	}
	h.write("sys/fs/cgroup/busy/cgroup.procs", "7\n")
	h.write("sys/fs/cgroup/above/below/cgroup.procs", "8\n")
	h.write("sys/fs/cgroup/unread/cgroup.procs", "no process\n")
	for group, want := range map[string]bool{"busy": true, "above": true, "idle": false, "unread": true, "gone": false} {
		if got := h.HasProcesses(group); got != want {
			t.Errorf("%s: %v, want %v", group, got, want)
		}
	}
}
