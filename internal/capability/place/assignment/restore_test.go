package assignment_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// restoring is a snapshot whose berth-config says restore.
func restoring(pods ...*cluster.Pod) *cluster.Snapshot {
	s := snapshot(pods...)
	s.ConfigMaps = strategy.Maps{strategy.BerthConfig: {strategy.KeyState: strategy.StateRestore}}
	return s
}

// During a restore, nothing is desired of a pinned pod, a new pod gets no answer, and capabilities see no pods.
// Afterwards the pinned pod has the same CPUs again.
func TestRestore(t *testing.T) {
	n := open(t)
	first, next := pinnedPod("first", "2-3"), pinnedPod("next", "4-5")
	n.Take(snapshot(first))
	start(t, n, first)
	if all, _ := n.Desired(nil); len(all) == 0 || len(n.Containers()) != 1 {
		t.Fatalf("before: desired %+v", all)
	}
	n.Take(restoring(first, next))
	if o := n.Obstacle(); o.Reason != observed.Restoring || o.Suspends() || !n.Settled(true) {
		t.Errorf("obstacle %+v", o)
	}
	if a := start(t, n, next); a.Reply.Adjust != (nri.Settings{}) || len(a.Reply.Updates) > 0 {
		t.Errorf("answered %+v", a.Reply)
	}
	if all, pods := n.Desired(nil); len(all)+len(pods) > 0 {
		t.Errorf("desired %+v, of pods %+v", all, pods)
	}
	if here, offline := n.Here(); len(n.Containers())+len(here)+len(offline) > 0 {
		t.Errorf("the capabilities see %+v", here)
	}
	s := snapshot(first)
	s.ConfigMaps = strategy.Maps{strategy.BerthConfig: nil}
	n.Take(s)
	all, _ := n.Desired(nil)
	pinned := slices.DeleteFunc(all, func(d place.Desired) bool { return !d.Pinned || d.PodUID != "first" })
	if o := n.Obstacle(); o != (observed.Obstacle{}) || len(pinned) != 1 || pinned[0].CPUs != set("2-3") {
		t.Errorf("afterwards: obstacle %+v, desired %+v", o, all)
	}
}

// An agent that starts during a restore restores at once, without waiting for the runtime or the kubelet. Where another
// agent holds the node, that agent restores.
func TestRestoreAtTheStart(t *testing.T) {
	n := newNode(host{}, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	n.Kubelet(observed.Obstacle{Reason: observed.KubeletUnknown, Message: "m"}, "")
	n.Take(restoring(pinnedPod("p", "2-3")))
	if o := n.Obstacle(); o.Reason != observed.Restoring || !n.Settled(true) {
		t.Errorf("obstacle %+v", o)
	}
	s := restoring()
	s.Lease.Other = "another"
	n.Take(s)
	if o := n.Obstacle(); o.Reason != observed.OtherAgent && o.Reason != observed.Starting || n.Settled(true) {
		t.Errorf("beside another agent: %+v", o)
	}
}

// narrowing is a host on which groups have the CPUs that the runtime wrote, with an empty journal.
type narrowing struct {
	host
	cpus map[string]cpuset.Set
}

func (h narrowing) EffectiveCPUs(group string) cpuset.Set { return cpusOf(group, h.cpus) }

// narrowed returns a node on such a host.
func narrowed(t *testing.T) (*node, narrowing) {
	t.Helper()
	h := narrowing{cpus: map[string]cpuset.Set{}}
	n := newNode(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	handle(t, n, nri.Event{Kind: nri.Synchronize})
	return n, h
}

// Containers may be answered before a restore, and start before their lists are journaled. They get all CPUs, and a
// pinned one no quota, so that the values are journaled and restored. The restore is incomplete until they run.
func TestRestoreWhatNoJournalHas(t *testing.T) {
	n, h := narrowed(t)
	pinned, plain := pinnedPod("pinned", "2-3"), plainPod("plain")
	n.Take(snapshot(pinned, plain))
	for _, p := range []*cluster.Pod{pinned, plain} {
		handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(p)})
		e := event(nri.Create, p)
		h.cpus[e.Container.CgroupPath] = handle(t, n, e).Reply.Adjust.CPUs
	}
	n.Take(restoring(pinned, plain))
	if awaited, _ := inventory.Unrestored(n.Inventory); awaited == "" {
		t.Error("nothing is waited for before they run")
	}
	handle(t, n, event(nri.Start, pinned))
	handle(t, n, event(nri.Start, plain))
	all, _ := n.Desired(nil)
	if len(all) != 2 || all[0].CPUs != set("0-7") || all[1].CPUs != set("0-7") {
		t.Fatalf("desired %+v", all)
	}
	if one, other := all[0], all[1]; !one.NoQuota || one.Limit != 2 || one.Pinned || other.NoQuota {
		t.Errorf("of the pinned one %+v, of the other %+v", one, other)
	}
	if one, found := n.DesiredIn(event(nri.Start, plain).Container.CgroupPath); !found || one.CPUs != set("0-7") {
		t.Errorf("of one group %+v", one)
	}
	if awaited, doubt := inventory.Unrestored(n.Inventory); awaited+doubt != "" {
		t.Errorf("once they run: %q, %q", awaited, doubt)
	}
	n.Kubelet(observed.Obstacle{Reason: "KubeletCPUManager", Message: "m"}, "")
	if all, _ := n.Desired(nil); len(all) > 0 {
		t.Errorf("beside another owner of all sets: %+v", all)
	}
}

