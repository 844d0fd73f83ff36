package cgroupfile

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/plain"
)

// desk is a host of plain files with one group, which has memory nodes 0-1, and an Aside.
type desk struct {
	*testing.T

	plain *plain.Host
	host  *cgroup.Host
	aside *Aside
	kinds apply.Kinds
	// mu is held for what the Aside asks.
	mu    sync.Mutex
	may   error
	asked []string
	// opening is called when a group is opened for a write beside the caller.
	opening func()
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{T: t, plain: plain.WithGroups(t, "cpuset"), opening: func() {}}
	d.write("sys/fs/cgroup/cpuset.mems.effective", "0-2\n")
	d.write("sys/devices/system/cpu/online", "0-1\n")
	d.write("proc/sys/kernel/sched_rt_period_us", "1000000\n")
	d.limit("950000")
	d.group()
	d.host = d.plain.Cgroups()
	d.aside = NewAside(func(group string, to cpuset.Set) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.asked = append(d.asked, group+" "+to.String())
		return d.may
	})
	d.kinds = d.aside.Kinds(&opened{d.host, d}, nil)
	t.Cleanup(d.aside.Wait)
	return d
}

// group makes the group.
func (d *desk) group() {
	for name, text := range map[string]string{"cgroup.controllers": "cpuset\n", "cpuset.mems": "\n", "cpuset.mems.effective": "0-1\n"} {
		d.write("sys/fs/cgroup/db/"+name, text)
	}
}

// limit sets how much of a period real-time threads may have.
func (d *desk) limit(runtime string) { d.write("proc/sys/kernel/sched_rt_runtime_us", runtime+"\n") }

func (d *desk) write(name, text string) { d.plain.Write(name, text) }

// stands is what the file has.
func (d *desk) stands() string { return d.plain.Read("sys/fs/cgroup/db/cpuset.mems") }

// opened says when an Aside opens a group: a driver opens each once, before it has anything written.
type opened struct {
	*cgroup.Host

	desk *desk
}

func (o *opened) Group(path string, of ...cgroup.Controller) (*cgroup.Group, error) {
	if len(of) > 0 {
		o.desk.opening()
	}
	return o.Host.Group(path, of...)
}

// asks has the driver write memory nodes, to a group that inherits them.
func (d *desk) asks(mems cgroup.Value) error { return d.change(cgroup.Inherit, mems) }

// change has the driver write memory nodes over others.
func (d *desk) change(from, mems cgroup.Value) error {
	d.Helper()
	g, err := d.host.Group("db")
	if err != nil {
		d.Fatal(err)
	}
	defer g.Close()
	id, err := g.ID(cgroup.CPUSet)
	if err != nil {
		d.Fatal(err)
	}
	driver := d.kinds[Driver].Opener.Open(apply.Call{Written: func(plan.Target) {}})
	if opened, ok := driver.(io.Closer); ok {
		defer opened.Close()
	}
	_, err = driver.Write(plan.Change{
		Setting: plan.Setting{Target: Target("db", cgroup.KnobMems), ID: Identity(id), Value: plan.Value(mems)}, From: plan.Value(from),
	})
	return err
}

// A group whose memory nodes may not change keeps them, and the error says why: to lose some, and to get more.
func TestAsideNarrowsWhereItMay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.may = errors.New("a policy would be rebound")
	for _, mems := range []cgroup.Value{"0", "0-2"} {
		err := d.asks(mems)
		if !errors.Is(err, apply.ErrDeferred) || !errors.Is(err, d.may) || !strings.Contains(err.Error(), "memory nodes stay 0-1") {
			t.Errorf("%s: %v", mems, err)
		}
	}
	if d.aside.Wait(); d.stands() != "" {
		t.Errorf("it has %q", d.stands())
	}
	if got := strings.Join(d.asked, ", "); got != "db 0, db 0-2" {
		t.Errorf("asked %q", got)
	}
	d.may = nil
	for _, mems := range []string{"0", "0-2"} {
		if err := d.asks(cgroup.Value(mems)); !errors.Is(err, apply.ErrDeferred) {
			t.Errorf("%s, where it may: %v", mems, err)
		}
		if d.aside.Wait(); d.stands() != mems {
			t.Errorf("it has %q, want %s", d.stands(), mems)
		}
	}
}

