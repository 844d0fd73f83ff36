package offline

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/assignment"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
	"github.com/berth-project/berth/test/plain"
)

// groups is a host on which each group may run on all CPUs, unless an administrator bound it.
type groups struct {
	all   cpuset.Set
	bound map[string]cpuset.Set
}

func (g groups) EffectiveCPUs(group string) cpuset.Set { return g.OriginalCPUs(group) }

func (g groups) OriginalCPUs(group string) cpuset.Set {
	if own, bound := g.bound[group]; bound {
		return own
	}
	return g.all
}

func (groups) OriginalLimit(string) unit.CPUs { return 0 }

func (groups) HasProcesses(string) bool                  { return false }
func (groups) EffectiveMems(string) cpuset.Set           { return cpuset.Set{} }
func (groups) Journaled(string) (plan.Owner, cpuset.Set) { return "", cpuset.Set{} }

// world is a host of 8 cores, where core i has the CPUs i and i+8, with a clock that tests move.
type world struct {
	*plain.Host
	t          *testing.T
	root       *hostfs.Root
	host       Host
	inventory  *inventory.Inventory
	assignment *assignment.Assignment
	all        cpuset.Set
	now        time.Duration
	busy       [16]time.Duration
	work       *Work
	node       capability.Node
	config     *v1alpha1.AgentConfig
	events     []string
	failed     int
	used       map[string]unit.CPUTime // by the name of the group
}

// usage returns the CPU time of a group.
func (w *world) usage(group string) (unit.CPUTime, error) {
	if used, there := w.used[group]; there {
		return used, nil
	}
	return 0, fmt.Errorf("%w: %s", cgroup.ErrNoGroup, group)
}

