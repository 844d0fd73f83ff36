package assignment_test

import (
	"slices"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/assignment"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// nodes is a host on which all groups have these memory nodes.
type nodes struct {
	host

	mems cpuset.Set
}

func (n nodes) EffectiveMems(string) cpuset.Set { return n.mems }

// A container that returned to the shared pool has its original memory nodes. The runtime's record follows once they
// are in effect.
func TestRenewInThePool(t *testing.T) {
	for has, want := range map[string]string{"0-1": "0-1", "0": "", "1": "", "": ""} {
		n := newNode(nodes{host{map[string]cpuset.Set{}}, set(has)}, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
		n.Inventory.Containers().Recall(map[string]inventory.Answered{"c-web": {Pod: "web", Mems: []cpuset.Set{set("0")}}})
		n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef", AllocatableMilli: 8000})
		app, web := pinnedPod("app", "0-1"), plainPod("web")
		n.Take(snapshot(app, web))
		handle(t, n, nri.Event{Kind: nri.Synchronize, Pods: []nri.Pod{sandbox(web)}})
		start(t, n, web)
		start(t, n, app)
		n.Saw(only("kubepods/podweb/c", "2-7"))
		desired, _ := n.Desired(nil)
		var a assignment.Answer
		n.Renew(&a, event(nri.Create, plainPod("new")), desired)
		got := ""
		for _, u := range a.Reply.Updates {
			if u.ContainerID == "c-web" {
				got = u.Mems.String()
			}
		}
		if got != want || len(a.Reply.Updates) != len(a.Changes) {
			t.Errorf("of a container with memory nodes %q: %+v, want %q", has, a, want)
		}
	}
}

// An answer for a running container has the memory nodes of its group, and the next pass changes them. A new container
// gets its own memory nodes at once.
func TestAnswersChangeNoMemoryNodes(t *testing.T) {
	for has, want := range map[string]string{"1": "1", "0-1": "0-1", "0": "0", "": "0"} {
		n := newNode(nodes{host{map[string]cpuset.Set{}}, set(has)}, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
		n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef", AllocatableMilli: 8000})
		handle(t, n, nri.Event{Kind: nri.Synchronize})
		app := pinnedPod("app", "2-3")
		n.Take(snapshot(app))
		if made := start(t, n, app).Reply.Adjust.Mems; made != set("0") {
			t.Errorf("it is made with %s", made)
		}
		a := handle(t, n, event(nri.Update, app))
		at := slices.IndexFunc(a.Reply.Updates, func(u nri.Change) bool { return u.ContainerID == "c-app" })
		if at < 0 {
			t.Fatalf("of a container with memory nodes %q: %+v", has, a.Reply.Updates)
		}
		if got := a.Reply.Updates[at].Settings; got.Mems != set(want) || got.CPUs != set("2-3") {
			t.Errorf("of a container with memory nodes %q: %+v, want %s", has, got, want)
		}
		at = slices.IndexFunc(a.Changes, func(d place.Desired) bool { return d.ContainerID == "c-app" })
		if at < 0 || a.Changes[at].Mems != set(want) {
			t.Errorf("of a container with memory nodes %q the journal gets %+v", has, a.Changes)
		}
		all, _ := n.Desired(nil)
		at = slices.IndexFunc(all, func(d place.Desired) bool { return d.ContainerID == "c-app" })
		if at < 0 || all[at].Mems != set("0") {
			t.Errorf("of a container with memory nodes %q the next pass is told %+v", has, all)
		}
	}
}

// The answer when a container was made decides its memory nodes also for the next agent. Later answers only repeat the
// nodes that the container has, and an answer with other CPUs ends the first one.
func TestMadeForTheNextAgent(t *testing.T) {
	for name, c := range map[string]struct {
		has, answered string // memory nodes of the group, and CPUs of a later answer
		created       bool
		want          string
	}{
		"as it was made":           {"0", "", true, "0"},
		"wider":                    {"0-1", "", true, "0"},
		"not known yet":            {"", "", true, "0"},
		"answered again":           {"0", "2-3", true, "0"},
		"narrower or moved":        {"1", "", true, ""},
		"other CPUs since":         {"0", "4-5", true, ""},
		"not made by an answer":    {"0", "2-3", false, ""},
		"never answered, but wide": {"0-1", "", false, ""},
	} {
		n := newNode(nodes{host{map[string]cpuset.Set{}}, set(c.has)}, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
		n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef", AllocatableMilli: 8000})
		handle(t, n, nri.Event{Kind: nri.Synchronize})
		app := pinnedPod("app", "2-3")
		n.Take(snapshot(app))
		handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(app)})
		if c.created {
			handle(t, n, event(nri.Create, app))
		}
		handle(t, n, event(nri.Start, app))
		if one, _ := n.Inventory.Containers().Of("c-app"); one.Made != nil {
			t.Errorf("%s: the agent that answered finds %+v", name, one.Made)
		}
		if c.answered != "" {
			n.Inventory.Containers().Remember("c-app", nri.Settings{CPUs: set(c.answered), Mems: set(c.has)})
		}
		next := newNode(nodes{host{map[string]cpuset.Set{}}, set(c.has)}, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
		next.Inventory.Containers().Recall(n.Inventory.Containers().Answers())
		e := event(nri.Start, app)
		handle(t, next, nri.Event{Kind: nri.Synchronize, Pods: []nri.Pod{e.Pod}, Containers: []nri.Container{e.Container}})
		one, _ := next.Inventory.Containers().Of("c-app")
		handle(t, next, e)
		if again, _ := next.Inventory.Containers().Of("c-app"); again.Made != one.Made {
			t.Errorf("%s: at its start %+v becomes %+v", name, one.Made, again.Made)
		}
		got := ""
		if one.Made != nil {
			got = one.Made.Mems.String()
			if one.Made.CPUs != set("2-3") {
				t.Errorf("%s: made with CPUs %s", name, one.Made.CPUs)
			}
		}
		if got != c.want {
			t.Errorf("%s: made with memory nodes %q, want %q", name, got, c.want)
		}
	}
}
