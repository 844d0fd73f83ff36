package offline

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/test/plain"
)

// machine is a kernel that supports what the test says.
type machine struct {
	idle, identity kernel.Support
	fails          error
	noCPUSet       bool
	probes         int
}

func (m *machine) Probe(k cgroup.Knob) (kernel.Support, error) {
	m.probes++
	if k == cgroup.KnobIdentity {
		return m.identity, m.fails
	}
	return m.idle, m.fails
}

func (m *machine) Hierarchy(cgroup.Controller) (cgroup.Hierarchy, error) {
	if m.noCPUSet {
		return cgroup.Hierarchy{}, cgroup.ErrNoController
	}
	return cgroup.Hierarchy{Version: 2}, nil
}

func (*machine) Group(path string, _ ...cgroup.Controller) (*cgroup.Group, error) {
	return nil, fmt.Errorf("%w: %s", cgroup.ErrNoGroup, path)
}

// mainline returns a kernel since 5.15.
func mainline() *machine { return &machine{idle: kernel.Supported, identity: kernel.Unsupported} }

// newWork returns Work on a kernel.
func newWork(t *testing.T, m *machine) *Work {
	t.Helper()
	h := plain.New(t)
	h.Write("proc/sys/kernel/sched_group_identity_enabled", "1\n")
	return New(Options{Root: h.Root(), Host: m, Now: func() time.Time { return time.Unix(1, 0) }})
}

// yields returns what an administrator sets for class BE.
func yields() v1alpha1.ClassQOS {
	return v1alpha1.ClassQOS{CPUQOS: &v1alpha1.ClassCPUQOS{Enable: new(true), GroupIdentity: new(int64(-1))}}
}

// one returns the container of a pod.
func one(pod string, class v1alpha1.QoSClass, annotation string) observed.Workload {
	c := observed.Workload{
		PodUID: pod, Name: "ns/" + pod + "/main", Pod: "ns/" + pod, Container: "main",
		PodGroup: "kubepods/besteffort/pod" + pod, Group: "kubepods/besteffort/pod" + pod + "/main", Class: class,
	}
	if class == v1alpha1.QoSBE {
		c.QOS, c.QOSSource = yields(), "the ConfigMap"
	}
	if annotation != "" {
		c.Annotations = map[string]string{v1alpha1.AnnotationCPUQOS: annotation}
	}
	return c
}

// settings returns the settings of a decision in short form.
func settings(all []plan.Desired) []string {
	var short []string
	for _, d := range all {
		short = append(short, fmt.Sprintf("%s %s %s %s owned %v", d.Target, d.Value, d.Owner, d.Workload, d.Writers.Owned))
	}
	return short
}

// events returns the events of a decision in short form.
func events(all []capability.Event) string {
	short := make([]string, 0, len(all))
	for _, e := range all {
		short = append(short, e.PodUID+" "+e.Reason+" "+e.Text)
	}
	return strings.Join(short, "\n")
}