// TestAsideAsksOfEachChange: a group is looked at before it gets other memory nodes, also where it keeps all that it has:
// the kernel is about each of its threads. The node above counts where it is to inherit. Where pages stay, on cgroup v1,
// policies alone count.
func TestAsideAsksOfEachChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		has   string
		to    cgroup.Value
		stay  bool
		asked string
	}{
		{"0", "0-1", false, "db 0-1"},
		{"0", "0-1", true, ""},
		{"0-1", "0-1", false, ""},
		{"0-1", "0-2", false, "db 0-2"},
		{"1", "0-1", false, "db 0-1"},
		{"1", "0-1", true, "db 0-1"},
		{"0-1", "0", true, "db 0"},
		{"0,2", "0-2", false, "db 0-2"},
		{"0", cgroup.Inherit, false, "db 0-2"},
		{"1", cgroup.Inherit, false, "db 0-2"},
		{"0-2", cgroup.Inherit, false, ""},
		{"0-2", "0-7", false, ""},
	} {
		t.Run(c.has+" to "+string(c.to), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.write("sys/fs/cgroup/db/cpuset.mems.effective", c.has+"\n")
			if c.stay {
				d.write("sys/fs/cgroup/db/cpuset.memory_migrate", "0\n")
			}
			d.may = errors.New("a policy would be rebound")
			if err := d.asks(c.to); errors.Is(err, d.may) != (c.asked != "") {
				t.Errorf("%v", err)
			}
			if got := strings.Join(d.asked, ", "); got != c.asked {
				t.Errorf("asked %q, want %q", got, c.asked)
			}
		})
	}
}

// Where a write that moves pages may never end none is made: not to narrow, to widen or to inherit again,
// and not by a caller that waits. What the group has already may be written.
func TestNothingMovesThatMayNotEnd(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		d := newDesk(t)
		if waits {
			d.kinds = Kinds(&opened{d.host, d}, nil)
		}
		d.limit("-1")
		for _, mems := range []cgroup.Value{"0", "0-2", cgroup.Inherit} {
			if err := d.asks(mems); errors.Is(err, apply.ErrDeferred) || !errors.Is(err, pages.ErrRealTime) || !strings.Contains(err.Error(), `of "db" stay 0-1`) {
				t.Errorf("%s: %v", mems, err)
			}
		}
		if d.aside.Wait(); d.stands() != "" {
			t.Errorf("it has %q", d.stands())
		}
		if err := d.asks("0-1"); errors.Is(err, pages.ErrRealTime) {
			t.Errorf("what it has: %v", err)
		}
		if d.aside.Wait(); d.stands() != "0-1" {
			t.Errorf("it has %q", d.stands())
		}
	}
}

// The list of a group that has become a partition is left alone, whoever writes.
func TestPartitionIsNotWritten(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, text := range map[string]string{"cpuset.cpus": "0-1", "cpuset.cpus.effective": "0-1", "cpuset.cpus.partition": "isolated"} {
		d.write("sys/fs/cgroup/db/"+name, text+"\n")
	}
	d.write("sys/fs/cgroup/cpuset.cpus.effective", "0-3\n")
	driver := Kinds(d.host, nil)[Driver].Opener.Open(apply.Call{
		Written: func(plan.Target) {}, Threads: func(plan.Target) ([]journal.Thread, bool) { return nil, false },
	})
	if opened, ok := driver.(io.Closer); ok {
		defer opened.Close()
	}
	change := plan.Change{Setting: plan.Setting{Target: Target("db", cgroup.KnobCPUs), Value: "0-2"}, From: "0-1"}
	if _, err := driver.Write(change); !errors.Is(err, errPartition) {
		t.Errorf("%v", err)
	}
	d.write("sys/fs/cgroup/db/cpuset.cpus.partition", "member\n")
	d.write("sys/fs/cgroup/db/cpuset.cpus.effective", "0-2\n")
	if _, err := driver.Write(change); err != nil {
		t.Errorf("once it is none: %v", err)
	}
}

// A limit that goes while a write waits for another one keeps it from being made.
func TestAsideAsksAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.opening = func() { d.limit("-1") }
	if err := d.asks("0"); !errors.Is(err, apply.ErrDeferred) || errors.Is(err, pages.ErrRealTime) {
		t.Errorf("%v", err)
	}
	if d.aside.Wait(); d.stands() != "" {
		t.Errorf("it has %q", d.stands())
	}
	d.limit("950000")
	if err := d.asks("0"); !errors.Is(err, pages.ErrRealTime) {
		t.Errorf("the failure is not said: %v", err)
	}
}

// TestAsideAsksForTheLook: what a look found does not count once another write took its time.
func TestAsideAsksForTheLook(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	policy := errors.New("a policy would be rebound")
	d.opening = func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.may = policy
	}
	if err := d.asks("0"); !errors.Is(err, apply.ErrDeferred) || errors.Is(err, policy) {
		t.Errorf("%v", err)
	}
	if d.aside.Wait(); d.stands() != "" {
		t.Errorf("it has %q", d.stands())
	}
	if err := d.asks("0"); !errors.Is(err, apply.ErrDeferred) || !errors.Is(err, policy) {
		t.Errorf("then: %v", err)
	}
}

