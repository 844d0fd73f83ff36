package offline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/plain"
)

// host is a machine of plain files with 8 CPUs and cgroup v2.
type host struct {
	*plain.Host
	t         *testing.T
	used, all time.Duration // CPU time of offline work, and of all work
	ceiling   ceiling
}

func newHost(t *testing.T, groups ...string) *host {
	t.Helper()
	h := &host{Host: plain.WithGroups(t, "cpuset cpu"), t: t}
	h.Write("proc/stat", "")
	for _, g := range groups {
		for g != "." {
			h.Write("sys/fs/cgroup/"+g+"/cgroup.controllers", "cpuset cpu\n")
			h.Write("sys/fs/cgroup/"+g+"/cgroup.procs", "")
			g = filepath.Dir(g)
		}
	}
	h.ceiling = ceiling{host: h.Cgroups(), root: h.Root(), standing: noEntries}
	return h
}

// noEntries is an empty journal.
func noEntries(func(journal.Entry) bool) []journal.Entry { return nil }

// work returns offline pods that are here.
func work(pods ...string) []observed.Pod {
	var all []observed.Pod
	for _, pod := range pods {
		all = append(all, observed.Pod{Name: "ns/" + pod, UID: pod, Group: "kubepods/besteffort/pod" + pod, Here: true})
	}
	return all
}

// run lets online and offline work use CPUs for a second.
func (h *host) run(online, offline float64) {
	h.used += time.Duration(offline * float64(time.Second))
	h.all += time.Duration((online + offline) * float64(time.Second))
	h.Write("sys/fs/cgroup/kubepods/besteffort/cpu.stat", fmt.Sprintf("usage_usec %d\nuser_usec 0\nsystem_usec 0\n", h.used.Microseconds()))
	stat := fmt.Sprintf("cpu  %d 0 0 0 0 0 0 0 0 0\n", h.all.Milliseconds()/10)
	for cpu := range 8 {
		stat += fmt.Sprintf("cpu%d %d 0 0 0 0 0 0 0 0 0\n", cpu, h.all.Milliseconds()/80)
	}
	h.Write("proc/stat", stat)
}

// The quota is on the one group that has all offline work. It follows what online work leaves, independent of what
// offline work uses.
func TestCeiling(t *testing.T) {
	h := newHost(t, "kubepods/besteffort/poda", "kubepods/besteffort/podb")
	node := isolate.Node{Policy: isolate.DefaultPolicy()}
	for i := range 8 {
		node.Movable = append(node.Movable, isolate.Core{CPUs: cpuset.Set{}.Add(i)})
	}
	both, web := work("a", "b"), one("web", "LS", "")
	web.PodGroup, web.Group = "kubepods/podweb", "kubepods/podweb/main"
	beside := []observed.Workload{one("a", "BE", ""), one("b", "BE", ""), web}
	now := time.Hour
	quota := func(seconds int, online, offline float64) string {
		t.Helper()
		value := ""
		for range seconds {
			h.run(online, offline)
			desired, err := h.ceiling.decide(now, node, both, beside)
			if err != nil || len(desired) != 1 || desired[0].Object != "kubepods/besteffort" || desired[0].Owner != "isolate" {
				t.Fatalf("%+v, %v", desired, err)
			}
			value, now = string(desired[0].Value), now+time.Second
		}
		return value
	}
	if got := quota(1, 1, 0); got != "100000 100000" {
		t.Errorf("at the start %s", got)
	}
	if got := quota(60, 1, 4); got != "400000 100000" {
		t.Errorf("online work uses one CPU: %s", got)
	}
	if got := quota(3, 5, 3); got != "100000 100000" {
		t.Errorf("online work uses five: %s", got)
	}
	// A failed reading changes nothing.
	h.Remove("proc/stat")
	if desired, err := h.ceiling.decide(now, node, both, beside); len(desired) != 1 || desired[0].Value != "100000 100000" || err == nil ||
		!strings.HasPrefix(err.Error(), "the quota stays as it is: ") {
		t.Errorf("without /proc/stat: %+v, %v", desired, err)
	}
	h.Remove("sys/fs/cgroup/kubepods/besteffort/cgroup.procs")
	h.run(1, 0)
	if desired, err := h.ceiling.decide(now, node, both, beside); len(desired) != 1 || err == nil {
		t.Errorf("without a list of processes: %+v, %v", desired, err)
	}
	h.Write("sys/fs/cgroup/kubepods/besteffort/cgroup.procs", "")
	// The quota would also limit online work beside the offline pods.
	if desired, err := h.ceiling.decide(now, node, both, []observed.Workload{one("web", "LS", "")}); len(desired) > 0 || !errors.Is(err, isolate.ErrNoQuotaGroup) {
		t.Errorf("%+v, %v", desired, err)
	}
	if desired, err := h.ceiling.decide(now, node, nil, beside[2:]); len(desired) > 0 || err != nil {
		t.Errorf("without offline work: %+v, %v", desired, err)
	}
	node.Movable = node.Movable[:1]
	if desired, err := h.ceiling.decide(now, node, both, beside); len(desired) > 0 || !errors.Is(err, errRefused) {
		t.Errorf("with one core: %+v, %v", desired, err)
	}
}