// An offline pod is idle once for all of its containers. The decision follows changed keys, a resize by the kubelet,
// and koordlet on the node.
func TestPrecedences(t *testing.T) {
	w := newWork(t, mainline())
	second := one("be", "BE", "")
	second.Container, second.Name = "side", "ns/be/side"
	alone := observed.Workload{PodUID: "workload/batch", Name: "batch", Group: "batch.slice", Class: "BE", QOS: yields(), QOSSource: "agent.yaml"}
	n := &capability.Node{Now: time.Hour, Containers: []observed.Workload{one("be", "BE", ""), second, one("web", "LS", ""), alone}}
	idle := []string{
		"kubepods/besteffort/podbe precedence idle isolate ns/be owned true",
		"batch.slice precedence idle isolate batch owned true",
	}
	d := w.precedences.decide(n, "")
	if diff := cmp.Diff(idle, settings(d.Settings)); diff != "" || len(d.Events) > 0 {
		t.Errorf("events %q, settings (-want +got):\n%s", events(d.Events), diff)
	}
	n.Now += time.Second
	if again := w.precedences.decide(n, ""); &again.Settings[0] != &d.Settings[0] {
		t.Error("decided again although nothing changed")
	}

	n.Containers = []observed.Workload{one("be", "BE", `{"enable": false}`), alone}
	if got := settings(w.precedences.decide(n, "").Settings); len(got) != 1 || got[0] != idle[1] {
		t.Errorf("switched off by annotation: %q", got)
	}
	resized := one("be", "BE", "")
	resized.Resizing = true
	n.Containers = []observed.Workload{resized}
	if d := w.precedences.decide(n, ""); len(d.Settings)+len(d.Events) > 0 || w.precedences.rows["ns/be/main"].Reason != resizing {
		t.Errorf("while it is resized: %+v", d)
	}
	n.Containers = []observed.Workload{one("be", "BE", "")}
	n.Koordlet = "koordinator-system/koordlet"
	if d := w.precedences.decide(n, ""); len(d.Settings) > 0 || !strings.Contains(w.precedences.rows["ns/be/main"].Reason, "koordlet") {
		t.Errorf("beside koordlet: %+v", d)
	}
}

// A group that is not the pod's own never becomes idle.
func TestPrecedenceOfKubeletsGroup(t *testing.T) {
	w := newWork(t, mainline())
	c := one("be", "BE", "")
	for _, group := range []string{"kubepods/besteffort", "", "kubepods.slice/kubepods-besteffort.slice"} {
		c.PodGroup = group
		alone := observed.Workload{Name: "alone", Group: "kubepods/besteffort", Class: "BE", QOS: yields()}
		d := w.precedences.decide(&capability.Node{Containers: []observed.Workload{c, alone}}, "")
		if len(d.Settings) > 0 || w.precedences.rows["ns/be/main"].Reason == "" || w.precedences.rows["alone"].Reason == "" {
			t.Errorf("%q: %q, %+v", group, settings(d.Settings), w.precedences.rows)
		}
	}
}

// A fault of a pod is reported once, and again when it becomes a different fault.
func TestPrecedenceEvents(t *testing.T) {
	w := newWork(t, mainline())
	for _, test := range []struct {
		c    observed.Workload
		want string
	}{
		{one("a", "BE", `{"groupIdentity": 7}`), "a InvalidPolicy field metadata.annotations[koordinator.sh/cpuQOS].groupIdentity: value 7"},
		{one("a", "BE", `{"groupIdentity": 7}`), ""},
		{one("a", "BE", `{"groupIdentity": 2}`), "a IsolationLimited groupIdentity 2 has no form on this kernel: there is no cpu.bvt_warp_ns"},
		{one("a", "LS", `{"enable": true, "schedIdle": 1}`), "a IsolationLimited only offline work can be idle: its class is LS"},
		{one("a", "LS", `{"priority": 1}`), "a InvalidPolicy"},
		{one("a", "LS", ``), ""},
	} {
		d := w.precedences.decide(&capability.Node{Containers: []observed.Workload{test.c}}, "")
		if got := events(d.Events); (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) || len(d.Settings) > 0 {
			t.Errorf("%v: events %q, want %q; %q", test.c.Annotations, got, test.want, settings(d.Settings))
		}
	}
}

