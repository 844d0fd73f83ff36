package reconcile

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/plain"
)

// unitHost is a cgroup v2 host of plain files, whose groups are units of a systemd that is asked between passes.
type unitHost struct {
	*plain.Host
	t          *testing.T
	later      *systemd.Later
	reconciler *Reconciler
	now        time.Duration
	calls      []string
	at         map[string]string // the path of a unit that is not at the top
	fails      error
	deaf       bool // systemd reports success and does nothing
	unknown    error
}

func newUnitHost(t *testing.T, units ...string) *unitHost {
	t.Helper()
	h := &unitHost{Host: plain.WithGroups(t, "cpuset cpu"), t: t}
	h.Write("sys/devices/system/cpu/online", "0-3\n")
	h.Write("proc/sys/kernel/sched_rt_runtime_us", "950000\n")
	h.Write("proc/sys/kernel/sched_rt_period_us", "1000000\n")
	h.Write("sys/fs/cgroup/cpuset.cpus.effective", "0-3\n")
	for _, u := range units {
		h.Write("sys/fs/cgroup/"+u+"/cgroup.controllers", "cpuset cpu\n")
		h.Write("sys/fs/cgroup/"+u+"/cpuset.cpus", "\n")
		h.Write("sys/fs/cgroup/"+u+"/cpuset.cpus.effective", "0-3\n")
	}
	h.open(h)
	return h
}

// open starts an agent on the host with a connection to systemd.
func (h *unitHost) open(units cgroupfile.Units) {
	t := h.t
	t.Helper()
	host := h.Cgroups()
	j, err := journal.Open(t.TempDir(), "boot", cgroupfile.Values())
	if err != nil {
		t.Fatal(err)
	}
	h.later = systemd.NewLater(units)
	a := apply.New(cgroupfile.Kinds(host, h.later), j, apply.Options{Records: true}) // as an agent does
	h.reconciler = New(Options{Owners: []plan.Owner{plan.OwnerPlace, plan.OwnerPool, plan.OwnerIsolate}, Host: host, Journal: j, Applier: a, Systemd: true})
	t.Cleanup(func() { _, _ = h.reconciler.Close(), j.Close() })
}

// SetList acts as systemd and the kernel do.
func (h *unitHost) SetList(unit string, k cgroup.Knob, v cgroup.Value) error {
	h.calls = append(h.calls, unit+" "+string(v))
	if h.fails != nil || h.deaf {
		return h.fails
	}
	group := "sys/fs/cgroup/" + cmp.Or(h.at[unit], unit) + "/"
	if v == cgroup.Inherit {
		h.Write(group+string(k)+".effective", "0-3\n")
		return nil
	}
	h.Write(group+string(k), string(v)+"\n")
	h.Write(group+string(k)+".effective", string(v)+"\n")
	return nil
}

// MayRecord reports that every unit has properties.
func (h *unitHost) MayRecord(group string, _ cgroup.Knob) bool { return systemd.UnitOf(group) != "" }

// Property answers a question that an agent asks when it ends, as SetProperty does.
func (h *unitHost) Property(group string, _ cgroup.Knob) (cgroup.Value, bool, error) {
	h.calls = append(h.calls, "property of "+group)
	return cgroup.Inherit, true, h.unknown
}

func (h *unitHost) SetProperty(string, cgroup.Knob, cgroup.Value) error {
	return errors.New("not Berth's")
}

// pass makes a pass, in which systemd must not be asked, and then asks systemd.
func (h *unitHost) pass() Report {
	h.t.Helper()
	before := len(h.calls)
	report, _ := h.reconciler.Pass(h.now)
	if len(h.calls) > before {
		h.t.Fatalf("systemd was asked in a pass: %v", h.calls[before:])
	}
	for _, a := range h.later.Take() {
		if h.reconciler.StillAsks(a) {
			h.later.Do(a)
		}
	}
	return report
}

func (h *unitHost) asked(want ...string) {
	h.t.Helper()
	if !slices.Equal(h.calls, want) {
		h.t.Errorf("systemd was asked for %q, want %q", h.calls, want)
	}
	h.calls = nil
}

// states returns the states of a report.
func states(r Report) string {
	var all []string
	for _, g := range r.Groups {
		all = append(all, string(g.State))
	}
	return strings.Join(all, " ")
}

// has sets the list that a unit was created with.
func (h *unitHost) has(unit, list string) {
	h.t.Helper()
	h.Write("sys/fs/cgroup/"+unit+"/cpuset.cpus", list+"\n")
	h.Write("sys/fs/cgroup/"+unit+"/cpuset.cpus.effective", list+"\n")
}