// A quota without a reading for 20 s falls to the guarantee, and stays there with the reason.
func TestQuotaWithoutReadings(t *testing.T) {
	h := newHost(t, "kubepods/besteffort/poda")
	node := isolate.Node{Policy: isolate.DefaultPolicy()}
	for i := range 8 {
		node.Movable = append(node.Movable, isolate.Core{CPUs: cpuset.Set{}.Add(i)})
	}
	now := time.Hour
	quota := func() (string, error) {
		t.Helper()
		now += time.Second
		desired, err := h.ceiling.decide(now, node, work("a"), nil)
		if len(desired) != 1 {
			t.Fatalf("%+v, %v", desired, err)
		}
		return string(desired[0].Value), err
	}
	for range 60 {
		h.run(1, 0)
		if _, err := quota(); err != nil {
			t.Fatal(err)
		}
	}
	h.Remove("proc/stat")
	for i := range 30 {
		want, why := "400000 100000", "the quota stays as it is: "
		if i >= 20 {
			want, why = "100000 100000", "the quota is what is guaranteed: "
		}
		if got, err := quota(); got != want || !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), why) {
			t.Errorf("after %d s without a reading: %s, %v", i, got, err)
		}
	}
	h.run(1, 0)
	if got, err := quota(); got != "200000 100000" || err != nil { // one step
		t.Errorf("read again: %s, %v", got, err)
	}
}

