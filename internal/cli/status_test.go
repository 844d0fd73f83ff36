package cli

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
)

// TestStatusOfAnEmptyHost: without workloads, the status says what to do first, and whom burst would help.
func TestStatusOfAnEmptyHost(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.write("state/checkpoint.json", `{"bootID":"`+reportBoot+`","workloads":[]}`)
	h.live()
	if got, want := h.run("status"), "next: no workload: describe one in a file in "+h.dir+"/workloads, which the agent reads at once"; !strings.Contains(got, want) {
		t.Errorf("%q is not in\n%s", want, got)
	}
	yes := true
	if got := firstStep(v1alpha1.AgentConfig{Cluster: v1alpha1.ClusterConfig{Enabled: &yes}}); !strings.Contains(got, "cpuset-scheduler") {
		t.Errorf("on a node of a cluster: %s", got)
	}
	s := status{Agent: agentStatus{Alive: true}}
	s.take(&view.View{Workloads: []view.Workload{
		{Name: "system.slice/busy.service", Throttling: &view.Throttling{Limit: 0.5, Used: 0.2, Seconds: 10, Periods: 100, Throttled: 40, BurstHelps: true}},
		{Name: "system.slice/calm.service", Throttling: &view.Throttling{Limit: 0.5, Used: 0.2, Seconds: 10, Periods: 100}},
	}})
	var b strings.Builder
	if err := s.print(&b); err != nil {
		t.Fatal(err)
	}
	for want, there := range map[string]bool{
		"system.slice/busy.service  0.5 CPUs  0.2 CPUs  40 of 100 periods in 10 s  would help": true, "calm.service": false,
	} {
		if strings.Contains(b.String(), want) != there {
			t.Errorf("%q is there: %t\n%s", want, !there, b.String())
		}
	}
}

// TestFirstStepIsForNodesWhereNobodyAsks: who has asked for CPUs, or asks a node that gives none, needs no hint to ask.
func TestFirstStepIsForNodesWhereNobodyAsks(t *testing.T) {
	t.Parallel()
	held := func(h capability.Holding) view.View {
		return view.View{Workloads: []view.Workload{{Name: "shop/web/app", CPUs: &h}}}
	}
	for name, test := range map[string]struct {
		seen view.View
		asks bool
	}{
		"empty":       {view.View{}, false},
		"shared":      {held(capability.Holding{}), false},
		"refused":     {held(capability.Holding{Refused: "the kubelet has the policy static"}), true},
		"exclusive":   {held(capability.Holding{Exclusive: true}), true},
		"status":      {view.View{Workloads: []view.Workload{{Name: "app", Status: &view.Status{}}}}, true},
		"other agent": {view.View{Obstacle: "another agent holds the Lease of this node"}, true},
	} {
		s := status{Agent: agentStatus{Alive: true}}
		s.take(&test.seen)
		if s.asked != test.asks {
			t.Errorf("%s: somebody may have asked: %t, want %t", name, s.asked, test.asks)
		}
	}
}
