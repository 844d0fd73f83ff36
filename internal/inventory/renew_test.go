package inventory_test

import (
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/workload"
)

// nodes is a host on which all groups have these memory nodes.
type nodes struct {
	host

	mems cpuset.Set
}

func (n nodes) EffectiveMems(string) cpuset.Set { return n.mems }

// A container that is in the shared pool again has the memory nodes from before Berth: the runtime's record of those
// that it was made with follows, once it has them.
func TestRenewInThePool(t *testing.T) {
	for has, want := range map[string]string{"0-1": "0-1", "0": "", "1": "", "": ""} {
		n := inventory.New(nodes{host{map[string]cpuset.Set{}}, set(has)}, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
		n.Recall(map[string]inventory.Answered{"c-web": {Pod: "web", Mems: []cpuset.Set{set("0")}}})
		n.Facts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef", AllocatableMilli: 8000})
		app, web := pinnedPod("app", "0-1"), plainPod("web")
		n.Take(snapshot(app, web))
		handle(t, n, nri.Event{Kind: nri.Synchronize, Pods: []nri.Pod{sandbox(web)}})
		start(t, n, web)
		start(t, n, app)
		n.Saw(only("kubepods/podweb/c", "2-7"))
		desired, _ := n.Desired(nil)
		var a inventory.Answer
		inventory.Renew(n, &a, event(nri.Create, plainPod("new")), desired)
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
