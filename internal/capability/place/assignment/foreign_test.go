package assignment_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// recorded returns an event about a container with CPUs on the runtime's record.
func recorded(kind nri.Kind, p *cluster.Pod, cpus string) nri.Event {
	e := event(kind, p)
	e.Container.Resources.CPUs = set(cpus)
	if kind != nri.Create {
		e.Container.State = nri.Running
	}
	return e
}

// restarted returns an agent that finds running containers. Their CPUs, by pod UID, are on record and in effect, and
// the journal is empty.
func restarted(t *testing.T, answers map[string]inventory.Answered, has map[string]string, pods ...*cluster.Pod) *node {
	t.Helper()
	h := standing{}
	sync := nri.Event{Kind: nri.Synchronize}
	for _, p := range pods {
		e := recorded(nri.PostStart, p, has[p.UID])
		sync.Pods, sync.Containers = append(sync.Pods, e.Pod), append(sync.Containers, e.Container)
		h[e.Container.CgroupPath] = e.Container.Resources.CPUs
	}
	n := newNode(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.Inventory.Containers().Recall(answers)
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	n.Take(snapshot(pods...))
	handle(t, n, sync)
	return n
}

// standing is a host on which these groups have these CPUs, and all other groups have all CPUs.
type standing map[string]cpuset.Set

func (s standing) EffectiveCPUs(group string) cpuset.Set {
	if cpus := s[group]; !cpus.IsEmpty() {
		return cpus
	}
	return set("0-7")
}

func (standing) EffectiveMems(string) cpuset.Set { return cpuset.Set{} }

func (standing) Journaled(string) (plan.Owner, cpuset.Set) { return "", cpuset.Set{} }

func (s standing) OriginalCPUs(group string) cpuset.Set { return s.EffectiveCPUs(group) }

func (standing) OriginalLimit(string) unit.CPUs { return 0 }

func (standing) HasProcesses(string) bool { return false }

// Where another program owns CPU sets, the agent does not answer an update of the kubelet. The answer would replace the
// kubelet's exclusive set.
func TestObstacleAnswersNoUpdate(t *testing.T) {
	koordlet, dra := plainPod("koordlet"), plainPod("dra")
	koordlet.Namespace, koordlet.Containers[0].Name = "koordinator-system", "koordlet"
	dra.Namespace, dra.Labels = "kube-system", map[string]string{"app": "dracpu"}
	for name, c := range map[string]struct {
		kubelet observed.Obstacle
		peer    *cluster.Pod
	}{
		"static policy":   {kubelet: observed.Obstacle{Reason: "KubeletCPUManager", Message: "m"}},
		"unknown kubelet": {kubelet: observed.Obstacle{Reason: observed.KubeletUnknown, Message: "m"}},
		"koordlet":        {peer: koordlet},
		"DRA driver":      {peer: dra},
	} {
		t.Run(name, func(t *testing.T) {
			p := plainPod("p")
			n := restarted(t, nil, map[string]string{"p": "2-3"}, p)
			n.Kubelet(c.kubelet, "")
			if c.peer != nil {
				n.Take(snapshot(p, c.peer))
			}
			if a := handle(t, n, recorded(nri.Update, p, "2-3")); len(a.Reply.Updates)+len(a.Changes) > 0 {
				t.Errorf("answer %+v", a)
			}
		})
	}
}

// system moves a pod to namespace kube-system.
func system(p *cluster.Pod) *cluster.Pod { return elsewhere(p, "kube-system") }

// elsewhere moves a pod to another namespace.
func elsewhere(p *cluster.Pod, namespace string) *cluster.Pod {
	p.Namespace, p.Key, p.Object.Namespace = namespace, namespace+"/"+p.Name, namespace
	return p
}

// Two pods of kube-system and one of another namespace have recorded CPUs that Berth did not assign. This shows another
// owner: Berth widens nothing, pins no pod, and reports the reason.
func TestForeignRecord(t *testing.T) {
	theirs, pinned := plainPod("theirs"), pinnedPod("pinned", "2-3")
	also, more := system(plainPod("also")), system(plainPod("more"))
	n := restarted(t, nil, map[string]string{"theirs": "0-3", "also": "4", "more": "4"}, theirs, also, more)
	if o := n.Obstacle(); o.Reason != observed.ForeignCPUSet || o.Suspends() {
		t.Errorf("obstacle %+v", o)
	}
	n.Take(snapshot(theirs, also, more, pinned))
	if a := start(t, n, pinned); a.Reply.Adjust != (nri.Settings{}) || len(a.Reply.Updates) > 0 {
		t.Errorf("CPU sets are set: %+v", a.Reply)
	}
	if a := handle(t, n, recorded(nri.Update, theirs, "0-3")); len(a.Reply.Updates) > 0 {
		t.Errorf("widened by an answer: %+v", a.Reply)
	}
	if all, pods := n.Desired(nil); len(all)+len(pods) > 0 {
		t.Errorf("desired %+v, of pods %+v", all, pods)
	}
	handle(t, n, nri.Event{Kind: nri.Remove, Container: nri.Container{ID: "c-theirs"}})
	if o := n.Obstacle(); o != (observed.Obstacle{}) {
		t.Errorf("obstacle %+v when it is gone", o)
	}
}

// A tenant with CPU sets in two namespaces keeps no other pod from its CPUs, whatever its annotations cause.
func TestForeignRecordsOfATenant(t *testing.T) {
	stage, live, pinned := elsewhere(plainPod("stage"), "shop-stage"), elsewhere(plainPod("live"), "shop-live"), pinnedPod("pinned", "2-3")
	n := restarted(t, nil, map[string]string{"stage": "0-3", "live": "4"}, stage, live)
	if o := n.Obstacle(); o != (observed.Obstacle{}) {
		t.Errorf("obstacle %+v", o)
	}
	n.Take(snapshot(stage, live, pinned))
	if a := start(t, n, pinned); a.Reply.Adjust.CPUs != set("2-3") {
		t.Errorf("another pod gets %+v", a.Reply.Adjust)
	}
}

// Lists of one pod in kube-system, on any number of its containers, and of a tenant keep no other pod from its CPUs.
// Lists of a second pod in kube-system show another owner.
func TestForeignRecordsOfAnOperatorAndATenant(t *testing.T) {
	operator, tenant, pinned := system(plainPod("operator")), plainPod("tenant"), pinnedPod("pinned", "2-3")
	second, hollow := recorded(nri.PostStart, operator, "5"), system(plainPod("hollow"))
	second.Container.ID, second.Container.Name, second.Container.CgroupPath = "c-second", "second", "kubepods/podoperator/second"
	n := restarted(t, nil, map[string]string{"operator": "4", "tenant": "0-3"}, operator, tenant)
	handle(t, n, second)
	if o := n.Obstacle(); o != (observed.Obstacle{}) {
		t.Errorf("obstacle %+v", o)
	}
	n.Take(snapshot(operator, tenant, hollow, pinned))
	if a := start(t, n, pinned); a.Reply.Adjust.CPUs != set("2-3") {
		t.Errorf("another pod gets %+v", a.Reply.Adjust)
	}
	handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(hollow)})
	handle(t, n, recorded(nri.Create, hollow, "4"))
	if o := n.Obstacle(); o.Reason != observed.ForeignCPUSet {
		t.Errorf("obstacle %+v with two of kube-system", o)
	}
}

