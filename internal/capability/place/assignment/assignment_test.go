package assignment_test

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/assignment"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// host is a machine of 8 CPUs, four cores in one NUMA node, on which every group may run on all CPUs.
type host struct{ pinned map[string]cpuset.Set }

func (h host) EffectiveCPUs(group string) cpuset.Set { return cpusOf(group, h.pinned) }

// cpusOf returns the listed CPUs of a group, or all CPUs of the host.
func cpusOf(group string, listed map[string]cpuset.Set) cpuset.Set {
	if cpus, found := listed[group]; found {
		return cpus
	}
	return set("0-7")
}

func (h host) Journaled(group string) (plan.Owner, cpuset.Set) {
	if given, found := h.pinned[group]; found {
		return plan.OwnerPlace, given
	}
	return "", cpuset.Set{}
}

func (host) EffectiveMems(string) cpuset.Set { return cpuset.Set{} }

func (host) OriginalCPUs(string) cpuset.Set { return set("0-7") }

func (host) OriginalLimit(string) unit.CPUs { return 0 }

func (host) HasProcesses(string) bool { return false }

func set(list string) cpuset.Set {
	s, err := cpuset.Parse(list)
	if err != nil {
		panic(err)
	}
	return s
}

func machine(t *testing.T) *alloc.Machine {
	t.Helper()
	topo := &topology.Topology{
		Online:  set("0-7"),
		Sockets: []topology.Socket{{CPUs: set("0-7")}},
		Nodes:   []topology.Node{{CPUs: set("0-7"), MemoryBytes: 64 << 30, Distances: []int{10}}},
		L3:      []topology.L3{{CPUs: set("0-7")}},
	}
	for i, cpus := range []string{"0-1", "2-3", "4-5", "6-7"} {
		topo.Cores = append(topo.Cores, topology.Core{ID: topology.CoreID(2 * i), CPUs: set(cpus)})
	}
	m, err := alloc.Compile(topo)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// node combines the Inventory of a node with the Assignment that decides on it.
type node struct {
	*inventory.Inventory
	*assignment.Assignment
}

func newNode(h inventory.Host, admin workload.Administrator) *node {
	inv := inventory.New(h, admin)
	return &node{inv, assignment.New(inv)}
}

// Containers returns the running containers with their assignment.
func (n *node) Containers() []observed.Workload { return n.Assignment.Running() }

func open(t *testing.T) *node {
	t.Helper()
	cfg := v1alpha1.AgentConfig{ReadPeerConfig: v1alpha1.PeerConfigs()}
	n := newNode(host{map[string]cpuset.Set{}}, workload.AdministratorOf("agent.yaml", cfg))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	handle(t, n, nri.Event{Kind: nri.Synchronize})
	return n
}

func pinnedPod(uid, cpus string) *cluster.Pod {
	annotations := map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"}
	if cpus != "" {
		p := v1alpha1.Placement{V: v1alpha1.PlacementVersion, Topology: "0123456789abcdef", Containers: map[string]v1alpha1.ContainerPlacement{
			"main": {CPUs: cpus, Mems: "0", Policy: v1alpha1.PlacementExclusive},
		}}
		annotations[v1alpha1.AnnotationPlacement] = p.Encode()
	}
	return &cluster.Pod{
		Pod: workload.Pod{
			Namespace: "ns", Name: uid, UID: uid, Annotations: annotations, Scheduled: 2000,
			Containers: []workload.Container{{Name: "main", Resources: workload.Resources{CPURequest: 2000, CPULimit: 2000}}},
		},
		Key: "ns/" + uid, Object: cluster.Object{Namespace: "ns", Name: uid, UID: uid},
	}
}

func plainPod(uid string) *cluster.Pod {
	p := pinnedPod(uid, "")
	p.Annotations = nil
	return p
}

func snapshot(pods ...*cluster.Pod) *cluster.Snapshot {
	return &cluster.Snapshot{Generation: 1, Pods: pods, PodsFrom: cluster.APIServer, Node: cluster.Node{UID: "n", AllocatableMilli: 8000}}
}

func sandbox(p *cluster.Pod) nri.Pod {
	return nri.Pod{
		ID: "box-" + p.UID, UID: p.UID, Namespace: p.Namespace, Name: p.Name,
		CgroupParent: "kubepods/pod" + p.UID, CgroupPath: "kubepods/pod" + p.UID + "/box", Annotations: p.Annotations, Labels: p.Labels,
	}
}

func event(kind nri.Kind, p *cluster.Pod) nri.Event {
	c := nri.Container{
		ID: "c-" + p.UID, PodID: "box-" + p.UID, Name: "main", CgroupPath: "kubepods/pod" + p.UID + "/c",
		Resources: nri.Resources{Quota: 200_000, Period: 100_000},
	}
	return nri.Event{Kind: kind, Pod: sandbox(p), Container: c}
}

func handle(t *testing.T, n *node, e nri.Event) assignment.Answer {
	t.Helper()
	a, err := n.Handle(e, false)
	if err != nil {
		t.Fatalf("%s: %v", e.Kind, err)
	}
	return a
}

// start takes a pod from its sandbox to its first process.
func start(t *testing.T, n *node, p *cluster.Pod) assignment.Answer {
	t.Helper()
	handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(p)})
	a := handle(t, n, event(nri.Create, p))
	handle(t, n, event(nri.Start, p))
	return a
}