// A quota must limit only offline work. The group has no processes of its own, and no other group below it has
// processes.
func TestCeilingIsOfOfflineWorkAlone(t *testing.T) {
	h := newHost(t, "kubepods/besteffort/pod1", "kubepods/besteffort/pod2", "own.slice/a", "left.slice/a", "left.slice/empty", "left.slice/odd")
	h.Write("sys/fs/cgroup/kubepods/besteffort/pod2/cgroup.procs", "7\n")
	h.Write("sys/fs/cgroup/own.slice/cgroup.procs", "8\n")
	h.Remove("sys/fs/cgroup/left.slice/odd/cgroup.procs")
	h.Write("sys/fs/cgroup/left.slice/odd/cgroup.procs/unreadable", "")
	both := work("1", "2")
	batch := observed.Pod{Name: "a", Group: "left.slice/a", Here: true}
	for what, test := range map[string]struct {
		group   string
		offline []observed.Pod
		pods    int
		err     error
		unknown bool
	}{
		"all of a group":                  {"kubepods/besteffort", both, 2, nil, false},
		"kube-proxy beside it":            {"kubepods/besteffort", both[:1], 0, isolate.ErrNoQuotaGroup, true},
		"one that is over beside it":      {"kubepods/besteffort", append(both[:1:1], observed.Pod{UID: "2"}), 2, nil, false},
		"one of another name":             {"kubepods/besteffort", append(both[:1:1], observed.Pod{UID: "7"}), 0, isolate.ErrNoQuotaGroup, true},
		"processes of its own":            {"own.slice", []observed.Pod{{Name: "a", Group: "own.slice/a", Here: true}}, 0, isolate.ErrNoQuotaGroup, false},
		"one without processes beside it": {"left.slice", []observed.Pod{batch, {Group: "left.slice/odd"}}, 0, nil, false},
		"one beside it, unreadable":       {"left.slice", []observed.Pod{batch}, 0, errUnreadable, false},
		"a group that cannot be read":     {"gone", []observed.Pod{batch}, 0, cgroup.ErrNoGroup, false},
	} {
		pods, err := h.ceiling.alone(test.group, test.offline)
		if len(pods) != test.pods || !errors.Is(err, test.err) || (err == nil) != (test.err == nil) || errors.Is(err, isolate.ErrUnknownGroup) != test.unknown {
			t.Errorf("%s: %q, %v", what, pods, err)
		}
	}
}

// errUnreadable is the error of reading a directory as a file.
const errUnreadable = syscall.EISDIR

// The quota survives a formerly offline pod that the cluster forgot, however long it takes to end, and a group without
// processes. An unknown group with processes ends the quota after two seconds.
func TestCeilingBesideUnknownGroups(t *testing.T) {
	const above = "sys/fs/cgroup/kubepods/besteffort"
	h := newHost(t, "kubepods/besteffort/poda", "kubepods/besteffort/podb/main")
	node := isolate.Node{Policy: isolate.DefaultPolicy()}
	for i := range 8 {
		node.Movable = append(node.Movable, isolate.Core{CPUs: cpuset.Set{}.Add(i)})
	}
	now := time.Hour
	expect := func(what string, offline []observed.Pod, want int, limit error) {
		t.Helper()
		h.run(1, 0)
		now += time.Second
		if got, err := h.ceiling.decide(now, node, offline, nil); len(got) != want || !errors.Is(err, limit) || limit == nil && err != nil {
			t.Errorf("%s: %d settings, want %d: %v", what, len(got), want, err)
		}
	}
	// PID 0 is a process of another PID namespace, and means that the group is in use.
	h.Write(above+"/podb/main/cgroup.procs", "0\n")
	expect("pod b is not known yet", work("a"), 0, isolate.ErrUnknownGroup)
	expect("both", work("a", "b"), 1, nil)
	for range 35 {
		expect("pod b was deleted by force", work("a"), 1, nil)
	}
	h.Write(above+"/podb/main/cgroup.procs", "")
	expect("pod b left a group", work("a"), 1, nil)
	for _, name := range []string{"podb/main/cgroup.procs", "podb/main/cgroup.controllers", "podb/main", "podb/cgroup.procs", "podb/cgroup.controllers", "podb"} {
		h.Remove(above + "/" + name)
	}
	expect("its group is gone", work("a"), 1, nil)

	h.Write(above+"/podc/main/cgroup.procs", "")
	expect("the group of a new pod", work("a"), 1, nil)
	h.Write(above+"/podc/main/cgroup.procs", "7\n")
	expect("it runs", work("a"), 1, nil)
	expect("its pod is known", work("a", "c"), 1, nil)
	h.Write(above+"/podb/cgroup.procs", "8\n")
	expect("pod b, which nobody knows", work("a", "c"), 1, nil)
	expect("a second later", work("a", "c"), 1, nil)
	expect("two seconds later", work("a", "c"), 0, isolate.ErrUnknownGroup)
	expect("without a quota", work("a", "c"), 0, isolate.ErrUnknownGroup)
	expect("all are known", work("a", "b", "c"), 1, nil)
}

