package reconcile

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/test/plain"
)

// nestedHost is a cgroup v1 host of plain files. All groups below a workload's group get its CPUs.
type nestedHost struct {
	*plain.Host
	t          *testing.T
	reconciler *Reconciler
	now        time.Duration
	events     []string
}

func newNestedHost(t *testing.T, groups ...string) *nestedHost {
	t.Helper()
	h := &nestedHost{Host: plain.New(t), t: t}
	h.Write("proc/self/mountinfo", "26 25 0:23 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n")
	h.Write("sys/devices/system/cpu/online", "0-3\n")
	for _, group := range append(groups, "") {
		h.group(group)
	}
	host := h.Cgroups()
	j, err := journal.Open(t.TempDir(), "boot", cgroupfile.Values())
	if err != nil {
		t.Fatal(err)
	}
	a := apply.New(cgroupfile.Kinds(host, nil), j, apply.Options{})
	h.reconciler = New(Options{Owners: []plan.Owner{plan.OwnerPlace}, Host: host, Journal: j, Applier: a})
	t.Cleanup(func() { _, _ = h.reconciler.Close(), j.Close() })
	return h
}

// group makes a group whose effective CPUs are always the CPUs in its list.
func (h *nestedHost) group(name string) {
	h.t.Helper()
	dir := "sys/fs/cgroup/cpuset/" + name + "/"
	h.Write(dir+"cpuset.cpus", "0-3\n")
	if err := os.Link(h.Path(dir, "cpuset.cpus"), h.Path(dir, "cpuset.effective_cpus")); err != nil {
		h.t.Fatal(err)
	}
}

// list writes another list to a group.
func (h *nestedHost) list(group, list string) {
	h.Write("sys/fs/cgroup/cpuset/"+group+"/cpuset.cpus", list+"\n")
}

// lists returns the current lists of groups.
func (h *nestedHost) lists(groups ...string) string {
	h.t.Helper()
	var all []string
	for _, group := range groups {
		all = append(all, h.Read("sys/fs/cgroup/cpuset/"+group+"/cpuset.cpus"))
	}
	return strings.Join(all, " ")
}

// wants sets the desired list of the group pod with all groups below it, and of the group other, and makes a pass.
func (h *nestedHost) wants(pod, other string) {
	h.t.Helper()
	h.reconciler.Want([]plan.Desired{h.desired("pod", pod, true), h.desired("other", other, false)})
	report, _ := h.reconciler.Pass(h.now)
	for _, err := range report.Errors {
		h.t.Error(err)
	}
	for _, e := range report.Events {
		h.events = append(h.events, e.Group+" "+e.Reason)
	}
}

func (*nestedHost) desired(group, list string, below bool) plan.Desired {
	return plan.Desired{Below: below, Setting: plan.Setting{
		Target: cgroupfile.Target(group, cgroup.KnobCPUs), Value: plan.Value(list), Owner: plan.OwnerPlace, Workload: group, Why: "test",
	}}
}

// TestOtherWriterBelow: another program's list on a group below a workload's is overwritten once a minute and then left
// to that program. That holds even if the desired lists of other groups change all the time.
func TestOtherWriterBelow(t *testing.T) {
	h := newNestedHost(t, "pod", "pod/c", "pod/c/inner", "other")
	h.wants("0-2", "3")
	if got := h.lists("pod", "pod/c", "pod/c/inner"); got != "0-2 0-2 0-2" {
		t.Fatalf("the lists are %q", got)
	}
	over := 0
	for second := range 60 {
		h.list("pod/c", "0")
		h.now += time.Second
		h.wants("0-2", []string{"2-3", "3"}[second%2])
		if h.lists("pod/c") != "0" {
			over++
		}
	}
	if over != 1 || strings.Join(h.events, ", ") != "pod/c HostDrift" {
		t.Errorf("written over %d times, events %q", over, h.events)
	}
	if got := h.lists("pod", "pod/c/inner"); got != "0-2 0-2" {
		t.Errorf("the lists beside are %q", got)
	}
}

// TestGroupsBelowComeAndGo: the state of groups below follows the desired setting of the group above.
func TestGroupsBelowComeAndGo(t *testing.T) {
	h := newNestedHost(t, "pod", "pod/c", "other")
	h.wants("0-2", "3")
	h.now += time.Second
	h.wants("0-1", "3")
	if got := h.lists("pod", "pod/c"); got != "0-1 0-1" {
		t.Errorf("with another list they are %q", got)
	}
	if err := os.RemoveAll(h.Path("sys/fs/cgroup/cpuset/pod/c")); err != nil {
		t.Fatal(err)
	}
	h.group("pod/d")
	h.now += time.Second
	h.wants("0-1", "3")
	if got := h.lists("pod", "pod/d"); got != "0-1 0-1" {
		t.Errorf("with another group below they are %q", got)
	}
	if got := len(h.reconciler.objects); got != 3 {
		t.Errorf("%d groups are kept", got)
	}
	h.now += time.Second
	h.reconciler.Want(nil)
	if _, next := h.reconciler.Pass(h.now); next < 0 || len(h.reconciler.objects) > 0 {
		t.Errorf("%d groups are kept of nothing", len(h.reconciler.objects))
	}
	if got := h.lists("pod", "pod/d", "other"); got != "0-3 0-3 0-3" {
		t.Errorf("put back the lists are %q", got)
	}
}