func TestPinnedContainerAndItsNeighbours(t *testing.T) {
	n := open(t)
	pinned, other := pinnedPod("pinned", "2-3"), plainPod("other")
	n.Take(snapshot(other))
	if a := start(t, n, other); len(a.Reply.Updates) > 0 || a.Reply.Adjust != (nri.Settings{}) {
		t.Errorf("an ordinary pod on an empty node is changed: %+v", a)
	}
	n.Take(snapshot(pinned, other))
	a := start(t, n, pinned)
	if want := (nri.Settings{CPUs: set("2-3"), Mems: set("0"), NoQuota: true}); a.Reply.Adjust != want {
		t.Errorf("the pinned container gets %+v, want %+v", a.Reply.Adjust, want)
	}
	narrowed := map[string]string{}
	for _, c := range a.Changes {
		narrowed[c.Group] = c.CPUs.String() + " for " + c.Serves
	}
	want := map[string]string{
		"kubepods/podother/c": "0-1,4-7 for ns/pinned", "kubepods/podother/box": "0-1,4-7 for ns/pinned",
		"kubepods/podpinned/box": "0-1,4-7 for ns/pinned",
	}
	if diff := cmp.Diff(want, narrowed); diff != "" {
		t.Errorf("others (-want +got):\n%s", diff)
	}
	if len(a.Changes) != len(a.Reply.Updates) {
		t.Errorf("%d changes journaled, %d in the reply", len(a.Changes), len(a.Reply.Updates))
	}
	all, pods := n.Desired(nil)
	agree(t, n, all)
	if len(all) != 4 || len(pods) != 1 || pods[0].Group != "kubepods/podpinned" || !pods[0].NoQuota {
		t.Errorf("desired %+v, of pods %+v", all, pods)
	}

	handle(t, n, event(nri.Stop, pinned))
	handle(t, n, event(nri.Remove, pinned))
	if all, _ := n.Desired(nil); len(all) == 0 {
		t.Error("the CPUs are given back while the pod may restart its container")
	}
	n.Take(snapshot(other))
	handle(t, n, nri.Event{Kind: nri.StopPod, Pod: sandbox(pinned)})
	if all, pods := n.Desired(nil); len(all)+len(pods) > 0 {
		t.Errorf("desired %+v, of pods %+v, with no pod pinned", all, pods)
	}
}

// agree checks that DesiredIn returns for each group the same as Desired returns for all.
func agree(t *testing.T, n *node, all []place.Desired) {
	t.Helper()
	in := map[string]place.Desired{}
	for _, d := range all {
		in[d.Group] = d
	}
	for _, group := range append(slices.Collect(maps.Keys(in)), "", "kubepods/podplain/c", "kubepods/podother/box", "kubepods/podpinned/box") {
		want, desired := in[group]
		got, found := n.DesiredIn(group)
		if found != desired || desired && !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %t, %+v, want %t, %+v", group, found, got, desired, want)
		}
	}
}