// Work that becomes online ends the quota at once. A workload that an administrator removes from offline work ends it
// within seconds.
func TestCeilingOfWorkThatComesBack(t *testing.T) {
	h := newHost(t, "batch.slice/a.service", "batch.slice/b.service")
	h.Write("sys/fs/cgroup/batch.slice/cpu.stat", "usage_usec 0\n")
	h.Write("sys/fs/cgroup/batch.slice/b.service/cgroup.procs", "8\n")
	node := isolate.Node{Policy: isolate.DefaultPolicy()}
	for i := range 8 {
		node.Movable = append(node.Movable, isolate.Core{CPUs: cpuset.Set{}.Add(i)})
	}
	both := []observed.Pod{{Name: "a", Group: "batch.slice/a.service", Here: true}, {Name: "b", Group: "batch.slice/b.service", Here: true}}
	h.run(1, 0)
	if got, err := h.ceiling.decide(time.Hour, node, both, nil); len(got) != 1 || err != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	web := one("b", "LS", "")
	web.PodGroup, web.Group = "", "batch.slice/b.service"
	if got, err := h.ceiling.decide(time.Hour+time.Second, node, both[:1], []observed.Workload{web}); len(got) > 0 || !errors.Is(err, isolate.ErrNoQuotaGroup) {
		t.Errorf("online: %+v, %v", got, err)
	}
	h.ceiling.drop()
	for i, want := range []int{1, 1, 1, 0} {
		offline := both
		if i > 0 {
			offline = both[:1]
		}
		if got, err := h.ceiling.decide(2*time.Hour+time.Duration(i)*time.Second, node, offline, nil); len(got) != want {
			t.Errorf("%d s without it: %+v, %v", i-1, got, err)
		}
	}
}

// offlinePod returns an offline pod of one container, as the cluster and the runtime report it.
func offlinePod(uid string) (*cluster.Pod, nri.Pod, nri.Container) {
	group := "kubepods/besteffort/pod" + uid
	pod := &cluster.Pod{Key: "ns/" + uid, Pod: workload.Pod{
		Namespace: "ns", Name: uid, UID: uid, Labels: map[string]string{v1alpha1.LabelQoSClass: "BE"}, Containers: []workload.Container{{Name: "main"}},
	}}
	box := nri.Pod{ID: "box", UID: uid, Namespace: "ns", Name: uid, Labels: pod.Labels, CgroupParent: group, CgroupPath: group + "/box"}
	return pod, box, nri.Container{ID: "main", PodID: "box", Name: "main", CgroupPath: group + "/main"}
}

// The quota of a killed agent stays until the next agent can decide. A failed reading at its start or an unknown group
// does not lift the quota.
func TestCeilingOfAnEarlierAgentStays(t *testing.T) {
	const group = "kubepods/besteffort"
	entries := []journal.Entry{
		{Target: cgroupfile.Target(group, cgroup.KnobMax), Owner: plan.OwnerIsolate, Intent: "300000 100000"},
		{Target: cgroupfile.Target(group+"/poda", cgroup.KnobMax), Owner: plan.OwnerBurst, Intent: "1 100000"},
		{Target: cgroupfile.Target(group+"/poda", cgroup.KnobPrecedence), Owner: plan.OwnerIsolate, Intent: "idle"},
	}
	node := isolate.Node{Policy: isolate.DefaultPolicy(), Movable: []isolate.Core{{CPUs: cpuset.Set{}.Add(0)}, {CPUs: cpuset.Set{}.Add(1)}}}
	for name, hurt := range map[string]func(h *host){
		"no reading":       func(h *host) { h.Remove("proc/stat") },
		"an unknown group": func(h *host) { h.Write("sys/fs/cgroup/"+group+"/podx/cgroup.procs", "1\n") },
	} {
		h := newHost(t, group+"/poda", group+"/podx")
		h.ceiling.standing = func(match func(journal.Entry) bool) []journal.Entry {
			return slices.DeleteFunc(slices.Clone(entries), func(e journal.Entry) bool { return !match(e) })
		}
		h.run(1, 0)
		hurt(h)
		desired, _ := h.ceiling.decide(time.Hour, node, work("a"), nil)
		if len(desired) != 1 || desired[0].Object != group || desired[0].Value != entries[0].Intent {
			t.Errorf("%s: %+v", name, desired)
		}
	}
}