func set(t *testing.T, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newWorld(t *testing.T, asked v1alpha1.ResourceThreshold) *world {
	t.Helper()
	w := &world{Host: plain.New(t), t: t, all: set(t, "0-15"), now: time.Hour, host: mainline(), used: map[string]unit.CPUTime{"web": 0, "batch": 0}}
	w.inventory = inventory.New(groups{w.all, map[string]cpuset.Set{"bound": set(t, "3,11")}}, workload.Administrator{})
	w.assignment = assignment.New(w.inventory)
	w.asks(asked)
	top := &topology.Topology{
		Online: w.all, Sockets: []topology.Socket{{CPUs: w.all}}, L3: []topology.L3{{CPUs: w.all}},
		Nodes: []topology.Node{{CPUs: w.all, MemoryBytes: 1 << 36, Distances: []int{10}}},
	}
	for i := range 8 {
		top.Cores = append(top.Cores, topology.Core{ID: topology.CoreID(i), CPUs: cpuset.Set{}.Add(i).Add(i + 8)})
	}
	machine, err := alloc.Compile(top)
	if err != nil {
		t.Fatal(err)
	}
	w.assignment.SetFacts(place.Facts{Machine: machine, Hash: "0123456789abcdef", AllocatableMilli: 16000})
	w.with()
	w.run(0, 0)
	w.root = w.Root()
	w.restart()
	return w
}

// asks changes what the administrator asks for.
func (w *world) asks(asked v1alpha1.ResourceThreshold) {
	w.inventory.Configure(workload.Administrator{File: "agent.yaml", Threshold: asked})
}

// restart starts another agent, without memory of the last one.
func (w *world) restart() {
	w.work = New(Options{
		Host: w.host,
		Root: w.root, Placed: w.assignment.Snapshot, Groups: groups{all: w.all}, Log: slog.New(slog.DiscardHandler),
		Now:  func() time.Time { return time.Unix(1_000_000_000, 0).UTC().Add(w.now) },
		Fail: func(string, error) { w.failed++ }, Standing: noEntries, Usage: w.usage,
	})
}

// with sets offline workloads of these names beside an online one.
func (w *world) with(names ...string) {
	all := []workload.Workload{{Name: "web", Cgroup: "web"}}
	for _, name := range names {
		all = append(all, workload.Workload{
			Name: name, Cgroup: name, Offline: true, Class: "BE", Labels: map[string]string{v1alpha1.LabelQoSClass: "BE"},
		})
	}
	w.inventory.SetStandalone(all, nil)
}

// run lets every CPU be busy for a part of the time.
func (w *world) run(d time.Duration, busy float64) {
	w.now += d
	var text strings.Builder
	for i := range w.busy {
		w.busy[i] += time.Duration(busy * float64(d))
	}
	fmt.Fprintf(&text, "cpu  %d 0 0 0 0 0 0 0 0 0\n", w.busy[0].Milliseconds()/10*int64(len(w.busy)))
	for i := range w.busy {
		fmt.Fprintf(&text, "cpu%d %d 0 0 %d 0 0 0 0 0 0\n", i, w.busy[i].Milliseconds()/10, (w.now-w.busy[i]).Milliseconds()/10)
	}
	text.WriteString("intr 0\n")
	w.Write("proc/stat", text.String())
}

// observed returns the facts of a round.
func (w *world) observed() capability.Node {
	n := capability.Node{
		Now: w.now, Online: w.all, Config: w.config, Topology: w.inventory.Topology(), Obstacle: w.inventory.Obstacle(),
		Containers: w.assignment.Running(), Exclusive: w.assignment.Exclusive(), HasOffline: w.assignment.HasOffline(),
		Policies: w.inventory.Policies.Observed(),
	}
	n.Present, n.OfflinePods = w.inventory.Here()
	return n
}

// round runs one round of the agent.
func (w *world) round() {
	w.node = w.observed()
	d := w.work.Decide(&w.node)
	if len(d.Settings) > 0 || d.Held {
		w.t.Errorf("decided %+v", d)
	}
	for _, e := range d.Events {
		w.events = append(w.events, e.Reason+": "+e.Text)
	}
	w.assignment.SetOffline(w.node.Offline)
}

// rounds runs n rounds, one a second.
func (w *world) rounds(n int, busy float64) {
	for range n {
		w.run(time.Second, busy)
		w.round()
	}
}

// expect compares the CPUs of offline work.
func (w *world) expect(what, cpus string) {
	w.t.Helper()
	if got := w.assignment.Offline().String(); got != cpus {
		w.t.Errorf("%s: offline work has %q, want %q", what, got, cpus)
	}
}

func (w *world) expectEvents(want ...string) {
	w.t.Helper()
	if got := strings.Join(w.events, "\n"); got != strings.Join(want, "\n") {
		w.t.Errorf("events\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	w.events = nil
}

func enabled() v1alpha1.ResourceThreshold { return v1alpha1.ResourceThreshold{Enable: new(true)} }

// Offline work starts with its prepared guarantee, and grows to what online work leaves. In a surge it returns cores at
// the next check. A new agent starts at the guarantee again.
func TestBoundaryFollowsTheLoad(t *testing.T) {
	w := newWorld(t, enabled())
	w.rounds(3, 0.1)
	w.expect("nothing offline", "")
	if o := w.node.Offline; o.Size != 1 || o.Low != 1 || len(o.Cores) != 8 {
		t.Errorf("ready are %+v", o)
	}
	w.with("batch")
	w.expect("at once", "7,15")
	w.rounds(1, 0.1)
	w.expect("a round later", "7,15")
	if next := w.work.Next(2 * time.Hour); next != 2*time.Hour {
		t.Errorf("at its guarantee a look is due at %s", next)
	}
	w.rounds(60, 0.1)
	w.expect("after a minute", "4-7,12-15")
	next := w.work.Next(2 * time.Hour)
	if next > w.now+500*time.Millisecond || next < w.now+50*time.Millisecond {
		t.Fatalf("at %s a look is due at %s", w.now, next)
	}
	if w.work.Turn(w.now + time.Millisecond) {
		t.Error("it moves before the look is due")
	}
	w.run(next-w.now, 0)
	if w.work.Turn(w.now) {
		t.Error("it moves without a surge")
	}
	w.run(w.work.Next(2*time.Hour)-w.now, 1)
	if !w.work.Turn(w.now) {
		t.Error("it does not move in a surge")
	}
	w.round()
	w.expect("after a surge", "6-7,14-15")
	if w.work.moves.Surges != 1 || w.work.moves.Count != 4 {
		t.Errorf("%d surges, %d moves", w.work.moves.Surges, w.work.moves.Count)
	}
	w.restart()
	w.round()
	w.expect("another agent", "7,15")
	w.with()
	w.round()
	w.expect("nothing offline again", "")
	w.expectEvents()
	if w.failed > 0 {
		t.Errorf("%d failures", w.failed)
	}
}

// Without the key nothing is read, offered or reported. An agent that ends desires nothing.
func TestOffAndEnd(t *testing.T) {
	w := newWorld(t, v1alpha1.ResourceThreshold{})
	w.with("batch")
	w.Remove("proc/stat")
	w.round()
	w.expect("switched off", "")
	if out := w.work.Outcome(time.Time{}); w.failed > 0 || len(out.Node) > 0 {
		t.Errorf("%d failures, reported %+v", w.failed, out)
	}
	w.asks(enabled())
	w.round()
	if w.failed != 1 {
		t.Errorf("%d failures without /proc/stat", w.failed)
	}
	w.expect("without a measurement", "7,15")
	w.rounds(2, 0)
	w.work.End()
	w.round()
	w.expect("at the end", "")
}

// While /proc/stat is unreadable, offline work does not grow. After 20 s it is back at its guarantee, and an event
// gives the reason. A successful reading takes effect at once.
func TestUnreadableUse(t *testing.T) {
	w := newWorld(t, enabled())
	w.with("batch")
	w.rounds(17, 0.1)
	w.expect("before", "4-7,12-15")
	stat, away := w.Path("proc/stat"), w.Path("proc/stat.away")
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	blind := func(seconds int) {
		for range seconds {
			w.now += time.Second
			w.round()
		}
	}
	move(stat, away)
	blind(1)
	if len(w.events) != 1 || !strings.HasPrefix(w.events[0], "IsolationLimited: what online work uses cannot be read: ") || !strings.Contains(w.events[0], "proc/stat") {
		t.Errorf("events %q", w.events)
	}
	blind(18)
	w.expect("for 19 s without a reading", "4-7,12-15")
	blind(2)
	w.expect("after 20 s", "7,15")
	if n := w.work.Outcome(time.Time{}).Node[keyNode].(Node); n.Reason != "what online work uses cannot be read" || n.Moved != n.Reason || n.Target != n.Low {
		t.Errorf("reported %+v", n)
	}
	w.events = nil
	move(away, stat)
	w.rounds(20, 0.1)
	w.expect("when it is read again", "4-7,12-15")
	w.expectEvents()
	move(stat, away)
	blind(1)
	if len(w.events) != 1 {
		t.Errorf("a second time: events %q", w.events)
	}
}

// The agent follows what the administrator asks for, and reports a reason for what is impossible.
func TestLimits(t *testing.T) {
	asked := enabled()
	asked.CPUSuppressMinPercent = new(int64(40))
	w := newWorld(t, asked)
	w.with("batch")
	w.rounds(1, 0.9)
	w.expect("a guarantee of 40 percent", "4-7,12-15")
	asked.CPUSuppressPolicy = new("cfsQuota")
	w.asks(asked)
	w.rounds(2, 0)
	w.expect("by a quota", "")
	w.expectEvents("IsolationLimited: cpuSuppressPolicy cfsQuota: no group has all offline work and nothing else: batch is right below the root")
	w.asks(enabled())
	w.inventory.Kubelet(observed.Obstacle{Reason: "CPUManager", Message: "the kubelet sets CPU sets"}, "")
	w.rounds(2, 0)
	w.expect("beside the kubelet", "")
	w.expectEvents("IsolationLimited: the kubelet sets CPU sets")
	w.inventory.Kubelet(observed.Obstacle{}, "")
	w.all = set(t, "0-1,8")
	w.restart() // the groups of a smaller root
	w.rounds(2, 0)
	w.expect("one core", "")
	w.expectEvents("IsolationLimited: fewer than two cores can be moved: offline work shares the pool")
	var status v1alpha1.NodeTopologyStatus
	w.work.AddConditions(&status)
	if c := status.Conditions; len(c) != 1 || c[0].Type != v1alpha1.ConditionIsolated || c[0].Status != "False" {
		t.Errorf("conditions %+v", c)
	}
}

// While the owner of CPU sets is unknown, the boundary stays as it is.
func TestSuspended(t *testing.T) {
	w := newWorld(t, enabled())
	w.with("batch")
	w.rounds(30, 0.1)
	before := w.node.Offline
	w.inventory.Kubelet(observed.Obstacle{Reason: observed.KubeletUnknown, Message: "it does not answer"}, "")
	w.rounds(5, 1)
	if !w.node.Offline.Equal(before) {
		t.Errorf("offered %+v, then %+v", before, w.node.Offline)
	}
	if w.run(time.Second, 1); w.work.Turn(w.now) {
		t.Error("the boundary moved between two rounds")
	}
	w.expectEvents()
}

// A core with groups of both sides is counted at once, and reported when the overlap lasts.
func TestOverlap(t *testing.T) {
	w := newWorld(t, enabled())
	w.with("batch")
	w.rounds(2, 0)
	saw := func(online string) {
		w.run(time.Second, 0)
		w.work.Saw(w.now, &reconcile.Report{Groups: []reconcile.Status{
			{Group: "batch", Owner: plan.OwnerIsolate, CPUs: set(t, "7,15")}, {Group: "web", Owner: plan.OwnerPool, CPUs: set(t, online)},
		}})
		w.round()
	}
	count := func() (n float64) {
		w.work.Measure(func(s capability.Sample) {
			if s.Metric == "isolate_overlap_cores" {
				n = s.Value
			}
		})
		return n
	}
	condition := func() string {
		var status v1alpha1.NodeTopologyStatus
		w.work.AddConditions(&status)
		return string(status.Conditions[0].Status)
	}
	saw("0-6,8-14")
	if n := count(); n != 0 || condition() != "True" {
		t.Errorf("%g cores, isolated %s", n, condition())
	}
	saw("0-6,8-15") // the other thread of core 7
	if n := count(); n != 1 || condition() != "True" {
		t.Errorf("%g cores at once, isolated %s", n, condition())
	}
	w.expectEvents()
	for range 3 {
		saw("0-6,8-15")
	}
	if condition() != "False" {
		t.Error("isolated while a core has both sides")
	}
	w.expectEvents("IsolationLimited: the cores of CPUs 7,15 run online and offline containers: web and batch, for example")
	saw("0-6,8-14")
	if n := count(); n != 0 || condition() != "True" {
		t.Errorf("%g cores, isolated %s", n, condition())
	}
}

// An offline workload that an administrator bound to online cores stays there. The report of the overlap gives this
// reason.
func TestBoundOverlap(t *testing.T) {
	w := newWorld(t, enabled())
	w.with("batch", "bound")
	w.rounds(2, 0)
	for range 4 {
		w.run(time.Second, 0)
		var saw []reconcile.Status
		all, _ := w.assignment.Desired(nil)
		for _, d := range all {
			saw = append(saw, reconcile.Status{Group: d.Group, Owner: d.Settings()[0].Owner, CPUs: d.CPUs})
		}
		w.work.Saw(w.now, &reconcile.Report{Groups: saw})
		w.round()
	}
	const why = "bound there by others, which Berth leaves as it is: bound"
	w.expectEvents("IsolationLimited: the cores of CPUs 3,11 run online and offline containers: web and bound, for example; " + why)
	var status v1alpha1.NodeTopologyStatus
	w.work.AddConditions(&status)
	if c := status.Conditions; len(c) != 1 || c[0].Status != "False" || c[0].Reason != "Overlap" || !strings.HasSuffix(c[0].Message, why) {
		t.Errorf("conditions %+v", c)
	}
	view, err := reader{}.Node(capability.Reported{Alive: true, Node: w.work.Outcome(time.Time{}).Node})
	if want := "overlap: the cores of CPUs 3,11 run online and offline groups; " + why; err != nil || view.Lines[len(view.Lines)-1] != want {
		t.Errorf("%v, %q", err, view.Lines)
	}
}

// The use of processes outside all workloads is shown separately. It is unknown, never 0, before the first measurement
// and while a workload's use is unreadable.
func TestSystemIsShownApart(t *testing.T) {
	w := newWorld(t, enabled())
	shown := func() string {
		t.Helper()
		line, samples := "", 0
		out := w.work.Outcome(time.Time{})
		text, err := json.Marshal(out.Node[keyNode])
		if err != nil {
			t.Fatal(err)
		}
		view, err := reader{}.Node(capability.Reported{Alive: true, Node: capability.Sections{keyNode: json.RawMessage(text)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range view.Lines {
			if strings.HasPrefix(one, "system: ") {
				line = one
			}
		}
		w.work.Measure(func(s capability.Sample) {
			if s.Metric == "isolate_system_use_cpus" {
				samples++
				line += fmt.Sprintf(" (%g)", s.Value)
			}
		})
		if known := strings.Contains(string(text), `"system":{"use":`); known != (samples == 1) {
			t.Errorf("%d samples of %s", samples, text)
		}
		return line
	}
	expect := func(what string, rounds int, want string) {
		t.Helper()
		for range rounds { // 4 CPUs are busy, of which the groups use 1 and 1/2
			w.used["web"] += 1e9
			w.used["batch"] += 5e8
			w.rounds(1, 0.25)
		}
		if got := shown(); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	const unknown = "system: what processes outside of pods and workloads use is not known: "
	expect("without offline work", 2, "")
	w.with("batch")
	expect("at first", 1, unknown+"it was looked at for the first time")
	expect("19 s later", 19, unknown+"it was looked at for the first time")
	expect("20 s later", 1, "system: processes outside of pods and workloads use 2.5 CPUs (2.5)")
	w.with("batch", "more")
	expect("a group that cannot be read", 20, unknown+"use of more: no such cgroup: more")
	w.with("batch")
	expect("it went", 20, unknown+"it was looked at for the first time")
	expect("measured again", 20, "system: processes outside of pods and workloads use 2.5 CPUs (2.5)")
	w.with()
	expect("without offline work again", 1, "")
}

// Status prints this text, also from its JSON.
func TestStatus(t *testing.T) {
	w := newWorld(t, enabled())
	w.with("batch")
	w.rounds(20, 0.2)
	text, err := json.Marshal(w.work.Outcome(time.Time{}).Node)
	if err != nil {
		t.Fatal(err)
	}
	var sections map[string]json.RawMessage
	if err := json.Unmarshal(text, &sections); err != nil {
		t.Fatal(err)
	}
	r := capability.Reported{Alive: true, Node: capability.Sections{keyNode: sections[keyNode]}}
	view, err := reader{}.Node(r)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(view.Lines, "\n")
	support, note := kernel.CoreScheduling()
	want := "isolation: cores by cpuset; cpu.idle supported; Group Identity unsupported (no cpu.bvt_warp_ns); core scheduling " +
		Mechanism{support, note}.String() + "\nboundary: online 0-4,8-12 (use 2.8 CPUs, need 3 cores), offline 5-7,13-15 (low 1 core) since 02:46:51: online use fell" +
		"\nsystem: what processes outside of pods and workloads use is not known: it was looked at for the first time"
	if got != want {
		t.Errorf("status\n%s\nwant\n%s", got, want)
	}
	r.Alive = false
	if view, err := (reader{}).Node(r); err != nil || len(view.Lines) > 0 {
		t.Errorf("without an agent: %+v, %v", view, err)
	}
}