// CPUs that Berth did not assign, of one container or one namespace, are left to whoever set them. The pod gets no
// exclusive CPUs and no answer, and other pods are pinned. In the shared pool it loses only their CPUs. It is pinned
// again once it runs on all CPUs.
func TestOneForeignRecord(t *testing.T) {
	h := standing{}
	n := newNode(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	handle(t, n, nri.Event{Kind: nri.Synchronize})
	theirs, pinned := pinnedPod("theirs", "4-5"), pinnedPod("pinned", "2-3")
	n.Take(snapshot(theirs))
	start(t, n, theirs)
	has := func(cpus string) {
		h["kubepods/podtheirs/c"] = set(cpus)
		handle(t, n, recorded(nri.PostUpdate, theirs, cpus))
	}
	desired := func() (d place.Desired) {
		all, _ := n.Desired(nil)
		for _, one := range all {
			if one.ContainerID == "c-theirs" {
				d = one
			}
		}
		return d
	}
	if d := desired(); !d.Pinned || d.CPUs != set("4-5") {
		t.Fatalf("desired %+v", d)
	}
	n.Events()
	has("0-3")
	if o := n.Obstacle(); o != (observed.Obstacle{}) {
		t.Errorf("obstacle %+v", o)
	}
	n.Take(snapshot(theirs, pinned))
	a := start(t, n, pinned)
	if a.Reply.Adjust.CPUs != set("2-3") {
		t.Errorf("another pod gets %+v", a.Reply.Adjust)
	}
	for _, u := range a.Reply.Updates {
		if u.ContainerID == "c-theirs" {
			t.Errorf("the runtime is answered %+v for it", u)
		}
	}
	if d := desired(); d.Pinned || d.Made || d.CPUs != set("0-1") {
		t.Errorf("desired %+v", d)
	}
	for _, u := range handle(t, n, recorded(nri.Update, theirs, "0-3")).Reply.Updates {
		if u.ContainerID == "c-theirs" {
			t.Errorf("an update of it is answered: %+v", u)
		}
	}
	if events := n.Events(); !slices.ContainsFunc(events, func(e place.Event) bool {
		return e.PodUID == "theirs" && strings.Contains(e.Text, "which Berth did not give it")
	}) {
		t.Errorf("events %+v", events)
	}
	has("0-7")
	if d := desired(); !d.Pinned {
		t.Errorf("on all CPUs again: desired %+v", d)
	}
}

// Narrowing another owner's set puts it in the journal. That does not make the set Berth's.
func TestNarrowedForeignRecord(t *testing.T) {
	h := journaledHost{set("0-3")}
	n := newNode(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	theirs := plainPod("theirs")
	n.Take(snapshot(theirs))
	running := recorded(nri.PostStart, theirs, "0-3")
	handle(t, n, nri.Event{Kind: nri.Synchronize, Pods: []nri.Pod{running.Pod}, Containers: []nri.Container{running.Container}})
	if a := n.Inventory.Containers().Answers(); len(a) > 0 {
		t.Errorf("counts as answered: %+v", a)
	}
}

// journaledHost has all groups in the journal, with 0-1 in effect.
type journaledHost struct{ original cpuset.Set }

func (journaledHost) EffectiveCPUs(group string) cpuset.Set {
	if group == "" {
		return set("0-7")
	}
	return set("0-1")
}

func (journaledHost) EffectiveMems(string) cpuset.Set { return cpuset.Set{} }

func (journaledHost) Journaled(string) (plan.Owner, cpuset.Set) { return plan.OwnerPool, cpuset.Set{} }

func (h journaledHost) OriginalCPUs(string) cpuset.Set { return h.original }

func (journaledHost) OriginalLimit(string) unit.CPUs { return 0 }

func (journaledHost) HasProcesses(string) bool { return false }

// A record that restricts no container shows no owner. It is also not Berth's to widen.
func TestRecordOutOfForce(t *testing.T) {
	for _, cpus := range []string{"0-3", "0-7"} {
		p := plainPod("p")
		n := newNode(standing{}, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
		n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
		n.Take(snapshot(p))
		running := recorded(nri.PostStart, p, cpus)
		handle(t, n, nri.Event{Kind: nri.Synchronize, Pods: []nri.Pod{running.Pod}, Containers: []nri.Container{running.Container}})
		if o := n.Obstacle(); o != (observed.Obstacle{}) {
			t.Errorf("record %s: obstacle %+v", cpus, o)
		}
		if a := handle(t, n, recorded(nri.Update, p, cpus)); len(a.Reply.Updates) > 0 {
			t.Errorf("record %s: answer %+v", cpus, a.Reply)
		}
	}
}

// The agent recognizes its answers after it was killed before it journaled them.
func TestAnswersOutliveTheAgent(t *testing.T) {
	n := open(t)
	pinned, other := pinnedPod("pinned", "2-3"), plainPod("other")
	n.Take(snapshot(pinned))
	start(t, n, pinned)
	n.Take(snapshot(pinned, other))
	start(t, n, other) // in the shared pool
	file, err := json.Marshal(n.Inventory.Containers().Answers())
	if err != nil {
		t.Fatal(err)
	}
	var answers map[string]inventory.Answered
	if err := json.Unmarshal(file, &answers); err != nil {
		t.Fatal(err)
	}

	n = restarted(t, answers, map[string]string{"pinned": "2-3", "other": "0-1,4-7"}, pinned, other)
	if o := n.Obstacle(); o != (observed.Obstacle{}) {
		t.Fatalf("obstacle %+v", o)
	}
	made := map[string]string{}
	all, _ := n.Desired(nil)
	for _, w := range all {
		if w.Made {
			made[w.PodUID] = w.CPUs.String()
		}
	}
	if made["pinned"] != "2-3" || made["other"] != "0-1,4-7" {
		t.Errorf("made as Berth answered: %v", made)
	}

	n = restarted(t, answers, map[string]string{"other": "0-1,4-7"}, other)
	a := handle(t, n, recorded(nri.Update, other, "0-1,4-7"))
	if len(a.Reply.Updates) != 1 || a.Reply.Updates[0].CPUs != set("0-7") {
		t.Errorf("what Berth narrowed and no pod needs any more: %+v", a.Reply)
	}
	if e := recorded(nri.PostUpdate, other, "0-7"); len(handle(t, n, e).Reply.Updates) > 0 || n.Obstacle() != (observed.Obstacle{}) {
		t.Errorf("obstacle %+v", n.Obstacle())
	}
	if all, _ := n.Desired(nil); len(all) != 1 || all[0].CPUs != set("0-7") || !all[0].Made {
		t.Errorf("desired %+v", all)
	}

	handle(t, n, nri.Event{Kind: nri.StopPod, Pod: sandbox(other)})
	handle(t, n, nri.Event{Kind: nri.RemovePod, Pod: sandbox(other)})
	handle(t, n, nri.Event{Kind: nri.Synchronize})
	if left := n.Inventory.Containers().Answers(); len(left) > 0 {
		t.Errorf("answers %v of pods that are gone", left)
	}
}

// A plugin asked before Berth, the kubelet or the runtime shows its settings in the container to be created, with every
// version of NRI. Berth must not set the same fields: two plugins that do prevent the creation.
func TestForeignSetInCreate(t *testing.T) {
	for name, resources := range map[string]nri.Resources{
		"CPUs": {CPUs: set("4-5")}, "memory nodes": {Mems: set("0")},
	} {
		t.Run(name, func(t *testing.T) {
			n := open(t)
			p := pinnedPod("p", "2-3")
			n.Take(snapshot(p))
			handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(p)})
			e := event(nri.Create, p)
			e.Container.Resources = resources
			if a := handle(t, n, e); a.Reply.Adjust != (nri.Settings{}) || len(a.Reply.Updates) > 0 {
				t.Errorf("answer %+v", a.Reply)
			}
			if o := n.Obstacle(); o != (observed.Obstacle{}) {
				t.Errorf("obstacle %+v", o)
			}
			known := []*cluster.Pod{p}
			for _, other := range []*cluster.Pod{system(pinnedPod("q", "4-5")), system(pinnedPod("r", "6-7"))} {
				known = append(known, other)
				n.Take(snapshot(known...))
				e = event(nri.Create, other)
				e.Container.Resources = resources
				handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(other)})
				if a := handle(t, n, e); a.Reply.Adjust != (nri.Settings{}) || len(a.Reply.Updates) > 0 {
					t.Errorf("answer %+v of another namespace", a.Reply)
				}
			}
			if o := n.Obstacle(); o.Reason != observed.ForeignCPUSet {
				t.Errorf("obstacle %+v", o)
			}
		})
	}
}