// worldByQuota returns a world that limits offline work by a quota. It has one offline pod, whose sandbox and container
// the runtime has not reported yet.
func worldByQuota(t *testing.T) (*world, *host, nri.Pod, nri.Container) {
	t.Helper()
	asked := enabled()
	asked.CPUSuppressPolicy = new("cfsQuota")
	w, h := newWorld(t, asked), newHost(t, "kubepods/besteffort/podb")
	w.root, w.host = h.ceiling.root, h.ceiling.host
	w.restart()
	pod, box, main := offlinePod("b")
	w.inventory.Take(&cluster.Snapshot{Generation: 1, Pods: []*cluster.Pod{pod}, PodsFrom: cluster.APIServer})
	return w, h, box, main
}

// The quota stays while a pod has no running container, for example between two starts, and ends with the pod. A pod
// whose group is unknown prevents the quota.
func TestQuotaOfPodsWithoutContainers(t *testing.T) {
	w, h, box, main := worldByQuota(t)
	expect := func(kind nri.Kind, want int, limit string) {
		t.Helper()
		if kind != 0 {
			if _, err := w.assignment.Handle(nri.Event{Kind: kind, Pod: box, Container: main}, false); err != nil {
				t.Fatal(err)
			}
		}
		w.now += time.Second
		h.run(1, 0)
		n := w.observed()
		d := w.work.Decide(&n)
		if len(d.Settings) != want || !strings.Contains(w.work.limit, limit) || limit == "" && w.work.limit != "" {
			t.Errorf("after %s: %d settings, want %d; limit %q, want %q", kind, len(d.Settings), want, w.work.limit, limit)
		}
	}
	expect(0, 0, "")
	expect(nri.RunPod, 1, "")
	expect(nri.Start, 1, "")
	expect(nri.Stop, 1, "")
	expect(nri.Start, 1, "")
	expect(nri.StopPod, 0, "")
	box.CgroupParent = ""
	expect(nri.RunPod, 0, "the group of ns/b is not known")
}

// With a quota, the metrics also give the use and need of online work, and the guarantee.
func TestMetricsByQuota(t *testing.T) {
	w, h, box, main := worldByQuota(t)
	if _, err := w.assignment.Handle(nri.Event{Kind: nri.RunPod, Pod: box, Container: main}, false); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.now += time.Second
		h.run(2, 0)
		n := w.observed()
		w.work.Decide(&n)
	}
	f, got := w.work.ceiling.figures, map[string]float64{}
	w.work.Measure(func(s capability.Sample) { got[s.Metric] = s.Value })
	want := []float64{float64(f.Use), float64(f.Need), float64(f.Low)}
	measured := []float64{got["isolate_online_use_cpus"], got["isolate_online_need_cores"], got["isolate_offline_low_cores"]}
	if !slices.Equal(measured, want) || f.Use < 1.9 || f.Low < 1 {
		t.Errorf("use, need and low are %v, want %v", measured, want)
	}
}