// originals returns the values that the journal would restore.
func (h *unitHost) originals() string {
	var all []string
	for _, e := range h.reconciler.opts.Journal.Entries() {
		all = append(all, e.Target.Object+" "+string(e.Original))
	}
	return strings.Join(all, ", ")
}

// settles makes passes until nothing more is asked.
func (h *unitHost) settles() Report {
	h.t.Helper()
	var r Report
	for range 6 {
		h.now += time.Second
		r = h.pass()
	}
	return r
}

func set(list string) cpuset.Set {
	s, _ := cpuset.Parse(list)
	return s
}

// No group gets CPUs before other groups have left them, even though systemd is asked between passes. In the end
// everything is restored.
func TestUnitsBetweenPasses(t *testing.T) {
	h := newUnitHost(t, "p.scope", "x.scope")
	h.reconciler.Want(Of([]Group{{Group: "p.scope", CPUs: set("0-1"), Pinned: true}, {Group: "x.scope", CPUs: set("2-3")}}...))
	h.pass()
	h.asked("p.scope 0-1", "x.scope 2-3")
	if r := h.pass(); states(r) != "applied applied" || len(r.Errors) > 0 {
		t.Errorf("%s %v", states(r), r.Errors)
	}
	h.asked()
	h.reconciler.Want(Of([]Group{{Group: "p.scope", CPUs: set("0-2"), Pinned: true}, {Group: "x.scope", CPUs: set("3")}}...))
	h.pass()
	h.asked("x.scope 3") // p has to wait
	h.pass()
	h.asked("p.scope 0-2")
	if r := h.pass(); states(r) != "applied applied" || len(r.Events) > 0 {
		t.Errorf("%s %v", states(r), r.Events)
	}
	h.reconciler.Want(nil)
	h.pass()
	h.asked("p.scope inherit", "x.scope inherit")
	if r := h.pass(); r.Restored != 2 || len(r.Errors) > 0 || len(h.reconciler.opts.Journal.Entries()) > 0 {
		t.Errorf("%d put back, %v, left %v", r.Restored, r.Errors, h.reconciler.opts.Journal.Entries())
	}
	h.asked()
}

// A unit whose file names all CPUs may have no list on record. Systemd is asked before the unit gets a list, and has to
// forget that list later.
func TestUnitWithAllByName(t *testing.T) {
	h := newUnitHost(t, "x.scope")
	h.Write("sys/devices/system/cpu/possible", "0-3\n")
	h.has("x.scope", "0-3")
	h.reconciler.Want(Of(Group{Group: "x.scope", CPUs: set("2-3"), Pinned: true}))
	h.pass()
	h.asked("property of x.scope")
	h.pass()
	h.asked("x.scope 2-3")
	if r := h.settles(); states(r) != "applied" || len(r.Errors) > 0 || h.originals() != "x.scope inherit" {
		t.Errorf("%s %v, the original is %s", states(r), r.Errors, h.originals())
	}
	h.reconciler.Want(nil)
	for range 3 {
		if r := h.pass(); len(r.Errors) > 0 {
			t.Error(r.Errors)
		}
	}
	h.asked("x.scope inherit")
	if got := h.originals(); got != "" {
		t.Errorf("left is %q", got)
	}
}

// If systemd does not answer what it has on record, each unit that is asked about fails and is reported once.
func TestQuestionsThatFail(t *testing.T) {
	h := newUnitHost(t, "p.scope", "x.scope")
	h.Write("sys/devices/system/cpu/possible", "0-3\n")
	h.has("p.scope", "0-3")
	h.has("x.scope", "0-3")
	h.unknown = errors.New("no")
	h.reconciler.Want(Of([]Group{{Group: "p.scope", CPUs: set("0-1"), Pinned: true}, {Group: "x.scope", CPUs: set("2-3"), Pinned: true}}...))
	reported, asked := 0, map[string]int{}
	for range 120 { // each has time for one question
		report, _ := h.reconciler.Pass(h.now)
		reported += len(report.Events)
		if asks := h.later.Take(); len(asks) > 0 {
			h.later.Do(asks[0])
		}
		h.now += time.Second / 2
	}
	for _, call := range h.calls {
		asked[call]++
	}
	if p, x := asked["property of p.scope"], asked["property of x.scope"]; reported != 2 || p < 2 || x < 2 || p > 10 || x > 10 {
		t.Errorf("reported %d times; %v", reported, asked)
	}
}

