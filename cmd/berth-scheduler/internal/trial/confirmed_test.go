package trial

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-project/berth/cmd/berth-scheduler/internal/memapi"
)

// gate is a plugin whose Reserve runs before Berth's. It calls a function after the scheduler assumed a pod and before
// Berth reserves CPUs for it.
type gate struct{ assumed func(fwk.Handle, *v1.Pod) }

type gatePlugin struct {
	gate   *gate
	handle fwk.Handle
}

func (g *gate) new(_ context.Context, _ apiruntime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return &gatePlugin{gate: g, handle: h}, nil
}

func (*gatePlugin) Name() string { return "Gate" }

func (g *gatePlugin) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	g.gate.assumed(g.handle, pod)
	return nil
}

func (*gatePlugin) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) {}

// behind starts a scheduler with Berth in which the gate's Reserve runs first.
func (c *cluster) behind(g *gate) {
	c.Helper()
	cfg, all := configFrom(c, berthConfig), registry()
	all["Gate"] = g.new
	enabled := &cfg.Profiles[0].Plugins.MultiPoint.Enabled
	*enabled = append([]config.Plugin{{Name: "Gate"}}, *enabled...)
	c.schedule(cfg, all)
}

// TestConfirmedBetweenAssumeAndReserve covers an ambiguous bind that took effect. The scheduler learns this only after
// it assumed the pod a second time, for other CPUs. The pod keeps its first CPUs: another pod that arrives before the
// second binding fails gets none of them.
func TestConfirmedBetweenAssumeAndReserve(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	second, ended := make(chan struct{}), make(chan struct{})
	defer close(ended)
	var calls, tries atomic.Int32
	c.behind(&gate{assumed: func(h fwk.Handle, pod *v1.Pod) {
		if pod.Name != "a" || tries.Add(1) != 2 {
			return
		}
		c.api.Mute(podPath, false)
		c.until("the informer shows the first binding", func() bool {
			shown, err := h.SharedInformerFactory().Core().V1().Pods().Lister().Pods("default").Get("a")
			return err == nil && shown.Spec.NodeName != ""
		})
		time.Sleep(200 * time.Millisecond) // By now Berth's handler has seen the binding.
		close(second)
	}})
	c.api.FailBinds(func(_, pod string) memapi.Fault {
		if pod != "a" {
			return memapi.None
		}
		if calls.Add(1) > 1 {
			<-ended // Delay the answer to the second binding.
			return memapi.None
		}
		c.remove("z")                      // Berth's second choice is other CPUs,
		time.Sleep(200 * time.Millisecond) // once the scheduler has seen this removal.
		c.api.Mute(podPath, true)
		return memapi.LostAfter
	})
	c.create(pinned("z", 4, 4))
	c.bound("z")
	c.create(pinned("a", 4, 4))
	<-second
	c.create(pinned("b", 18, 18))
	c.bound("b")
	c.audit()
}