// When a plugin asked after Berth sets the same CPUs, the runtime fails each creation, and NRI tells neither plugin.
// Berth therefore leaves the next try to the other plugin, and so learns whether there is one.
func TestForeignSetAfterBerth(t *testing.T) {
	for name, c := range map[string]struct {
		made string
		own  bool
	}{
		"the other plugin sets CPUs": {made: "4-5"},
		"there is no other plugin":   {own: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := open(t)
			p := pinnedPod("p", "2-3")
			n.Take(snapshot(p))
			handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(p)})
			try := func(id string) nri.Settings {
				e := event(nri.Create, p)
				e.Container.ID = id
				return handle(t, n, e).Reply.Adjust
			}
			if got := try("first"); got.CPUs != set("2-3") {
				t.Fatalf("first try: %+v", got)
			}
			for _, kind := range []nri.Kind{nri.Stop, nri.Remove} { // as containerd does after a failure
				e := event(kind, p)
				e.Container.ID = "first"
				handle(t, n, e)
			}
			if got := try("second"); got != (nri.Settings{}) {
				t.Errorf("second try: %+v", got)
			}
			made := recorded(nri.PostCreate, p, c.made)
			made.Container.ID = "second"
			handle(t, n, made)
			if o := n.Obstacle(); o != (observed.Obstacle{}) {
				t.Errorf("obstacle %+v", o)
			}
			all, _ := n.Desired(nil)
			if found := len(all) > 0; found != c.own {
				t.Errorf("desired %+v", all)
			}
			if got := try("third"); (got.CPUs == set("2-3")) != c.own {
				t.Errorf("third try: %+v", got)
			}
		})
	}
}

