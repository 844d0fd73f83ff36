package reconcile_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/unit"
)

// refuse makes the kernel refuse each write of a group's CPUs until relent is called.
func (l *live) refuse(g *scratch.Group) (relent func()) {
	l.Helper()
	hier, err := l.host.Hierarchy(cgroup.CPUSet)
	must(l.T, err)
	file := filepath.Join(hier.Mount, g.Path(), "cpuset.cpus")
	must(l.T, unix.Mount(file, file, "", unix.MS_BIND, ""))
	l.Cleanup(func() { _ = unix.Unmount(file, unix.MNT_DETACH) })
	must(l.T, unix.Mount("", file, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	return func() { must(l.T, unix.Unmount(file, unix.MNT_DETACH)) }
}

// While the kernel refuses to remove a CPU from offline work, no online group gets that CPU, and IsolationLimited
// reports the reason once. Both groups get the desired CPUs as soon as the kernel accepts the write. In the end both
// have their originals, even if the kernel refuses these for a while.
func TestRefusedOfflineList(t *testing.T) {
	l := newLive(t)
	must(t, l.other.SetCPUs(l.low))
	before := l.files()
	offline := reconcile.Of(reconcile.Group{Group: l.c.Path(), CPUs: l.all, Workload: "ns/batch"})
	offline[0].Owner = plan.OwnerIsolate
	l.reconciler.Want(offline)
	l.pass(0)
	relent := l.refuse(l.c)
	sides := reconcile.Of(
		reconcile.Group{Group: l.c.Path(), CPUs: l.low, Workload: "ns/batch"},
		reconcile.Group{Group: l.other.Path(), CPUs: l.all.Difference(l.low), Workload: "ns/batch"},
	)
	sides[0].Owner = plan.OwnerIsolate
	l.reconciler.Want(sides)
	var events []reconcile.Event
	for range 5 {
		events = append(events, l.try(2*time.Second).Events...)
		l.has(l.c, l.all, 2*period)
		l.has(l.other, l.low, unit.NoLimit)
	}
	if len(events) != 1 || events[0].Reason != "IsolationLimited" || events[0].Workload != "ns/batch" || !strings.Contains(events[0].Text, "read-only file system") {
		t.Errorf("events %+v", events)
	}
	relent()
	l.pass(time.Minute)
	l.has(l.c, l.low, 2*period)
	l.has(l.other, l.all.Difference(l.low), unit.NoLimit)

	relent = l.refuse(l.c)
	l.reconciler.Want(nil)
	if r := l.try(2 * time.Second); len(r.Errors) == 0 {
		t.Error("a value that cannot be put back is not reported")
	}
	l.has(l.c, l.low, 2*period)
	relent()
	l.try(time.Minute)
	l.same(before)
	l.empty()
}
