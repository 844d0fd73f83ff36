package reconcile

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// list returns a desired list of CPUs or memory nodes.
func list(group string, k cgroup.Knob, owner plan.Owner, value plan.Value) plan.Desired {
	return plan.Desired{Setting: plan.Setting{
		Target: cgroupfile.Target(group, k), Value: value, Owner: owner, Workload: group, Why: "test",
	}}
}

// A group that cannot shrink to the shared pool is reported to the pods whose exclusive CPUs it still occupies, and
// only for those CPUs. A CPU that the group is also meant to have is borrowed.
func TestFailureBesideBorrowedCPUs(t *testing.T) {
	for what, test := range map[string]struct {
		pool plan.Desired
		want string
	}{
		"on a reserved CPU": {list("web.slice", cgroup.KnobCPUs, plan.OwnerPool, "0-2"), "web.slice is on CPUs 3, too: "},
		"on reserved CPUs":  {list("web.slice", cgroup.KnobCPUs, plan.OwnerPool, "0-1"), "web.slice is on CPUs 2-3, too: "},
	} {
		h := newUnitHost(t, "pin.slice", "web.slice")
		pinned := list("pin.slice", cgroup.KnobCPUs, plan.OwnerPlace, "2-3")
		h.reconciler.Want([]plan.Desired{pinned})
		h.settles()
		h.fails = errors.New("no such unit")
		h.reconciler.Want([]plan.Desired{pinned, test.pool})
		var events []Event
		for range 8 {
			h.now += time.Second
			events = append(events, h.pass().Events...)
		}
		if len(events) != 1 || events[0].Group != "pin.slice" || len(events[0].Text) < len(test.want) || events[0].Text[:len(test.want)] != test.want {
			t.Errorf("%s: %+v", what, events)
		}
	}
	// Its CPUs are as desired, and another setting is refused.
	h := newUnitHost(t, "pin.slice", "web.slice")
	h.Write("sys/fs/cgroup/web.slice/cpuset.mems", "\n")
	h.Write("sys/fs/cgroup/web.slice/cpuset.mems.effective", "0-1\n")
	h.Write("sys/fs/cgroup/cpuset.mems.effective", "0-1\n")
	all := []plan.Desired{list("pin.slice", cgroup.KnobCPUs, plan.OwnerPlace, "2-3"), list("web.slice", cgroup.KnobCPUs, plan.OwnerPool, "0-2")}
	h.reconciler.Want(all)
	h.settles()
	h.fails = errors.New("no such unit")
	h.reconciler.Want(append(all, list("web.slice", cgroup.KnobMems, plan.OwnerPool, "0")))
	for range 8 {
		h.now += time.Second
		if r := h.pass(); len(r.Events) > 0 {
			t.Errorf("on borrowed CPUs: %+v", r.Events)
		}
	}
	if !slices.Contains(h.calls, "web.slice 0") {
		t.Errorf("systemd was not asked for memory nodes: %q", h.calls)
	}
}