// A container created with or updated to CPUs that Berth did not answer has another owner. A container changed by a
// later answer of Berth has not.
func TestForeignSetInEvents(t *testing.T) {
	for name, c := range map[string]struct {
		kind      nri.Kind
		cpus      string
		requested string
		silent    bool
		reason    string
	}{
		"made as answered":         {kind: nri.PostCreate, cpus: "0-1,4-7"},
		"made as answered later":   {kind: nri.PostCreate, cpus: "0-1,6-7"},
		"the runtime does not say": {kind: nri.PostCreate},
		"made otherwise":           {kind: nri.PostCreate, cpus: "4", reason: observed.ForeignCPUSet},
		"started otherwise":        {kind: nri.Start, cpus: "4", reason: observed.ForeignCPUSet},
		"updated otherwise":        {kind: nri.PostUpdate, cpus: "4", reason: observed.ForeignCPUSet},
		"asked to be updated":      {kind: nri.Update, cpus: "0-1,4-7", requested: "5", silent: true},
		"resized":                  {kind: nri.Update, cpus: "0-1,4-7"},
	} {
		t.Run(name, func(t *testing.T) {
			h := standing{"kubepods/podother/c": set(c.cpus), "kubepods/podwitness/c": set("1"), "kubepods/podsecond witness/c": set("1")}
			n := newNode(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
			n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
			a, b := recorded(nri.PostStart, system(plainPod("witness")), "1"), recorded(nri.PostStart, system(plainPod("second witness")), "1")
			handle(t, n, nri.Event{Kind: nri.Synchronize, Pods: []nri.Pod{a.Pod, b.Pod}, Containers: []nri.Container{a.Container, b.Container}})
			first, second, other := pinnedPod("first", "2-3"), pinnedPod("second", "4-5"), plainPod("other")
			n.Take(snapshot(first, other))
			start(t, n, first)
			handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(other)})
			if a := handle(t, n, event(nri.Create, other)); a.Reply.Adjust.CPUs != set("0-1,4-7") {
				t.Fatalf("answer %+v", a.Reply)
			}
			n.Take(snapshot(first, second, other))
			start(t, n, second) // and narrows other again
			e := recorded(c.kind, other, c.cpus)
			e.Requested.CPUs = set(c.requested)
			updates := handle(t, n, e).Reply.Updates
			if o := n.Obstacle(); o.Reason != c.reason {
				t.Errorf("obstacle %+v, want %q", o, c.reason)
			}
			if silent := len(updates) == 0; c.kind == nri.Update && silent != c.silent {
				t.Errorf("answer %+v", updates)
			}
		})
	}
}