// TestAsideOfWhatStands: a group with processes that has all memory nodes, and is to inherit them, has what
// is as good. Nothing is written beside the caller, at this look and at each one after it.
func TestAsideOfWhatStands(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from     cgroup.Value
		events   string
		deferred bool
	}{
		"all of them":       {"0-2", "populated 1\n", false},
		"some of them":      {"0-1", "populated 1\n", true},
		"without processes": {"0-2", "populated 0\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.write("sys/devices/system/node/possible", "0-2\n")
			d.write("sys/fs/cgroup/db/cpuset.mems", string(c.from)+"\n")
			d.write("sys/fs/cgroup/db/cpuset.mems.effective", string(c.from)+"\n")
			d.write("sys/fs/cgroup/db/cgroup.events", c.events)
			if err := d.change(c.from, cgroup.Inherit); errors.Is(err, apply.ErrDeferred) != c.deferred || !c.deferred && err != nil {
				t.Errorf("deferred %v: %v", c.deferred, err)
			}
		})
	}
}

// The caller never waits for a write, and the next one to the same group begins after it.
func TestAsideWritesBesideTheCaller(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	gate := make(chan struct{})
	d.opening = func() { <-gate }
	for _, mems := range []cgroup.Value{"0", "0", "1"} {
		if err := d.asks(mems); !errors.Is(err, apply.ErrDeferred) {
			t.Errorf("%s: %v", mems, err)
		}
	}
	if d.stands() != "" {
		t.Errorf("it has %q before the write", d.stands())
	}
	close(gate)
	if d.aside.Wait(); d.stands() != "0" {
		t.Errorf("it has %q", d.stands())
	}
	if err := d.asks("1"); !errors.Is(err, apply.ErrDeferred) {
		t.Error(err)
	}
	if d.aside.Wait(); d.stands() != "1" {
		t.Errorf("then it has %q", d.stands())
	}
}

// A write that failed is the answer to the next one of the same value, once.
func TestAsideReportsFailures(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	file := d.plain.Path("sys/fs/cgroup/db/cpuset.mems")
	d.opening = func() {
		if err := os.Rename(file, file+".away"); err != nil {
			t.Error(err)
		}
	}
	if err := d.asks("0"); !errors.Is(err, apply.ErrDeferred) {
		t.Error(err)
	}
	d.aside.Wait()
	if err := os.Rename(file+".away", file); err != nil {
		t.Fatal(err)
	}
	d.opening = func() {}
	if err := d.asks("0"); err == nil || errors.Is(err, apply.ErrDeferred) || !strings.Contains(err.Error(), "cpuset.mems") {
		t.Errorf("after a write that failed: %v", err)
	}
	if err := d.asks("0"); !errors.Is(err, apply.ErrDeferred) {
		t.Errorf("again: %v", err)
	}
	if d.aside.Wait(); d.stands() != "0" {
		t.Errorf("it has %q", d.stands())
	}
}

// A group that was made again under the name is left alone.
func TestAsideWritesToNoOtherGroup(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.opening = func() {
		dir := d.plain.Path("sys/fs/cgroup/db")
		if err := os.Rename(dir, dir+"-before"); err != nil {
			t.Error(err)
		}
		d.group()
	}
	if err := d.asks("0"); !errors.Is(err, apply.ErrDeferred) {
		t.Error(err)
	}
	if d.aside.Wait(); d.stands() != "" {
		t.Errorf("another group has %q", d.stands())
	}
}

// At the end of the agent the caller writes, once what is under way has ended. It still narrows nothing
// that it may not, and whoever it asks then may wait.
func TestAsideAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	gate := make(chan struct{})
	d.opening = func() { <-gate }
	if err := d.asks("0-1"); !errors.Is(err, apply.ErrDeferred) {
		t.Error(err)
	}
	close(gate)
	if d.aside.AtOnce(func(group string, to cpuset.Set) error {
		d.asked = append(d.asked, "at once "+group+" "+to.String())
		return d.may
	}); d.stands() != "0-1" {
		t.Errorf("it has %q", d.stands())
	}
	if err := d.asks("0-2"); errors.Is(err, apply.ErrDeferred) || d.stands() != "0-2" {
		t.Errorf("it has %q, %v", d.stands(), err)
	}
	d.may = errors.New("too much is elsewhere")
	if err := d.asks("0"); !errors.Is(err, d.may) || d.stands() != "0-2" {
		t.Errorf("it has %q, %v", d.stands(), err)
	}
	if got := strings.Join(d.asked, ", "); got != "at once db 0-2, at once db 0" {
		t.Errorf("asked %q", got)
	}
}