// Siblings that must stay empty belong to the pod as its own CPUs do: no other pod may use them.
func TestEmptySiblingsAreExclusive(t *testing.T) {
	n := open(t)
	p := pinnedPod("alone", "")
	p.Annotations[v1alpha1.AnnotationResourceSpec] = `{"requiredCPUBindPolicy":"SpreadByPCPUs","requiredCPUExclusivePolicy":"PCPULevel"}`
	n.Take(snapshot(p))
	own := start(t, n, p).Reply.Adjust.CPUs
	got := n.Exclusive()
	if own.Size() != 2 || got.Size() != 4 || !own.IsSubsetOf(got) || got.Intersects(n.Snapshot().Shared) || got != n.Snapshot().Exclusive {
		t.Errorf("own %s, exclusive %s, pool %s", own, got, n.Snapshot().Shared)
	}
	handle(t, n, nri.Event{Kind: nri.StopPod, Pod: sandbox(p)})
	n.Take(snapshot())
	if got := n.Exclusive(); !got.IsEmpty() {
		t.Errorf("with no pod pinned: %s", got)
	}
}

func TestPodThatOnlyTheRuntimeKnows(t *testing.T) {
	n := open(t)
	n.Take(snapshot())
	p := pinnedPod("early", "4-5")
	handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(p)})
	if _, err := n.Handle(event(nri.Create, p), false); !errors.Is(err, inventory.ErrUnknownPod) {
		t.Fatalf("error %v, want %v", err, inventory.ErrUnknownPod)
	}
	a, err := n.Handle(event(nri.Create, p), true)
	if err != nil || a.Reply.Adjust.CPUs != set("4-5") {
		t.Fatalf("its placement is not followed: %+v, %v", a.Reply, err)
	}
	handle(t, n, event(nri.Start, p))
	n.Take(snapshot(p))
	if all, _ := n.Desired(nil); len(all) == 0 || n.Pods.Pod("early") == nil {
		t.Error("forgotten when the API server reports it")
	}
}

// A pod whose last sandbox is removed leaves nothing desired, whatever the runtime reported about its containers.
func TestRemovedPodLeavesNothing(t *testing.T) {
	n := open(t)
	pinned, other := pinnedPod("pinned", "2-3"), plainPod("other")
	n.Take(snapshot(pinned, other))
	start(t, n, pinned)
	start(t, n, other)
	handle(t, n, nri.Event{Kind: nri.RemovePod, Pod: sandbox(other)})
	all, _ := n.Desired(nil)
	n.Saw(only("kubepods/podother/c", "0-1"))
	handle(t, n, nri.Event{Kind: nri.RemovePod, Pod: sandbox(pinned)})
	n.Take(snapshot())
	more, _ := n.Desired(nil)
	for _, w := range append(all, more...) {
		if w.PodUID == "other" {
			t.Errorf("wanted for a pod that is gone: %+v", w)
		}
	}
}

func TestOrdinaryPodsNeverWait(t *testing.T) {
	n := open(t)
	p := plainPod("plain")
	handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(p)})
	handle(t, n, event(nri.Create, p))
}