// The runtime does not apply a reply that came too late. The next try gets the same answer as the first.
func TestDroppedAnswerIsNoConflict(t *testing.T) {
	n := open(t)
	p := pinnedPod("p", "2-3")
	n.Take(snapshot(p))
	handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(p)})
	for range 3 {
		e := event(nri.Create, p)
		if a := handle(t, n, e); a.Reply.Adjust.CPUs != set("2-3") {
			t.Fatalf("answer %+v", a.Reply)
		}
		handle(t, n, nri.Event{Kind: nri.Dropped, Lost: nri.Create, Pod: e.Pod, Container: e.Container})
	}
}

// While the kubelet sets CPU sets, every container has one. After it stops, sets that restrict containers are an
// obstacle until they are widened or gone.
func TestKubeletLeavesItsSets(t *testing.T) {
	pods := []*cluster.Pod{plainPod("p"), system(plainPod("q")), system(plainPod("r"))}
	h := standing{}
	n := newNode(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	handle(t, n, nri.Event{Kind: nri.Synchronize})
	n.Take(snapshot(pods...))
	n.Kubelet(observed.Obstacle{Reason: "KubeletCPUManager", Message: "m"}, "")
	has := func(kind nri.Kind, cpus string) {
		for _, p := range pods {
			h["kubepods/pod"+p.UID+"/c"] = set(cpus)
			handle(t, n, recorded(kind, p, cpus))
		}
	}
	for _, p := range pods {
		handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(p)})
	}
	for _, kind := range []nri.Kind{nri.Create, nri.PostCreate, nri.Start} {
		has(kind, "0-3")
	}
	n.Kubelet(observed.Obstacle{}, "")
	if o := n.Obstacle(); o.Reason != observed.ForeignCPUSet {
		t.Errorf("on 0-3: obstacle %+v", o)
	}
	has(nri.PostUpdate, "0-7")
	if o := n.Obstacle(); o != (observed.Obstacle{}) {
		t.Errorf("on all: obstacle %+v", o)
	}
}

