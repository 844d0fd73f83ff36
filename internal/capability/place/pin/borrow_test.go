package pin

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// lender is a host of four cores in one memory node. It runs a container db with static-burst and a limit of one CPU;
// other pods get CPUs later.
type lender struct {
	*Sets

	t   *testing.T
	now time.Duration
}

// recorder remembers what is journaled before the answer to the runtime.
type recorder struct{ values map[string]string }

func (r *recorder) Record(all []plan.Desired) error {
	for _, d := range all {
		r.values[d.Object+" "+d.Knob] = string(d.Value)
	}
	return nil
}
func (*recorder) Urgent(string, []plan.Desired) {}

func (*recorder) Standing() reconcile.Standing { return reconcile.Standing{} }

func newLender(t *testing.T, annotations map[string]string) *lender {
	t.Helper()
	files := twoNodes("0-1")
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.Contains(name, "/node/node1/") })
	files["sys/devices/system/node/online"] = "0\n"
	files["sys/devices/system/node/node0/cpulist"], files["sys/devices/system/node/node0/distance"] = "0-3\n", "10\n"
	l := &lender{Sets: newNode(t, files), t: t, now: time.Hour}
	l.opts.Reconciler = &recorder{values: map[string]string{}}
	reads(l.Sets)
	maps.Copy(annotations, map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true", v1alpha1.AnnotationCPUPolicy: v1alpha1.CPUPolicyStaticBurst})
	l.inventory.Take(l.snapshot(onePod("db", annotations)))
	l.stat(0, 0)
	l.threads(9)
	l.busy()
	if _, err := l.Answer(nri.Event{Kind: nri.Synchronize}, true); err != nil {
		t.Fatal(err)
	}
	l.says(nri.RunPod, "db")
	l.says(nri.Create, "db")
	l.says(nri.Start, "db")
	return l
}

// onePod returns a pod of one container of the same name, with a limit of one CPU.
func onePod(name string, annotations map[string]string) *cluster.Pod {
	one := workload.Container{Name: name, Resources: workload.Resources{CPURequest: 1000, CPULimit: 1000, MemoryLimit: 1 << 30}}
	return &cluster.Pod{
		Key: "ns/" + name, Object: cluster.Object{Namespace: "ns", Name: name, UID: name},
		Pod: workload.Pod{Namespace: "ns", Name: name, UID: name, Annotations: annotations, Scheduled: 1000, Containers: []workload.Container{one}},
	}
}

func (l *lender) says(kind nri.Kind, name string) nri.Reply {
	l.t.Helper()
	e := nri.Event{
		Kind:      kind,
		Pod:       nri.Pod{ID: "box-" + name, UID: name, Namespace: "ns", Name: name, CgroupParent: "pod-" + name, CgroupPath: "pod-" + name + "/box"},
		Container: nri.Container{ID: name, PodID: "box-" + name, Name: name, CgroupPath: name},
	}
	a, err := l.assignment.Handle(e, true)
	if err != nil {
		l.t.Fatal(err)
	}
	return a.Reply
}

func (l *lender) write(name, content string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.opts.Root.Join(name)), []byte(content), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lender) stat(used time.Duration, throttled int) {
	l.write("sys/fs/cgroup/db/cpu.stat", fmt.Sprintf("usage_usec %d\nnr_periods 9\nnr_throttled %d\nthrottled_usec 0\n", used.Microseconds(), throttled))
}

func (l *lender) threads(n int) {
	l.write("sys/fs/cgroup/db/cgroup.threads", strings.Repeat("7\n", n))
}

// busy sets the seconds for which each CPU was busy since boot.
func (l *lender) busy(seconds ...int) {
	lines := "cpu  0 0 0 0 0 0 0 0 0 0\n"
	for cpu := range 4 {
		n := 0
		if cpu < len(seconds) {
			n = seconds[cpu]
		}
		lines += fmt.Sprintf("cpu%d %d 0 0 0 0 0 0 0 0 0\n", cpu, n*100)
	}
	l.write("proc/stat", lines)
}