// A container that ran before the agent started keeps its CPUs, even when another pod's placement claims them.
func TestSynchronizeKeepsWhatRuns(t *testing.T) {
	h := host{map[string]cpuset.Set{"kubepods/podpinned/c": set("6-7")}}
	n := newNode(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	first, second := pinnedPod("pinned", "6-7"), pinnedPod("late", "6-7")
	n.Take(snapshot(first, second))
	running := event(nri.PostStart, first).Container
	running.State = nri.Running
	handle(t, n, nri.Event{Kind: nri.Synchronize, Pods: []nri.Pod{sandbox(first)}, Containers: []nri.Container{running}})
	a := start(t, n, second)
	if a.Reply.Adjust.CPUs.IsEmpty() || a.Reply.Adjust.CPUs.Intersects(set("6-7")) {
		t.Errorf("the loser of an overlap gets %s", a.Reply.Adjust.CPUs)
	}
	var rewritten bool
	for _, event := range n.Events() {
		rewritten = rewritten || event.PodUID == "late" && event.Annotation != nil
	}
	if !rewritten {
		t.Error("its annotation is not rewritten")
	}
}

func TestObstacles(t *testing.T) {
	koordlet := plainPod("koordlet")
	koordlet.Namespace, koordlet.Containers[0].Name, koordlet.DaemonSet = "koordinator-system", "koordlet", true
	kata := pinnedPod("kata", "2-3")
	kata.RuntimeClass = "kata-qemu"
	cases := map[string]struct {
		pod    *cluster.Pod
		more   *cluster.Pod
		report func(*node)
		reason string
	}{
		"koordlet": {pod: pinnedPod("p", "2-3"), more: koordlet, reason: "Koordlet"},
		"static policy": {pod: pinnedPod("p", "2-3"), report: func(n *node) {
			n.Kubelet(observed.Obstacle{Reason: "KubeletCPUManager", Message: "m"}, "")
		}, reason: "KubeletCPUManager"},
		"another plugin": {pod: pinnedPod("p", "2-3"), report: func(n *node) { _, _ = n.Handle(nri.Event{Kind: nri.Foreign, Owner: "10-x"}, false) }, reason: "OtherNRIPlugin"},
		"a VM":           {pod: kata},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := open(t)
			all := []*cluster.Pod{c.pod}
			if c.more != nil {
				all = append(all, c.more)
			}
			n.Take(snapshot(all...))
			if c.report != nil {
				c.report(n)
			}
			if got := n.Obstacle().Reason; got != c.reason {
				t.Errorf("obstacle %q, want %q", got, c.reason)
			}
			if a := start(t, n, c.pod); a.Reply.Adjust != (nri.Settings{}) || len(a.Reply.Updates) > 0 {
				t.Errorf("CPU sets are set: %+v", a.Reply)
			}
			var refused bool
			for _, event := range n.Events() {
				refused = refused || event.Reason == v1alpha1.EventPlacementRefused
			}
			if !refused {
				t.Error("no event")
			}
		})
	}
}

func TestWorkloads(t *testing.T) {
	burst := func(p *cluster.Pod) *cluster.Pod {
		p.Annotations = map[string]string{v1alpha1.AnnotationCPUBurst: `{"policy":"cfsQuotaBurstOnly"}`}
		return p
	}
	offline := plainPod("offline")
	offline.Labels = map[string]string{v1alpha1.LabelQoSClass: "BE"}
	limited := burst(plainPod("limited"))
	limited.CPULimit = 3000
	selected := plainPod("selected")
	selected.Labels = map[string]string{"app": "apache-demo"}
	all := []*cluster.Pod{burst(plainPod("bursting")), offline, limited, pinnedPod("pinned", "2-3"), plainPod("plain"), selected}
	n := open(t)
	s := snapshot(all...)
	s.ConfigMaps = strategy.Maps{strategy.LabelConfig: {
		"app": "apache-demo", strategy.KeyBurst: `{"policy": "cfsQuotaBurstOnly", "cpuBurstPercent": 100, "cfsQuotaBurstPercent": 300, "cfsQuotaBurstPeriodSeconds": -1}`,
	}}
	n.Take(s)
	for _, p := range all {
		start(t, n, p)
	}
	workloads, findings := n.Workloads()
	if len(findings) > 0 {
		t.Errorf("findings %v", findings)
	}
	var got []string
	for _, w := range workloads {
		text := w.Name + " " + w.Cgroup
		for _, flag := range []struct {
			name string
			on   bool
		}{
			{"bursts", w.Burst.Wanted()},
			{"derived", w.Pod.Derived && w.Burst.Wanted()},
			{"offline", w.Offline},
			{"exclusive", w.Exclusive},
		} {
			if flag.on {
				text += " " + flag.name
			}
		}
		got = append(got, text)
	}
	want := []string{
		"ns/bursting/main kubepods/podbursting/c bursts derived",
		"ns/limited kubepods/podlimited bursts",
		"ns/limited/main kubepods/podlimited/c bursts",
		"ns/offline/main kubepods/podoffline/c offline",
		"ns/pinned/main kubepods/podpinned/c exclusive",
		"ns/selected/main kubepods/podselected/c bursts derived",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("workloads (-want +got):\n%s", diff)
	}
}