// Each update of the kubelet applies the runtime's recorded CPUs again. The answer replaces them, also during a
// restore.
func TestRestoreThroughAnUpdate(t *testing.T) {
	n, h := narrowed(t)
	pinned, plain := pinnedPod("pinned", "2-3"), plainPod("plain")
	n.Take(snapshot(pinned, plain))
	start(t, n, pinned)
	narrow := start(t, n, plain).Reply.Adjust.CPUs
	handle(t, n, nri.Event{Kind: nri.StopPod, Pod: sandbox(pinned)})
	n.Take(restoring(plain))
	got := handle(t, n, event(nri.Update, plain)).Reply.Updates
	if len(got) != 1 || got[0].Settings != (nri.Settings{CPUs: set("0-7")}) {
		t.Errorf("answered %+v, %s is on record", got, narrow)
	}
	e := event(nri.PostUpdate, plain) // for an update that was answered before
	e.Container.Resources.CPUs, h.cpus[e.Container.CgroupPath] = narrow, narrow
	handle(t, n, e)
	n.Saw(h.EffectiveCPUs)
	if all, _ := n.Desired(nil); len(all) != 1 || all[0].CPUs != set("0-7") {
		t.Errorf("desired %+v", all)
	}
}

// The agent cannot know that everything is restored before the runtime has listed its containers, or while the
// kubelet's part is unknown. After a minute without a runtime this becomes a doubt in its message.
func TestRestoreWaitsForTheRuntime(t *testing.T) {
	n := newNode(host{}, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	n.Now(0)
	n.Take(restoring())
	if awaited, doubt := inventory.Unrestored(n.Inventory); awaited == "" || doubt != "" {
		t.Errorf("at the start: %q, %q", awaited, doubt)
	}
	n.Now(observed.BriefFor)
	if awaited, doubt := inventory.Unrestored(n.Inventory); awaited != "" || doubt == "" {
		t.Errorf("without a runtime: %q, %q", awaited, doubt)
	}
	handle(t, n, nri.Event{Kind: nri.Synchronize})
	if awaited, doubt := inventory.Unrestored(n.Inventory); awaited+doubt != "" {
		t.Errorf("with its list: %q, %q", awaited, doubt)
	}
	n.Kubelet(observed.Obstacle{Reason: observed.KubeletUnknown, Message: "m"}, "")
	if awaited, _ := inventory.Unrestored(n.Inventory); awaited != "m" {
		t.Errorf("while the kubelet is not known: %q", awaited)
	}
}

// The restore also includes containers whose agent died between its answer and its journal. The next agent finds the
// answers.
func TestRestoreAfterADeath(t *testing.T) {
	before, h := narrowed(t)
	pinned := pinnedPod("pinned", "2-3")
	before.Take(snapshot(pinned))
	e := event(nri.PostStart, pinned)
	e.Container.Resources.CPUs, e.Container.State = start(t, before, pinned).Reply.Adjust.CPUs, nri.Running
	h.cpus[e.Container.CgroupPath] = e.Container.Resources.CPUs
	kept, err := json.Marshal(before.Inventory.Containers().Answers())
	if err != nil {
		t.Fatal(err)
	}
	var answers map[string]inventory.Answered
	if err := json.Unmarshal(kept, &answers); err != nil {
		t.Fatal(err)
	}
	n := newNode(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.Inventory.Containers().Recall(answers)
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	n.Take(restoring(pinned))
	handle(t, n, nri.Event{Kind: nri.Synchronize, Pods: []nri.Pod{sandbox(pinned)}, Containers: []nri.Container{e.Container}})
	if all, _ := n.Desired(nil); len(all) != 1 || all[0].CPUs != set("0-7") || !all[0].NoQuota {
		t.Errorf("desired %+v", all)
	}
}