// A change of the quota counts as a move of the boundary, with its reason and time. The first quota does not count.
func TestMovesOfTheQuota(t *testing.T) {
	w, h, box, main := worldByQuota(t)
	if _, err := w.assignment.Handle(nri.Event{Kind: nri.RunPod, Pod: box, Container: main}, false); err != nil {
		t.Fatal(err)
	}
	values := map[plan.Value]bool{}
	rounds := func(n int, online float64) Moves {
		for range n {
			w.now += time.Second
			h.run(online, 0)
			d := w.work.Decide(new(w.observed()))
			values[d.Settings[0].Value] = true
		}
		return w.work.Outcome(time.Time{}).Node[keyNode].(Node).Moves
	}
	if m := rounds(1, 2); m.Count != 0 || m.Moved != "offline work came" || m.Since == nil {
		t.Errorf("at the start %+v", m)
	}
	grown := rounds(60, 2)
	if grown.Count != len(values)-1 || grown.Count < 2 || grown.Moved != "online use fell" {
		t.Errorf("%+v after the quotas %v", grown, values)
	}
	shrunk := rounds(3, 7)
	if shrunk.Count != grown.Count+1 || shrunk.Moved != "online use rose" || shrunk.Surges != 0 || !shrunk.Since.After(*grown.Since) {
		t.Errorf("%+v, after a rise %+v", grown, shrunk)
	}
	counted := 0.0
	w.work.Measure(func(s capability.Sample) {
		if s.Metric == "isolate_moves_total" {
			counted = s.Value
		}
	})
	if counted != float64(shrunk.Count) {
		t.Errorf("the metric counts %v moves of %d", counted, shrunk.Count)
	}
}

// While a BPF scheduler has all threads, neither the quota nor cpu.idle is reported as in effect. Both stay written,
// and are reported again when the scheduler is gone.
func TestOfflineUnderSchedExt(t *testing.T) {
	asked := enabled()
	asked.CPUSuppressPolicy = new("cfsQuota")
	w, h := newWorld(t, asked), newHost(t, "kubepods/besteffort/podb")
	w.root, w.host = h.ceiling.root, h.ceiling.host
	h.Write("sys/fs/cgroup/kubepods/besteffort/podb/cpu.idle", "0\n")
	w.restart()
	pod, box, main := offlinePod("b")
	pod.Annotations = map[string]string{v1alpha1.AnnotationCPUQOS: `{"enable": true, "schedIdle": 1}`}
	w.inventory.Take(&cluster.Snapshot{Generation: 1, Pods: []*cluster.Pod{pod}, PodsFrom: cluster.APIServer})
	for _, kind := range []nri.Kind{nri.RunPod, nri.Start} {
		if _, err := w.assignment.Handle(nri.Event{Kind: kind, Pod: box, Container: main}, false); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, inForce bool, wantEvents ...string) {
		t.Helper()
		w.now += 10 * time.Second
		h.run(1, 0)
		n := w.observed()
		d := w.work.Decide(&n)
		if len(d.Settings) != 2 {
			t.Errorf("%s: settings %v", what, settings(d.Settings))
		}
		var events []string
		for _, e := range d.Events {
			events = append(events, e.Reason+" "+strings.TrimSuffix(e.Text, ", and the kernel holds none of them to cpu.max or cpu.idle"))
		}
		if !slices.Equal(events, wantEvents) {
			t.Errorf("%s: events %q, want %q", what, events, wantEvents)
		}
		out := w.work.Outcome(time.Time{})
		node, isNode := out.Node[keyNode].(Node)
		if !isNode || len(out.Rows) != 1 {
			t.Fatalf("%s: %+v", what, out)
		}
		row, isRow := out.Rows[0].Section.(Workload)
		if !isRow || row.Precedence == nil {
			t.Fatalf("%s: %+v", what, out.Rows)
		}
		const unsupported = "unsupported: sched_ext scx_rusty has all threads"
		limited := strings.Contains(node.Limit, unsupported) && node.Quota == 0 && node.Cores == ""
		if line := node.Support.line(node.cores(), node.Idle); limited == inForce || (node.Limit == "") != inForce ||
			strings.Contains(line, "offline groups idle") != inForce || strings.Contains(line, "cpu.idle unsupported (sched_ext scx_rusty") == inForce {
			t.Errorf("%s: %s; %+v", what, line, node)
		}
		if p := row.Precedence; (p.Value == "idle") != inForce || strings.Contains(p.line(), unsupported) == inForce {
			t.Errorf("%s: %+v", what, p)
		}
	}
	const dir = "sys/kernel/sched_ext/"
	expect("without one", true)
	h.Write(dir+"state", "enabled\n")
	h.Write(dir+"switch_all", "1\n")
	h.Write(dir+"root/ops", "scx_rusty\n")
	expect("with one", false,
		"IsolationLimited cpuSuppressPolicy cfsQuota: unsupported: sched_ext scx_rusty has all threads",
		"IsolationLimited precedence: unsupported: sched_ext scx_rusty has all threads")
	expect("still", false)
	h.Write(dir+"state", "disabled\n")
	expect("after it", true)
}

