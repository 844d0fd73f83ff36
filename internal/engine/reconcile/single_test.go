package reconcile

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/hostfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/plain"
)

const tune plan.Owner = "tune"

// sysctlHost is a host with one sysctl, for which the tests desire another value.
type sysctlHost struct {
	*plain.Host
	t          *testing.T
	file       string
	journal    *journal.Journal
	reconciler *Reconciler
	target     plan.Target
	now        time.Duration
}

func newSysctlHost(t *testing.T) *sysctlHost {
	t.Helper()
	return newSysctlHostOf(t, hostfile.Kinds)
}

// newSysctlHostOf returns a sysctlHost that interprets values with kinds.
func newSysctlHostOf(t *testing.T, kinds func(*hostfs.Root) apply.Kinds) *sysctlHost {
	t.Helper()
	h := &sysctlHost{Host: plain.WithGroups(t, "cpuset cpu"), t: t}
	h.Write("proc/sys/vm/swappiness", "60\n")
	h.file = "proc/sys/vm/swappiness"
	root, host := h.Root(), h.Cgroups()
	var err error
	h.journal, err = journal.Open(t.TempDir(), "boot", hostfile.Values())
	h.must(err)
	h.target, err = hostfile.Target("/" + h.file)
	h.must(err)
	a := apply.New(kinds(root), h.journal, apply.Options{})
	h.reconciler = New(Options{Owners: []plan.Owner{tune}, Host: host, Journal: h.journal, Applier: a})
	t.Cleanup(func() { _, _ = h.reconciler.Close(), h.journal.Close() })
	return h
}

func (h *sysctlHost) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// want sets the desired value of the sysctl.
func (h *sysctlHost) want(v plan.Value) {
	h.reconciler.Want([]plan.Desired{{Setting: plan.Setting{Target: h.target, Value: v, Owner: tune, Workload: "profile", Why: "latency"}}})
}

// pass makes a pass some time later and checks the value of the sysctl.
func (h *sysctlHost) pass(after time.Duration, want string) Report {
	h.t.Helper()
	h.now += after
	r, _ := h.reconciler.Pass(h.now)
	if got := h.Read(h.file); got != want {
		h.t.Fatalf("after %s the value is %s, want %s; %+v", h.now, got, want, r)
	}
	return r
}

// A value outside of cgroups follows the rules of all values. It is remembered, left to another writer who insists, and
// restored.
func TestSysctl(t *testing.T) {
	h := newSysctlHost(t)
	h.want("10")
	if r := h.pass(0, "10"); r.Writes != 1 || len(r.Others) != 1 || r.Others[0].State != StateApplied {
		t.Errorf("report %+v", r)
	}
	if e, known := h.journal.Entry(h.target); !known || e.Original != "60" || e.Owner != tune {
		t.Errorf("entry %+v", e)
	}
	h.Write(h.file, "30\n")
	h.pass(time.Second, "30") // not checked yet
	h.pass(reassert, "10")
	h.Write(h.file, "30\n")
	r := h.pass(reassert, "30")
	if len(r.Events) != 1 || r.Events[0].Reason != v1alpha1.EventHostDrift || r.Others[0].State != StateConflict {
		t.Errorf("report %+v", r)
	}
	if r := h.pass(reassert, "30"); len(r.Events) != 0 {
		t.Errorf("reported twice: %+v", r.Events)
	}
	h.pass(6*time.Minute, "10") // unchanged for five minutes
	h.reconciler.Want(nil)
	if r := h.pass(0, "60"); r.Restored != 1 || len(r.Others) != 0 {
		t.Errorf("report %+v", r)
	}
	if _, known := h.journal.Entry(h.target); known {
		t.Error("there is an entry still")
	}
}

// The host itself can change a value, for example when a process joins a group whose threads have a cookie. That is not
// another writer. Berth replaces the value however often it changes, and at the next pass after the object was touched.
func TestMangledIsNoConflict(t *testing.T) {
	h := newSysctlHostOf(t, func(root *hostfs.Root) apply.Kinds {
		kinds := hostfile.Kinds(root)
		kind := kinds[hostfile.Driver]
		kind.Mangled = func(_ plan.Target, v, recorded plan.Value) bool { return v == "11" && recorded == "10" }
		kinds[hostfile.Driver] = kind
		return kinds
	})
	h.want("10")
	h.pass(0, "10")
	for range 3 {
		h.Write(h.file, "11\n")
		h.reconciler.Touch("another")
		h.pass(time.Second, "11")
		h.reconciler.Touch(h.target.Object)
		if r := h.pass(time.Second, "10"); len(r.Events) > 0 || r.Others[0].State != StateApplied {
			t.Errorf("report %+v", r)
		}
	}
}

// A failure of isolation settings is reported as IsolationLimited.
func TestFailureOfIsolate(t *testing.T) {
	h := newSysctlHost(t)
	h.reconciler.Want([]plan.Desired{{Setting: plan.Setting{Target: plan.Target{Driver: "none", Object: "batch", Knob: "k"}, Value: "1", Owner: plan.OwnerIsolate}}})
	var events []Event
	for range 3 {
		r, next := h.reconciler.Pass(h.now)
		events, h.now = append(events, r.Events...), h.now+next
	}
	if len(events) != 1 || events[0].Reason != v1alpha1.EventIsolationLimited || events[0].Group != "batch" {
		t.Errorf("events %+v", events)
	}
}

// The reconciler waits for a file that does not exist yet.
func TestSysctlThatComesLater(t *testing.T) {
	h := newSysctlHost(t)
	h.Remove(h.file)
	h.want("10")
	if r, next := h.reconciler.Pass(h.now); len(r.Others) != 1 || r.Others[0].State == StateApplied || next > firstRetry {
		t.Errorf("report %+v, next %s", r, next)
	}
	h.Write(h.file, "60\n")
	h.pass(firstRetry, "10")
}

// An answer to the runtime may come to nothing. Until the desired settings are passed again in full, the reconciler
// then desires too much, so Wanted must return false.
func TestAnsweredDoesNotStay(t *testing.T) {
	h := newSysctlHost(t)
	desired := []plan.Desired{{Setting: plan.Setting{Target: h.target, Value: "10", Owner: tune}}}
	if h.reconciler.Wanted(nil) {
		t.Error("before anything was desired nothing is")
	}
	h.reconciler.Want(desired)
	if !h.reconciler.Wanted(slices.Clone(desired)) || h.reconciler.Wanted(nil) {
		t.Error("what is desired is not what it was given")
	}
	h.must(h.reconciler.Record(Of(Group{Group: "g", CPUs: cpuset.Set{}.Add(0)})))
	if h.reconciler.Wanted(desired) {
		t.Error("the reconciler is not given everything again in the next pass")
	}
	h.reconciler.Want(desired)
	if !h.reconciler.Wanted(desired) {
		t.Error("it was given everything again")
	}
}