// A systemd that fails or does nothing is reported once and asked again at growing intervals.
func TestUnitsThatFail(t *testing.T) {
	for name, prepare := range map[string]func(*unitHost){
		"refused": func(h *unitHost) { h.fails = errors.New("no") },
		"deaf":    func(h *unitHost) { h.deaf = true },
	} {
		t.Run(name, func(t *testing.T) {
			h := newUnitHost(t, "p.scope")
			prepare(h)
			h.reconciler.Want(Of([]Group{{Group: "p.scope", CPUs: set("0-1"), Pinned: true}}...))
			reported := 0
			for range 60 {
				reported += len(h.pass().Events)
				reported += len(h.pass().Events)
				h.now += time.Second
			}
			if reported != 1 || len(h.calls) < 4 || len(h.calls) > 8 {
				t.Errorf("reported %d times, asked %d times", reported, len(h.calls))
			}
			h.fails, h.deaf, h.now = nil, false, h.now+LastRetry
			h.pass()
			if r := h.pass(); states(r) != "applied" {
				t.Errorf("in the end: %s", states(r))
			}
			prepare(h)
			h.reconciler.Want(nil)
			failures := 0
			for range 10 {
				failures += len(h.pass().Errors)
				h.now += time.Second
			}
			if h.fails != nil && failures != 1 {
				t.Errorf("%d failures of putting back reported", failures)
			}
			h.fails, h.deaf, h.now = nil, false, h.now+LastRetry
			h.pass()
			h.pass()
			if left := h.reconciler.opts.Journal.Entries(); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// An answer to the runtime between a pass and the question to systemd takes precedence.
func TestUnitsOvertaken(t *testing.T) {
	h := newUnitHost(t, "x.scope")
	h.reconciler.Want(Of([]Group{{Group: "x.scope", CPUs: set("1-3")}}...))
	h.reconciler.Pass(0)
	if err := h.reconciler.Record(Of([]Group{{Group: "x.scope", CPUs: set("2-3")}}...)); err != nil {
		t.Fatal(err)
	}
	for _, a := range h.later.Take() {
		if h.reconciler.StillAsks(a) {
			t.Errorf("%v is still asked for", a)
		}
	}
	h.pass()
	h.asked("x.scope 2-3")
	if r := h.pass(); states(r) != "applied" {
		t.Errorf("%s", states(r))
	}
}

// A list moves through the intersection of its old and new CPUs. The original is on disk before systemd is asked for
// the first half, and it is the value that is restored.
func TestUnitsThatMove(t *testing.T) {
	h := newUnitHost(t, "x.scope", "y.scope")
	h.has("x.scope", "0-1")
	h.has("y.scope", "0-1")
	h.reconciler.Want(Of([]Group{{Group: "x.scope", CPUs: set("1-2")}, {Group: "y.scope", CPUs: set("1-2")}}...))
	originals := "x.scope 0-1, y.scope 0-1"
	h.reconciler.Pass(h.now)
	if got := h.originals(); got != originals {
		t.Errorf("while systemd is about to be asked the journal has %q, want %q", got, originals)
	}
	for _, a := range h.later.Take() {
		h.later.Do(a)
	}
	if r := h.settles(); states(r) != "applied applied" || h.originals() != originals {
		t.Errorf("%s, the journal has %q", states(r), h.originals())
	}
	h.asked("x.scope 1", "y.scope 1", "x.scope 1-2", "y.scope 1-2")
	h.reconciler.Want(nil)
	for range 3 {
		if r := h.pass(); len(r.Errors) > 0 {
			t.Error(r.Errors)
		}
	}
	if got := h.originals(); got != "" {
		t.Errorf("left is %q", got)
	}
	h.asked("x.scope 1", "y.scope 1", "x.scope 0-1", "y.scope 0-1")
}

// The loop that asks systemd drops a question if a later pass desires another value or none.
func TestUnitsNoLongerAwaited(t *testing.T) {
	for name, c := range map[string]struct {
		desired []Group
		want    []string
	}{
		"the same":   {[]Group{{Group: "x.scope", CPUs: set("1-3")}}, []string{"x.scope 1-3"}},
		"another":    {[]Group{{Group: "x.scope", CPUs: set("2-3")}}, []string{"x.scope 2-3"}},
		"other mems": {[]Group{{Group: "x.scope", Mems: set("0")}}, nil},
		"none":       {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newUnitHost(t, "x.scope")
			h.Write("sys/fs/cgroup/x.scope/cpuset.mems", "0\n")
			h.Write("sys/fs/cgroup/x.scope/cpuset.mems.effective", "0\n")
			h.reconciler.Want(Of([]Group{{Group: "x.scope", CPUs: set("1-3")}}...))
			h.reconciler.Pass(h.now)
			old := h.later.Take()
			h.reconciler.Want(Of(c.desired...))
			h.reconciler.Pass(h.now)
			for _, a := range append(old, h.later.Take()...) {
				if h.reconciler.StillAsks(a) && !slices.Contains(h.calls, a.Unit+" "+string(a.Value)) {
					h.later.Do(a)
				}
			}
			h.asked(c.want...)
		})
	}
}

// A unit was created with Berth's list, which is no longer desired. It gets back the value that it would have had
// otherwise. A unit that was created with its own list gets that list back.
func TestUnitsMadeWithAnotherList(t *testing.T) {
	h := newUnitHost(t, "made.scope", "own.scope")
	h.has("made.scope", "0-1")
	h.has("own.scope", "0-1")
	h.reconciler.Want(Of([]Group{{Group: "made.scope", CPUs: set("0-3"), Made: true}, {Group: "own.scope", CPUs: set("0-3")}}...))
	if r := h.settles(); states(r) != "applied applied" || h.originals() != "made.scope inherit, own.scope 0-1" {
		t.Errorf("%s, the journal has %q", states(r), h.originals())
	}
	h.asked("made.scope 0-3", "own.scope 0-3")
	h.reconciler.Want(nil)
	if r := h.settles(); len(r.Errors) > 0 || h.originals() != "" {
		t.Errorf("%v, left is %q", r.Errors, h.originals())
	}
	h.asked("own.scope 0-1", "made.scope inherit")
}

// A group below another manager's delegated group is written directly, because the system unit of that name is a
// different one.
func TestUnitsOfAnotherSystemd(t *testing.T) {
	group := "user.slice/user-1000.slice/user@1000.service/session.slice/dbus.service"
	h := newUnitHost(t, group)
	h.reconciler.Want(Of([]Group{{Group: group, CPUs: set("2-3")}}...))
	h.settles()
	h.asked()
	if stands, err := os.ReadFile(h.Path("sys/fs/cgroup", group, "cpuset.cpus")); err != nil || strings.TrimSpace(string(stands)) != "2-3" {
		t.Errorf("the group has %q, %v", stands, err)
	}
}

// A group that is mistaken for the same unit does not prevent the restoration of another group.
func TestUnitsOfOneName(t *testing.T) {
	h := newUnitHost(t, "a.slice/x.scope", "b.slice/x.scope")
	h.at = map[string]string{"x.scope": "a.slice/x.scope"}
	desired := Group{Group: "b.slice/x.scope", CPUs: set("0-3")}
	h.has("b.slice/x.scope", "0-3")
	h.reconciler.Want(Of([]Group{{Group: "a.slice/x.scope", CPUs: set("1-3")}, desired}...))
	if r := h.settles(); states(r) != "applied applied" {
		t.Fatalf("%s", states(r))
	}
	h.asked("x.scope 1-3")
	h.reconciler.Want(Of([]Group{desired}...))
	if r := h.settles(); states(r) != "applied" || h.originals() != "" {
		t.Errorf("%s, left is %q", states(r), h.originals())
	}
	h.asked("x.scope inherit")
}

// remake makes systemd create the group of a unit again with a list, as at a restart. Systemd applies its recorded
// properties to the new group. An empty list only removes the group.
func (h *unitHost) remake(unit, list string) {
	h.t.Helper()
	dir := h.Path("sys/fs/cgroup", unit)
	h.has(unit, "")                           // an open file fails when its real group is gone, but not here
	old := filepath.Join(h.t.TempDir(), unit) // the new group has another inode
	if err := os.Rename(dir, old); err != nil {
		h.t.Fatal(err)
	}
	defer func() {
		if err := os.RemoveAll(old); err != nil {
			h.t.Error(err)
		}
	}()
	if list != "" {
		h.Write("sys/fs/cgroup/"+unit+"/cgroup.controllers", "cpuset cpu\n")
		h.has(unit, list)
	}
	h.now += reassert
}

// A restarted service has its CPUs again from the property that systemd stores until the next boot. Its original stays
// in the journal and is restored in the end.
func TestUnitsThatRestart(t *testing.T) {
	const unit = "redis.service"
	desired := []Group{{Group: unit, CPUs: set("2-3")}}
	for name, c := range map[string]struct {
		then func(h *unitHost)
		want []string
	}{
		"desired all the time": {func(h *unitHost) {
			h.remake(unit, "2-3")
			h.settles()
		}, []string{unit + " inherit"}},
		"desired otherwise then": {func(h *unitHost) {
			h.remake(unit, "2-3")
			h.reconciler.Want(Of([]Group{{Group: unit, CPUs: set("1-3")}}...))
			h.settles()
		}, []string{unit + " 1-3", unit + " inherit"}},
		"with another, desired otherwise": {func(h *unitHost) {
			h.remake(unit, "2-3")
			h.reconciler.Want(Of([]Group{{Group: unit, CPUs: set("1-3")}, {Group: "other.service", CPUs: set("1-3")}}...))
			h.settles()
			h.reconciler.Want(Of([]Group{{Group: unit, CPUs: set("1-3")}}...))
			h.settles()
		}, []string{"other.service 1-3", unit + " 1-3", "other.service inherit", unit + " inherit"}},
		"stopped, and not desired meanwhile": {func(h *unitHost) {
			h.remake(unit, "")
			h.reconciler.Want(nil)
			h.settles()
			h.remake(unit, "2-3")
		}, []string{unit + " inherit"}},
		"stopped while desired": {func(h *unitHost) {
			h.remake(unit, "")
			h.settles()
			h.remake(unit, "2-3")
			h.settles()
		}, []string{unit + " inherit"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newUnitHost(t, unit, "other.service")
			h.reconciler.Want(Of(desired...))
			h.settles()
			h.asked(unit + " 2-3")
			c.then(h)
			if got := h.originals(); got != unit+" inherit" {
				t.Errorf("the journal has %q", got)
			}
			h.reconciler.Want(nil)
			if r := h.settles(); len(r.Errors) > 0 || len(r.Events) > 0 || h.originals() != "" {
				t.Errorf("%v %v, left is %q", r.Errors, r.Events, h.originals())
			}
			h.asked(c.want...)
		})
	}
}

// A scope ends for good, and a service is created again with another list, so systemd had nothing of Berth's on record.
// Nothing of the old units is left to restore.
func TestUnitsThatAreOthers(t *testing.T) {
	h := newUnitHost(t, "x.scope", "redis.service")
	h.reconciler.Want(Of([]Group{{Group: "x.scope", CPUs: set("2-3")}, {Group: "redis.service", CPUs: set("2-3")}}...))
	h.settles()
	h.remake("x.scope", "")
	h.remake("redis.service", "0-3")
	h.reconciler.Want(Of([]Group{{Group: "redis.service", CPUs: set("2-3")}}...))
	h.settles()
	if got := h.originals(); got != "redis.service 0-3" {
		t.Errorf("the journal has %q", got)
	}
}

// A value that is desired again before its restoration is not restored.
func TestUnitsDesiredAgain(t *testing.T) {
	h := newUnitHost(t, "x.scope")
	desired := []Group{{Group: "x.scope", CPUs: set("1-3")}}
	h.reconciler.Want(Of(desired...))
	h.settles()
	h.asked("x.scope 1-3")
	h.reconciler.Want(nil)
	h.reconciler.Pass(h.now)
	h.reconciler.Want(Of(desired...))
	for _, a := range h.later.Take() {
		if h.reconciler.StillAsks(a) {
			t.Errorf("%v is still asked for", a)
		}
	}
	if r := h.settles(); states(r) != "applied" {
		t.Errorf("%s", states(r))
	}
	h.asked()
}

// An earlier agent may have written through a unit that is not the group's. The value is restored through that unit.
func TestUnitsOfAnEarlierAgent(t *testing.T) {
	group := "user.slice/user-1000.slice/user@1000.service/session.slice/dbus.service"
	h := newUnitHost(t, group)
	g, err := h.reconciler.opts.Host.Group(group)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	id, err := g.ID(cgroup.CPUSet)
	if err != nil {
		t.Fatal(err)
	}
	s := plan.Setting{Target: cgroupfile.UnitTarget(group, cgroup.KnobCPUs), ID: cgroupfile.Identity(id), Value: "2-3", Owner: plan.OwnerPool}
	if err := h.reconciler.opts.Applier.Record([]plan.Change{{Setting: s, From: plan.Value(cgroup.Inherit)}}); err != nil {
		t.Fatal(err)
	}
	h.has(group, "2-3")
	h.at = map[string]string{"dbus.service": group} // what the kernel makes of the file that is written afterwards
	h.reconciler.Want(nil)
	h.settles()
	h.asked("dbus.service inherit")
	if got := h.originals(); got != "" {
		t.Errorf("left is %q", got)
	}
}