// On cgroup v1 the kernel refuses a quota below the quota of a child group. Offline work with such a child gets no
// quota from the start.
func TestQuotaBelowAnother(t *testing.T) {
	h := newHost(t)
	h.Write("proc/self/mountinfo", "32 23 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n")
	h.Write("proc/stat", "cpu0 0 0 0 0 0 0 0 0 0 0\n")
	limit := func(group string, quota int) {
		h.Write("sys/fs/cgroup/cpu/"+group+"/cgroup.procs", "")
		h.Write("sys/fs/cgroup/cpu/"+group+"/cpuacct.usage", "0\n")
		h.Write("sys/fs/cgroup/cpu/"+group+"/cpu.cfs_quota_us", fmt.Sprintln(quota))
		h.Write("sys/fs/cgroup/cpu/"+group+"/cpu.cfs_period_us", "100000\n")
	}
	limit("batch", -1)
	limit("batch/a", 100_000)
	limit("batch/b", -1)
	limit("batch/b/c", 250_000)
	opened, err := cgroup.Open(h.ceiling.root)
	if err != nil {
		t.Fatal(err)
	}
	h.ceiling.host = opened
	node := isolate.Node{Policy: isolate.DefaultPolicy()}
	for i := range 8 {
		node.Movable = append(node.Movable, isolate.Core{CPUs: cpuset.Set{}.Add(i).Add(i + 8)})
	}
	offline := []observed.Pod{{Name: "a", Group: "batch/a", Here: true}, {Name: "b", Group: "batch/b", Here: true}}
	desired, err := h.ceiling.decide(time.Hour, node, offline, nil)
	if len(desired) > 0 || !errors.Is(err, errRefused) || !strings.Contains(err.Error(), `"batch/b/c", limited to 250000`) {
		t.Errorf("%+v, %v", desired, err)
	}
	limit("batch/b/c", 200_000)
	if desired, err := h.ceiling.decide(time.Hour, node, offline, nil); len(desired) != 1 || desired[0].Value != "200000 100000" || err != nil {
		t.Errorf("%+v, %v", desired, err)
	}
}

// The limit of offline work is reported once, and not after each start of its container.
func TestLimitBetweenTwoStarts(t *testing.T) {
	w := newWorld(t, enabled())
	pod, box, main := offlinePod("b")
	w.inventory.Take(&cluster.Snapshot{Generation: 1, Pods: []*cluster.Pod{pod}, PodsFrom: cluster.APIServer})
	w.inventory.Kubelet(observed.Obstacle{Reason: "CPUManager", Message: "the kubelet sets CPU sets"}, "")
	for _, kind := range []nri.Kind{nri.RunPod, nri.Start, nri.Stop, nri.Start, nri.Stop, nri.Start} {
		if _, err := w.assignment.Handle(nri.Event{Kind: kind, Pod: box, Container: main}, false); err != nil {
			t.Fatal(err)
		}
		w.rounds(1, 0)
	}
	w.expectEvents("IsolationLimited: the kubelet sets CPU sets")
}
