package groups

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
	"github.com/berth-project/berth/test/plain"
)

// host is a host with a v2 hierarchy made of plain files.
type host struct {
	Groups
	t     *testing.T
	plain *plain.Host
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{plain: plain.WithGroups(t, "cpuset cpu"), t: t}
	h.write("sys/devices/system/cpu/possible", "0-7\n")
	h.write("sys/devices/system/cpu/online", "0-5\n")
	h.write("sys/fs/cgroup/cpuset.cpus.effective", "0-5\n")
	h.Host = h.plain.Cgroups()
	var err error
	if h.Journal, err = journal.Open(h.plain.Path("state"), "boot", cgroupfile.Values()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Journal.Close() })
	return h
}

func (h *host) write(name, content string) { h.plain.Write(name, content) }

// group makes a group with its own list, "" for none, and a list in effect.
func (h *host) group(path, list, effective string) {
	h.write("sys/fs/cgroup/"+path+"/cgroup.controllers", "cpuset cpu\n")
	h.write("sys/fs/cgroup/"+path+"/cpuset.cpus", list+"\n")
	h.write("sys/fs/cgroup/"+path+"/cpuset.cpus.effective", effective+"\n")
}

// journals makes the journal's entry for the CPUs of a group as it is now.
func (h *host) journals(path string, original plan.Value, owner plan.Owner) {
	h.t.Helper()
	h.recorded(path, cgroup.KnobCPUs, original, owner)
}

// recorded makes the journal's entry for a knob of a group as it is now.
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

// TestCPUs checks that the effective CPUs are those of the group, even if Berth narrowed them. The original CPUs come
// from the journal, from the group itself, or from the next group above with a list.
func TestCPUs(t *testing.T) {
	h := newHost(t)
	h.group("slice", "0-3", "0-3")
	h.group("slice/pod", "", "0-3")
	h.group("slice/pod/c", "1", "1")
	h.group("free", "", "0-5")
	h.group("given", "2-3", "2-3")
	h.group("shrunk", "0-1", "0-1")
	h.group("slice/pod/named", "0-7", "0-3") // while processes ran, it was set back to inheriting
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

// TestJournaled checks that the journal's entry is used for its own group only, and not for a new group with the same
// name.
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
	h.group("given", "2-3,5", "2-3,5") // another program changed the list: those CPUs were not given
	is("given", plan.OwnerPlace, "5")
	h.group("given", "2-3", "2-3")
	h.group("next", "3-4", "3-4")
	h.journals("next", "0-5", plan.OwnerPlace)
	if err := h.Journal.Intend(plan.Change{Setting: plan.Setting{Target: cgroupfile.Target("next", cgroup.KnobCPUs), Value: "3-4", Owner: plan.OwnerPlace}, From: "0-5"}); err != nil {
		t.Fatal(err)
	}
	is("given", plan.OwnerPlace, "5") // another group has some of the earlier CPUs, so a program wrote the old list again
	if err := h.Journal.Forget(cgroupfile.Target("next", cgroup.KnobCPUs)); err != nil {
		t.Fatal(err)
	}
	intend(plan.OwnerPlace, "2-3", "0-5") // back to its original, which is not exclusive
	is("given", plan.OwnerPlace, "2-3")
	h.group("given", "0-5", "0-5")
	is("given", plan.OwnerPlace, "")
	h.group("given", "2-3", "2-3")
	intend(plan.OwnerPool, "2-3", "0-1,4-5")
	is("given", plan.OwnerPool, "0-1,4-5")
	intend(plan.OwnerPlace, "0-1,4-5", "2-3") // its list in the pool was not exclusive
	is("given", plan.OwnerPlace, "2-3")
	is("shrunk", plan.OwnerBurst, "")
	is("free", "", "")
	dir := h.plain.Path("sys/fs/cgroup/given")
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	is("given", "", "")
	h.group("given", "4", "4")
	is("given", "", "")
	wants(t, "original CPUs of another group", h.OriginalCPUs("given"), "4")
}

// TestGroupOutsideOfCPUSets checks that on v1 a group without a directory in the cpuset hierarchy has the CPUs of that
// hierarchy's root.
func TestGroupOutsideOfCPUSets(t *testing.T) {
	h := newHost(t)
	h.write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"+
		"32 23 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n")
	h.write("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-5\n")
	h.write("sys/fs/cgroup/cpu/app/cpu.shares", "2\n")
	h.Host = h.plain.Cgroups()
	if got := h.EffectiveCPUs("app").String(); got != "0-5" {
		t.Errorf("it may run on %q", got)
	}
	if got := h.EffectiveCPUs("none"); !got.IsEmpty() {
		t.Errorf("a group that is not there may run on %q", got)
	}
}

// TestOriginalLimit checks that a group's limit is the limit that it would have without Berth.
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

// TestHeldGroups checks that few groups stay open, however many are read. Each read returns the present value, and the
// group above, which every read needs, stays open.
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

// TestHeldGroupWithOldFiles checks that an open group which cannot be read is opened again. If systemd disables and
// enables a controller, the open files return ENODEV from then on.
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

// TestHasProcesses checks groups with a process, with one below, with none, and a removed group. A group that cannot be
// read may have processes.
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