// Without known answers, for example after a partial loss of the state directory, the journal tells which sets are
// Berth's.
func TestJournalKnowsWhatIsBerths(t *testing.T) {
	p := pinnedPod("p", "6-7")
	h := host{map[string]cpuset.Set{"kubepods/podp/c": set("6-7")}}
	n := newNode(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	n.Take(snapshot(p))
	running := recorded(nri.PostStart, p, "6-7")
	handle(t, n, nri.Event{Kind: nri.Synchronize, Pods: []nri.Pod{running.Pod}, Containers: []nri.Container{running.Container}})
	if o := n.Obstacle(); o != (observed.Obstacle{}) {
		t.Errorf("obstacle %+v", o)
	}
	if a := n.Inventory.Containers().Answers()["c-p"]; len(a.CPUs) != 1 || a.CPUs[0] != set("6-7") {
		t.Errorf("answers %+v", n.Inventory.Containers().Answers())
	}
}

// A list over CRI has no recorded CPU sets. The agent keeps what events said before: another owner's set until its
// container is gone, and Berth's own sets.
func TestListWithoutRecords(t *testing.T) {
	list := func(pods ...*cluster.Pod) nri.Event {
		e := nri.Event{Kind: nri.Synchronize}
		for _, p := range pods {
			c := event(nri.PostStart, p).Container
			c.State, c.Resources, c.Unrecorded = nri.Running, nri.Resources{}, true
			e.Pods, e.Containers = append(e.Pods, sandbox(p)), append(e.Containers, c)
		}
		return e
	}
	t.Run("another owner's", func(t *testing.T) {
		theirs, pinned := plainPod("theirs"), pinnedPod("pinned", "2-3")
		also, more := system(plainPod("also")), system(plainPod("more"))
		n := restarted(t, nil, map[string]string{"theirs": "0-3", "also": "4", "more": "4"}, theirs, also, more)
		for range 2 {
			handle(t, n, list(theirs, also, more))
			if o := n.Obstacle(); o.Reason != observed.ForeignCPUSet {
				t.Fatalf("obstacle %+v after a list", o)
			}
		}
		n.Take(snapshot(theirs, also, more, pinned))
		if a := start(t, n, pinned); a.Reply.Adjust != (nri.Settings{}) || len(a.Reply.Updates) > 0 {
			t.Errorf("CPU sets are set: %+v", a.Reply)
		}
		handle(t, n, list(pinned))
		if o := n.Obstacle(); o != (observed.Obstacle{}) {
			t.Errorf("obstacle %+v when it is gone", o)
		}
	})
	t.Run("Berth's own", func(t *testing.T) {
		other := plainPod("other")
		answers := map[string]inventory.Answered{"c-other": {Pod: "other", CPUs: []cpuset.Set{set("0-1,4-7")}}}
		n := restarted(t, answers, map[string]string{"other": "0-1,4-7"}, other)
		for range 2 {
			if all, _ := n.Desired(nil); len(all) != 1 || !all[0].Made || all[0].CPUs != set("0-7") {
				t.Fatalf("desired %+v", all)
			}
			handle(t, n, list(other))
		}
	})
}