// after lets time pass in rounds of a second, and returns the CPUs of db. It fails if db loses its quota.
func (l *lender) after(d time.Duration) string {
	l.t.Helper()
	var cpus string
	for end := l.now + d; l.now < end; {
		l.now += time.Second
		n := &capability.Node{Now: l.now}
		for _, s := range l.Decide(n).Settings {
			if s.Object == "db" && s.Knob == string(cgroup.KnobCPUs) {
				cpus = string(s.Value)
			}
			if s.Knob == string(cgroup.KnobMax) {
				l.t.Fatalf("a quota goes: %+v", s)
			}
		}
		if n.Reserved["db"] != 1 || n.Unlimited["db"] {
			l.t.Fatalf("handed on: %+v", n)
		}
	}
	return cpus
}

func (l *lender) wants(what, got, want, why string) {
	l.t.Helper()
	row := rowOf(l.t, l.Sets)
	if got != want || row.CPUs != want || !strings.HasSuffix(row.Why, why) {
		l.t.Errorf("%s: CPUs %s, want %s; reported %+v", what, got, want, row)
	}
}

// A container with static-burst keeps its quota and, after five seconds, borrows the least used cores. It has only its
// reserve for a minute after its quota throttled it, and never more CPUs than threads. It leaves a core in the answer
// that assigns it to another pod.
func TestBorrow(t *testing.T) {
	t.Parallel()
	l := newLender(t, map[string]string{})
	l.wants("at first", l.after(time.Second), "0", "; it borrows none so far")
	l.wants("before the choice", l.after(4*time.Second), "0", "; it borrows none so far")
	l.busy(0, 5, 1, 3)
	l.wants("the least used", l.after(time.Second), "0,2", "CPUs 0 are reserved, chosen by the agent of this node; it borrows 2: up to twice its limit")
	l.busy(2, 5, 3, 3) // two and a half seconds on each of its CPUs, by the ticks
	l.stat(5*time.Second, 0)
	l.wants("its own use", l.after(5*time.Second), "0,2", "it borrows 2: up to twice its limit")
	l.stat(5*time.Second, 3)
	l.wants("throttled", l.after(time.Second), "0", "it borrows none: its quota throttled it, and it has what is reserved until it was not throttled for 1m0s")
	l.wants("for a minute", l.after(59*time.Second), "0", "1m0s")
	if got := l.after(6 * time.Second); got == "0" {
		t.Error("it stays narrow")
	}
	l.threads(1)
	l.wants("one thread", l.after(70*time.Second), "0", "it borrows none: up to as many as it has threads, 1")
	l.threads(2)
	got := l.after(6 * time.Second)
	if row := rowOf(t, l.Sets); row.Borrowed == "" || row.CPUs != got || !row.Pinned {
		t.Errorf("reported %+v, desired %s", row, got)
	}

	borrowed := list(t, rowOf(t, l.Sets).Borrowed)
	l.taken(borrowed)
}

// taken lets two pods take all cores except one for the shared pool, and thus the borrowed core.
func (l *lender) taken(borrowed cpuset.Set) {
	l.t.Helper()
	for _, name := range []string{"a", "b"} {
		p := onePod(name, map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"})
		l.inventory.Take(l.snapshot(p))
		l.says(nri.RunPod, name)
		reply := l.says(nri.Create, name)
		l.says(nri.Start, name)
		updates, err := json.Marshal(reply.Updates)
		if err != nil {
			l.t.Fatal(err)
		}
		left := rowOf(l.t, l.Sets)
		if reply.Adjust.CPUs.Intersects(list(l.t, left.CPUs)) {
			l.t.Fatalf("pod %s has %s, and db keeps %s", name, reply.Adjust.CPUs, left.CPUs)
		}
		if !reply.Adjust.CPUs.Intersects(borrowed) {
			continue
		}
		for _, u := range reply.Updates {
			if u.ContainerID == "db" && !u.CPUs.IsEmpty() && !u.CPUs.Intersects(reply.Adjust.CPUs) && !u.NoQuota {
				return
			}
		}
		l.t.Fatalf("pod %s has the borrowed %s, and the same reply says %s", name, reply.Adjust.CPUs, updates)
	}
	l.t.Fatal("no pod was given the borrowed core")
}

// snapshot returns all pods so far and one more.
func (l *lender) snapshot(more *cluster.Pod) *cluster.Snapshot {
	pods := []*cluster.Pod{more}
	for _, uid := range []string{"db", "a", "b"} {
		if p := l.inventory.Pods.Pod(uid); p != nil && uid != more.UID {
			pods = append(pods, p)
		}
	}
	return &cluster.Snapshot{Pods: pods, PodsFrom: cluster.APIServer, Node: cluster.Node{UID: "n", AllocatableMilli: 4000}}
}