// On a kernel with Group Identity, Berth uses it, also for online work. On a kernel with neither mechanism an event
// says so.
func TestPrecedenceByKernel(t *testing.T) {
	containers := []observed.Workload{one("be", "BE", ""), one("web", "LS", `{"enable": true}`)}
	w := newWork(t, &machine{idle: kernel.Supported, identity: kernel.Supported})
	want := []string{
		"kubepods/besteffort/podbe cpu.bvt_warp_ns -1 isolate ns/be owned false",
		"kubepods/besteffort/podweb cpu.bvt_warp_ns 2 isolate ns/web owned false",
	}
	if diff := cmp.Diff(want, settings(w.precedences.decide(&capability.Node{Containers: containers}, "").Settings)); diff != "" {
		t.Errorf("Alibaba's kernel (-want +got):\n%s", diff)
	}
	old := newWork(t, &machine{idle: kernel.Unsupported, identity: kernel.Unsupported})
	d := old.precedences.decide(&capability.Node{Containers: containers}, "")
	if len(d.Settings) > 0 || !strings.Contains(events(d.Events), "be IsolationLimited an idle group has no form on this kernel") {
		t.Errorf("an old kernel: %q, %q", settings(d.Settings), events(d.Events))
	}
	// The first group with the cpu controller may appear later.
	later := &machine{}
	w = newWork(t, later)
	n := &capability.Node{Now: time.Hour, Containers: containers}
	w.precedences.decide(n, "")
	later.idle, later.identity = kernel.Supported, kernel.Supported
	n.Now += probeEvery
	if diff := cmp.Diff(want, settings(w.precedences.decide(n, "").Settings)); diff != "" {
		t.Errorf("asked again (-want +got):\n%s", diff)
	}
}

// The kernel is probed only where a pod asks for a precedence, or where status reports support because an administrator
// asks for offline cores.
func TestProbeWhereItCounts(t *testing.T) {
	m := &machine{}
	w := newWork(t, m)
	n := &capability.Node{Now: time.Hour, Containers: []observed.Workload{one("web", "LS", "")}}
	decide := func(what string, want int) {
		t.Helper()
		n.Now += probeEvery
		if w.precedences.decide(n, ""); m.probes != want {
			t.Errorf("%s: %d probes, want %d", what, m.probes, want)
		}
	}
	decide("nothing asked for", 0)
	w.precedences.reported = true
	decide("status reports it", 2)
	w.precedences.reported = false
	decide("no more", 2)
	n.Containers = []observed.Workload{one("web", "LS", `{"enable": true}`)}
	decide("an annotation", 4)
	n.Containers = []observed.Workload{one("be", "BE", "")}
	decide("a class", 6)
	m.idle, m.identity = kernel.Supported, kernel.Unsupported
	decide("the first group with the cpu controller", 8)
	decide("the kernel has answered for good", 8)
}

// A pod keeps its precedence between two starts of its container, and loses it at its end.
func TestPrecedenceBetweenTwoStarts(t *testing.T) {
	w := newWorld(t, v1alpha1.ResourceThreshold{})
	w.inventory.Configure(workload.Administrator{File: "agent.yaml", QOS: v1alpha1.ResourceQOS{BEClass: new(yields())}})
	pod, box, main := offlinePod("b")
	w.inventory.Take(&cluster.Snapshot{Generation: 1, Pods: []*cluster.Pod{pod}, PodsFrom: cluster.APIServer})
	for _, step := range []struct {
		kind nri.Kind
		want int
	}{{nri.RunPod, 1}, {nri.Start, 1}, {nri.Stop, 1}, {nri.Start, 1}, {nri.StopPod, 0}} {
		if _, err := w.assignment.Handle(nri.Event{Kind: step.kind, Pod: box, Container: main}, false); err != nil {
			t.Fatal(err)
		}
		n := w.observed()
		if d := w.work.Decide(&n); len(d.Settings) != step.want || step.want > 0 && d.Settings[0].Object != "kubepods/besteffort/podb" {
			t.Errorf("after %s: %q", step.kind, settings(d.Settings))
		}
	}
}

