package assignment_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// bound returns by container name whether the container has CPUs of its own.
func bound(n *node) map[string]bool {
	all := map[string]bool{}
	for _, c := range n.Containers() {
		all[c.Name] = c.Bound
	}
	return all
}

// Containers returns what capabilities decide on: running containers of known pods that have not ended.
func TestContainers(t *testing.T) {
	h := host{map[string]cpuset.Set{}}
	n := newNode(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	handle(t, n, nri.Event{Kind: nri.Synchronize})
	pinned, other := pinnedPod("pinned", "2-3"), plainPod("other")
	ended, early := plainPod("ended"), plainPod("early")
	ended.Ended = true
	s := snapshot(pinned, other, ended)
	s.ConfigMaps = strategy.Maps{strategy.BerthConfig: {strategy.KeyQOS: `{"clusterStrategy": {"lsClass": {"memoryLocality": {"policy": "bestEffort"}}}}`}}
	n.Take(s)
	if got := n.Containers(); len(got) > 0 {
		t.Errorf("containers that do not run: %+v", got)
	}
	h.pinned["kubepods/podpinned/c"] = set("2-3")
	for _, p := range []*cluster.Pod{other, pinned, ended, early} {
		start(t, n, p)
	}
	qos := v1alpha1.ClassQOS{MemoryLocality: &v1alpha1.MemoryLocality{Policy: new(v1alpha1.MemoryLocalityBestEffort)}}
	const source = "ConfigMap berth-system/berth-config, resource-qos-config clusterStrategy.lsClass"
	want := []observed.Workload{
		{PodUID: "other", Name: "ns/other/main", Pod: "ns/other", Container: "main", ID: "c-other", Group: "kubepods/podother/c", PodGroup: "kubepods/podother", Class: "LS", QOS: qos, QOSSource: source},
		{
			PodUID: "pinned", Name: "ns/pinned/main", Pod: "ns/pinned", Container: "main", ID: "c-pinned", Group: "kubepods/podpinned/c", PodGroup: "kubepods/podpinned",
			Annotations: pinned.Annotations, Class: "LS", QOS: qos, QOSSource: source, Bound: true,
		},
	}
	if diff := cmp.Diff(want, n.Containers()); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	for group, uid := range map[string]string{"kubepods/podother/c": "other", "kubepods/podpinned": "pinned", "kubepods": "", "": ""} {
		if got := observed.PodOf(n.Containers(), group); got != uid {
			t.Errorf("the pod of %q is %q, want %q", group, got, uid)
		}
	}
}

// only returns a function that reports these CPUs for one group, and none for other groups.
func only(group, list string) func(string) cpuset.Set {
	return func(path string) cpuset.Set {
		if path == group {
			return set(list)
		}
		return cpuset.Set{}
	}
}

// Containers makes a new list when something changed, and only then.
func TestContainersAreKept(t *testing.T) {
	n := open(t)
	p := plainPod("a")
	n.Take(snapshot(p))
	start(t, n, p)
	before := n.Containers()
	n.Now(1)
	n.Saw(only("kubepods/poda/c", "0-7")) // as before
	if after := n.Containers(); &before[0] != &after[0] {
		t.Error("made again although nothing changed")
	}
	for name, change := range map[string]func(){
		"event": func() { handle(t, n, event(nri.PostStart, p)) },
		"CPUs":  func() { n.Saw(only("kubepods/poda/c", "0-6")) },
		"pods":  func() { n.Take(snapshot(p)) },
		"file":  func() { n.Configure(workload.Administrator{}) },
		"owner": func() { n.Kubelet(observed.Obstacle{Reason: "StaticPolicy", Message: "m"}, "") },
	} {
		before := n.Containers()
		if change(); &before[0] == &n.Containers()[0] {
			t.Errorf("%s: not made again", name)
		}
	}
}

// Where another program owns CPU sets, a container is bound if it asks that program for CPUs. Without such a program,
// it is bound if it asks Berth.
func TestBoundByOthers(t *testing.T) {
	resources := func(cpu int64) workload.Resources {
		return workload.Resources{CPURequest: cpu, CPULimit: cpu, MemoryRequest: 1, MemoryLimit: 1}
	}
	n := open(t)
	guaranteed, fraction, burstable, asks := plainPod("guaranteed"), plainPod("fraction"), plainPod("burstable"), plainPod("asks")
	guaranteed.Containers[0].Resources, fraction.Containers[0].Resources = resources(2000), resources(1500)
	asks.Labels = map[string]string{v1alpha1.LabelQoSClass: "LSR"}
	pods := []*cluster.Pod{guaranteed, fraction, burstable, asks}
	n.Take(snapshot(pods...))
	for _, p := range pods {
		start(t, n, p)
	}
	shared := map[string]bool{"ns/guaranteed/main": false, "ns/fraction/main": false, "ns/burstable/main": false, "ns/asks/main": true}
	if diff := cmp.Diff(shared, bound(n)); diff != "" {
		t.Errorf("without another owner (-want +got):\n%s", diff)
	}
	n.Kubelet(observed.Obstacle{Reason: "StaticPolicy", Message: "the kubelet sets CPU sets"}, "")
	shared["ns/guaranteed/main"] = true
	if diff := cmp.Diff(shared, bound(n)); diff != "" {
		t.Errorf("with the static policy (-want +got):\n%s", diff)
	}
}

// boundHost has a group that an administrator bound.
type boundHost struct{ host }

func (h boundHost) OriginalCPUs(group string) cpuset.Set {
	if group == "bound.service" {
		return set("0-1")
	}
	return h.host.OriginalCPUs(group)
}

// On a host without Kubernetes a workload is bound unless it only shrank to the shared pool. Changed annotations take
// effect at once.
func TestWorkloadsAsContainers(t *testing.T) {
	cfg := v1alpha1.AgentConfig{ResourceQOS: v1alpha1.ResourceQOSConfig{ClusterStrategy: v1alpha1.ResourceQOS{
		BEClass: &v1alpha1.ClassQOS{MemoryLocality: &v1alpha1.MemoryLocality{TargetLocalityRatio: new(int64(90))}},
	}}}
	h := boundHost{host{map[string]cpuset.Set{"db.service": set("2-3")}}}
	n := newNode(h, workload.AdministratorOf("agent.yaml", cfg))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	pinning := map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"}
	all := []workload.Workload{
		{Name: "bound", Cgroup: "bound.service"},
		{Name: "db", Cgroup: "db.service", Annotations: pinning, Limit: unit.MilliCPUs(2000)},
		{Name: "web", Cgroup: "web.service", Class: "BE", Labels: map[string]string{v1alpha1.LabelQoSClass: "BE"}},
	}
	n.SetStandalone(all, nil)
	if diff := cmp.Diff(map[string]bool{"bound": true, "db": true, "web": false}, bound(n)); diff != "" {
		t.Errorf("bound (-want +got):\n%s", diff)
	}
	web := n.Containers()[2]
	want := observed.Workload{
		PodUID: web.PodUID, Name: "web", ID: "web.service", Group: "web.service", Labels: all[2].Labels, Class: "BE",
		QOS: cfg.ResourceQOS.ClusterStrategy.BEClass.Inherit(v1alpha1.ClassQOS{}), QOSSource: "resource-qos-config.clusterStrategy.beClass of agent.yaml",
	}
	if diff := cmp.Diff(want, web, cmpopts.EquateEmpty()); diff != "" || web.PodUID == "" {
		t.Errorf("web (-want +got):\n%s", diff)
	}
	all[2].Annotations = map[string]string{v1alpha1.AnnotationMemoryLocality: "{}"}
	n.SetStandalone(all, nil)
	if again := n.Containers()[2]; again.PodUID != web.PodUID || again.Annotations[v1alpha1.AnnotationMemoryLocality] != "{}" {
		t.Errorf("after an annotation: %+v", again)
	}
}

// The agent names the pod of Koordinator's or ACK's node agent.
func TestKoordletIsNamed(t *testing.T) {
	n := open(t)
	p := plainPod("k")
	p.Namespace, p.Key, p.DaemonSet, p.Containers[0].Name = "kube-system", "kube-system/ack-koordlet-x", true, "koordlet"
	if n.Take(snapshot(p)); n.Policies.Koordlet() != "kube-system/ack-koordlet-x" {
		t.Errorf("koordlet %q", n.Policies.Koordlet())
	}
	other := plainPod("o")
	other.Namespace, other.Key, other.DaemonSet, other.Containers[0].Name = "koordinator-system", "koordinator-system/koordlet-x", true, "koordlet"
	if n.Take(snapshot(p, other)); n.Policies.Koordlet() != p.Key {
		t.Errorf("of two koordlet %q", n.Policies.Koordlet())
	}
	p.Ended = true
	if n.Take(snapshot(p)); n.Policies.Koordlet() != "" {
		t.Errorf("koordlet %q after it ended", n.Policies.Koordlet())
	}
}

// A container that place assigns CPUs is bound even before the journal has them.
func TestBoundByDecision(t *testing.T) {
	n := open(t)
	pinned, other := pinnedPod("pinned", "2-3"), plainPod("other")
	n.Take(snapshot(pinned, other))
	start(t, n, other)
	start(t, n, pinned)
	if diff := cmp.Diff(map[string]bool{"ns/pinned/main": true, "ns/other/main": false}, bound(n)); diff != "" {
		t.Errorf("bound (-want +got):\n%s", diff)
	}
}

// Offline work has all pods and workloads of the class, and reports whether each is here. A pod that is here without a
// running container is present with its first container.
func TestHere(t *testing.T) {
	n := open(t)
	offline := func(uid string) *cluster.Pod {
		p := plainPod(uid)
		p.Labels = map[string]string{v1alpha1.LabelQoSClass: "BE"}
		return p
	}
	waits, runs, rests, ended, early := offline("a-waits"), offline("b-runs"), offline("c-rests"), offline("d-ended"), offline("e-early")
	ended.Ended = true
	n.Take(snapshot(waits, runs, rests, ended, plainPod("online")))
	for _, p := range []*cluster.Pod{runs, rests, ended} {
		start(t, n, p)
	}
	handle(t, n, event(nri.Stop, rests))
	handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(early)})
	if _, err := n.Handle(event(nri.Create, early), true); err != nil { // the runtime can wait no longer
		t.Fatal(err)
	}
	present, work := n.Here()
	group := func(uid string) string { return "kubepods/pod" + uid }
	want := []observed.Pod{
		{Name: "ns/a-waits", UID: "a-waits"},
		{Name: "ns/b-runs", UID: "b-runs", Group: group("b-runs"), Here: true},
		{Name: "ns/c-rests", UID: "c-rests", Group: group("c-rests"), Here: true},
		{Name: "ns/d-ended", UID: "d-ended", Group: group("d-ended")},
		{Name: "ns/e-early", UID: "e-early", Group: group("e-early"), Here: true},
	}
	if diff := cmp.Diff(want, work); diff != "" {
		t.Errorf("offline work (-want +got):\n%s", diff)
	}
	if len(present) != 2 || present[0].Name != "ns/b-runs/main" || present[1].Name != "ns/c-rests/main" || present[1].Whole() != group("c-rests") || present[1].ID+present[1].Group != "" {
		t.Errorf("present %+v", present)
	}
	if again, _ := n.Here(); &again[0] != &present[0] {
		t.Error("another list although nothing changed")
	}
	if got := n.Containers(); len(got) != 1 || got[0].Name != "ns/b-runs/main" {
		t.Errorf("running %+v", got)
	}
}