func TestOtherPluginLeaves(t *testing.T) {
	theirs := func(kind nri.Kind, id string) nri.Event {
		return nri.Event{Kind: kind, Owner: "10-x", Container: nri.Container{ID: id}}
	}
	for name, leave := range map[string][]nri.Event{
		"their containers end":       {theirs(nri.Remove, "b"), theirs(nri.Remove, "a")},
		"the runtime has none of it": {{Kind: nri.Synchronize}},
	} {
		t.Run(name, func(t *testing.T) {
			n := open(t)
			n.Take(snapshot(pinnedPod("p", "2-3")))
			for _, e := range append([]nri.Event{theirs(nri.Foreign, "a"), theirs(nri.Foreign, "b")}, leave...) {
				if got := n.Obstacle().Reason; e.Kind != nri.Foreign && got != "OtherNRIPlugin" {
					t.Fatalf("before %v: obstacle %q", e.Kind, got)
				}
				if _, err := n.Handle(e, false); err != nil {
					t.Fatal(err)
				}
			}
			if got := n.Obstacle(); got != (observed.Obstacle{}) {
				t.Errorf("obstacle %+v", got)
			}
		})
	}
}

// A new agent learns of pods before it learns of running containers. Those keep their CPUs, whatever the agent was
// asked in the meantime.
func TestNothingIsDecidedBeforeTheRuntimeTold(t *testing.T) {
	for _, annotated := range []string{"", "2-3"} {
		h := host{map[string]cpuset.Set{"kubepods/podpinned/c": set("4-5")}}
		n := newNode(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
		n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
		p := pinnedPod("pinned", annotated)
		n.Take(snapshot(p))
		if events := n.Events(); len(events) > 0 {
			t.Errorf("events before anything is known: %+v", events)
		}
		if _, err := n.Handle(nri.Event{Kind: nri.RunPod, Pod: sandbox(p)}, false); err != nil {
			t.Fatal(err)
		}
		n.Snapshot()
		running := event(nri.PostStart, p).Container
		running.State = nri.Running
		handle(t, n, nri.Event{Kind: nri.Synchronize, Pods: []nri.Pod{sandbox(p)}, Containers: []nri.Container{running}})
		var got string
		all, _ := n.Desired(nil)
		agree(t, n, all)
		for _, w := range all {
			if w.Group == "kubepods/podpinned/c" {
				got = w.CPUs.String()
			}
		}
		if got != "4-5" {
			t.Errorf("annotation %q: it runs on 4-5 and shall be on %q", annotated, got)
		}
	}
}

func TestVirtualMachineThatOnlyTheSandboxNames(t *testing.T) {
	n := open(t)
	p := pinnedPod("vm", "2-3")
	p.RuntimeClass = "secure"
	n.Take(snapshot(p))
	box := sandbox(p)
	box.RuntimeHandler = "kata-qemu"
	handle(t, n, nri.Event{Kind: nri.RunPod, Pod: box})
	e := event(nri.Create, p)
	e.Pod = box
	if a := handle(t, n, e); a.Reply.Adjust != (nri.Settings{}) {
		t.Errorf("it is pinned: %+v", a.Reply)
	}
}

// A container that Berth once narrowed gets its CPUs back even where systemd remembers the narrow list. It gets as many
// as the parent group has.
func TestNarrowOnesAreNotForgotten(t *testing.T) {
	for name, c := range map[string]struct{ has, above, want string }{
		"all are above":              {has: "0-3", above: "0-7", want: "0-7"},
		"some are above":             {has: "0-3", above: "0-5", want: "0-5"},
		"no more are above":          {has: "0-3", above: "0-3"},
		"what is above is not known": {has: "0-3", above: "", want: "0-7"},
		"it has all":                 {has: "0-7", above: "0-7"},
	} {
		t.Run(name, func(t *testing.T) {
			h := narrowAgain{has: set(c.has), above: set(c.above)}
			n := newNode(&h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
			n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
			n.Inventory.Containers().Recall(map[string]inventory.Answered{"c-plain": {Pod: "plain", CPUs: []cpuset.Set{set("0-3")}}})
			p := plainPod("plain")
			n.Take(snapshot(p))
			running := event(nri.PostStart, p).Container
			running.State, running.Resources.CPUs = nri.Running, set("0-3")
			handle(t, n, nri.Event{Kind: nri.Synchronize, Pods: []nri.Pod{sandbox(p)}, Containers: []nri.Container{running}})
			reads := h.reads
			for look := range 40 {
				all, _ := n.Desired(nil)
				switch {
				case c.want == "" && len(all) > 0:
					t.Fatalf("look %d: desired %+v", look, all)
				case c.want != "" && (len(all) != 1 || all[0].CPUs != set(c.want) || !all[0].Made):
					t.Fatalf("look %d: desired %+v, want %s for the container", look, all, c.want)
				}
			}
			if many := h.reads - reads; many > 7 {
				t.Errorf("%d groups read in 40 looks", many)
			}
			all, _ := n.Desired(nil)
			agree(t, n, all)
		})
	}
}

// narrowAgain is a host on which containers have other CPUs than their parent groups.
type narrowAgain struct {
	has, above cpuset.Set
	reads      int
}

func (h *narrowAgain) EffectiveCPUs(group string) cpuset.Set {
	h.reads++
	if strings.HasSuffix(group, "/c") {
		return h.has
	}
	return h.above
}

func (*narrowAgain) Journaled(string) (plan.Owner, cpuset.Set) { return "", cpuset.Set{} }

func (*narrowAgain) EffectiveMems(string) cpuset.Set { return cpuset.Set{} }

func (*narrowAgain) OriginalCPUs(string) cpuset.Set { return cpuset.Set{} }

func (*narrowAgain) OriginalLimit(string) unit.CPUs { return 0 }

func (*narrowAgain) HasProcesses(string) bool { return false }

// While the owner of CPU sets is unknown for a moment, no event reports pods without CPUs. An event does once this
// lasts. Events with other causes are not lost.
func TestRefusalsOfTheStart(t *testing.T) {
	unknown := observed.Obstacle{Reason: observed.KubeletUnknown, Message: "not asked yet"}
	start := func() *node {
		n := newNode(host{map[string]cpuset.Set{}}, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
		n.Kubelet(unknown, "")
		never := pinnedPod("q", "")
		never.RuntimeClass = "kata"
		n.Take(snapshot(pinnedPod("p", ""), never))
		n.Desired(nil) // as an answer to the runtime does
		handle(t, n, nri.Event{Kind: nri.Synchronize})
		return n
	}
	reported := func(n *node) string {
		var all []string
		for _, one := range n.Events() {
			if one.Reason != "" {
				all = append(all, one.PodUID+" "+one.Reason)
			}
		}
		return strings.Join(all, ", ")
	}
	facts := place.Facts{Machine: machine(t), Hash: "0123456789abcdef", AllocatableMilli: 8000}

	n := start()
	n.Desired(nil)
	n.Kubelet(observed.Obstacle{}, "") // the machine becomes known last
	n.Desired(nil)
	n.SetFacts(facts)
	if got := reported(n); got != "q PlacementRefused" {
		t.Errorf("reported %q", got)
	}

	n = start()
	n.SetFacts(facts)
	if got := reported(n); got != "" {
		t.Errorf("reported %q while it is not known", got)
	}
	unknown.Message, unknown.Lasting = "could not be found out", true
	n.Kubelet(unknown, "")
	if got := reported(n); !strings.Contains(got, "p PlacementRefused") || !strings.Contains(got, "q PlacementRefused") {
		t.Errorf("reported %q once it stays so", got)
	}
}