// Status and explain report precedence in these texts.
func TestPrecedenceReader(t *testing.T) {
	for _, test := range []struct {
		machine *machine
		node    string
		lines   string
	}{
		{
			mainline(), "isolation: no boundary; offline groups idle; Group Identity unsupported (no cpu.bvt_warp_ns); core scheduling ",
			"precedence idle: kubepods/besteffort/podbe runs when no group beside it wants the CPU, by the ConfigMap",
		},
		{
			&machine{idle: kernel.Unsupported, identity: kernel.Supported, noCPUSet: true},
			"isolation: cpuset unsupported (no cpuset controller); cpu.idle unsupported (no cpu.idle); " +
				"Group Identity supported (kernel.sched_group_identity_enabled 1); core scheduling ",
			"precedence groupIdentity -1 of kubepods/besteffort/podbe, by the ConfigMap",
		},
		{
			&machine{idle: kernel.Unsupported, identity: kernel.Unsupported},
			"isolation: no boundary; cpu.idle unsupported (no cpu.idle); Group Identity unsupported (no cpu.bvt_warp_ns); core scheduling ",
			"precedence as without Berth: an idle group has no form on this kernel: there is no cpu.idle, which Linux has since 5.15; asked for by the ConfigMap",
		},
		{
			&machine{fails: errors.New("no look")}, "isolation: no boundary; offline groups idle; Group Identity unknown (no look); core scheduling ",
			"precedence idle: kubepods/besteffort/podbe runs when no group beside it wants the CPU, by the ConfigMap",
		},
	} {
		w := newWork(t, test.machine)
		w.precedences.decide(&capability.Node{Containers: []observed.Workload{one("be", "BE", "")}}, "")
		out := w.Outcome(time.Time{})
		view, err := reader{}.Node(capability.Reported{Alive: true, Node: out.Node})
		_, core := kernel.CoreScheduling()
		if err != nil || len(view.Lines) != 1 || !strings.HasPrefix(view.Lines[0], test.node) || !strings.Contains(view.Lines[0], core) {
			t.Errorf("%v, %q, want %q", err, view.Lines, test.node)
		}
		row, err := reader{}.Workload(capability.Reported{Row: capability.Sections{name: out.Rows[0].Section}})
		if err != nil || strings.Join(row.Lines, "\n") != test.lines {
			t.Errorf("%v, %q, want %q", err, row.Lines, test.lines)
		}
	}
	// Nothing is reported where no workload asks.
	w := newWork(t, mainline())
	w.precedences.decide(&capability.Node{Containers: []observed.Workload{one("web", "LS", "")}}, "")
	if out := w.Outcome(time.Time{}); len(out.Node)+len(out.Rows) > 0 {
		t.Errorf("%+v", out)
	}
	if _, err := (reader{}).Node(capability.Reported{Alive: true, Node: capability.Sections{keyNode: 3}}); err == nil {
		t.Error("a section of another version was read")
	}
}

// Explain tells the workloads that ask for it what Berth does not do.
func TestUndone(t *testing.T) {
	w := newWork(t, mainline())
	expels, caches := one("a", "BE", `{"enable": true, "coreExpeller": true}`), one("b", "LS", "")
	caches.QOS.ResctrlQOS, caches.QOSSource = map[string]any{"enable": true, "catRangeEndPercent": 30.0}, "the ConfigMap"
	w.precedences.decide(&capability.Node{Containers: []observed.Workload{expels, caches}}, "")
	var lines []string
	for _, row := range w.Outcome(time.Time{}).Rows {
		view, err := reader{}.Workload(capability.Reported{Row: capability.Sections{name: row.Section}})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, view.Lines...)
	}
	want := []string{
		"precedence idle: kubepods/besteffort/poda runs when no group beside it wants the CPU, by annotation koordinator.sh/cpuQOS",
		"not done  coreExpeller: it needs cpuPolicy coreSched; asked for by annotation koordinator.sh/cpuQOS",
		"not done  resctrlQOS: Berth sets no cache and no memory bandwidth; asked for by the ConfigMap",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The cost of a round without changes does not grow with the number of groups.
func BenchmarkPrecedencesSettled(b *testing.B) {
	var all []observed.Workload
	for i := range 100 {
		all = append(all, one(fmt.Sprint(i), "BE", ""))
	}
	p := precedences{host: mainline(), date: time.Now}
	n := &capability.Node{Now: time.Hour, Containers: all}
	for b.Loop() {
		p.decide(n, "")
	}
}
