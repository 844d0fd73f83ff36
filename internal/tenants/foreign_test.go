package tenants_test

import (
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/arbiter"
	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/tenants"
	"github.com/berth-project/berth/internal/workload"
)

// recorded is an event about a container that the runtime has CPUs on record for.
func recorded(kind nri.Kind, p *cluster.Pod, cpus string) nri.Event {
	e := event(kind, p)
	e.Container.Resources.CPUs = set(cpus)
	if kind != nri.Create {
		e.Container.State = nri.Running
	}
	return e
}

// restarted is an agent that finds pods whose containers run, with these CPUs on record
// and in effect by UID. Nothing is in the journal.
func restarted(t *testing.T, has map[string]string, pods ...*cluster.Pod) *tenants.Tenants {
	t.Helper()
	h := standing{}
	sync := nri.Event{Kind: nri.Synchronize}
	for _, p := range pods {
		e := recorded(nri.PostStart, p, has[p.UID])
		sync.Pods, sync.Containers = append(sync.Pods, e.Pod), append(sync.Containers, e.Container)
		h[e.Container.CgroupPath] = e.Container.Resources.CPUs
	}
	n := tenants.New(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.Facts(arbiter.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	n.Take(snapshot(pods...))
	handle(t, n, sync)
	return n
}

// standing is a host on which these groups have these CPUs, and all others all.
type standing map[string]cpuset.Set

func (s standing) EffectiveCPUs(group string) cpuset.Set {
	if cpus := s[group]; !cpus.IsEmpty() {
		return cpus
	}
	return set("0-7")
}

func (standing) Journaled(string) (set, pinned bool) { return false, false }

// Where another one owns the CPU sets, an update that the kubelet asks for is not
// answered: the answer would replace the kubelet's exclusive set.
func TestObstacleAnswersNoUpdate(t *testing.T) {
	koordlet, dra := plainPod("koordlet"), plainPod("dra")
	koordlet.Namespace, koordlet.Containers[0].Name = "koordinator-system", "koordlet"
	dra.Namespace, dra.Labels = "kube-system", map[string]string{"app": "dracpu"}
	for name, c := range map[string]struct {
		kubelet tenants.Obstacle
		peer    *cluster.Pod
	}{
		"static policy":   {kubelet: tenants.Obstacle{Reason: "KubeletCPUManager", Message: "m"}},
		"unknown kubelet": {kubelet: tenants.Obstacle{Reason: tenants.KubeletUnknown, Message: "m"}},
		"koordlet":        {peer: koordlet},
		"DRA driver":      {peer: dra},
	} {
		t.Run(name, func(t *testing.T) {
			p := plainPod("p")
			n := restarted(t, map[string]string{"p": "2-3"}, p)
			n.Kubelet(c.kubelet)
			if c.peer != nil {
				n.Take(snapshot(p, c.peer))
			}
			if a := handle(t, n, recorded(nri.Update, p, "2-3")); len(a.Reply.Updates)+len(a.Changes) > 0 {
				t.Errorf("answer %+v", a)
			}
		})
	}
}

