package trial

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-project/berth/internal/scheduler/schedule"
	"github.com/berth-project/berth/test/chance"
	"github.com/berth-project/berth/test/patience"
)

// byHand is a scheduler whose extension points a test runs by hand.
type byHand struct {
	*scheduler.Scheduler
	f framework.Framework
	t testing.TB
}

func (c *cluster) byHand() *byHand {
	c.Helper()
	s := c.build(c.Context(), configFrom(c, berthConfig), registry())
	return &byHand{Scheduler: s, f: s.Profiles[schedulerName], t: c}
}

// snapshot updates the scheduler's snapshot of the nodes, as at the start of each cycle, and returns the nodes.
func (b *byHand) snapshot() []fwk.NodeInfo {
	b.t.Helper()
	view, ok := b.f.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		b.t.Fatalf("the lister is a %T", b.f.SnapshotSharedLister())
	}
	if err := b.Cache.UpdateSnapshot(klog.Background(), view); err != nil {
		b.t.Fatal(err)
	}
	nodes, err := view.NodeInfos().List()
	if err != nil {
		b.t.Fatal(err)
	}
	return nodes
}

// cycle runs PreFilter and returns the state of the pod's cycle and the status.
func (b *byHand) cycle(p *v1.Pod) (fwk.CycleState, *fwk.Status) {
	state := framework.NewCycleState()
	_, status, _ := b.f.RunPreFilterPlugins(b.t.Context(), state, p)
	return state, status
}

// known waits until the plugin accepts the topologies of all nodes.
func (b *byHand) known() {
	b.t.Helper()
	err := patience.Until(b.t.Context(), 5*time.Millisecond, func() string {
		nodes := b.snapshot()
		state, status := b.cycle(uid(pinned("probe", 1, 1), "probe"))
		ok := len(nodes) > 0 && status.IsSuccess()
		for _, n := range nodes {
			// The plugin knows a full node too: it refuses the probe as Unschedulable, and an unknown node with another
			// code.
			said := b.f.RunFilterPlugins(b.t.Context(), state, uid(pinned("probe", 1, 1), "probe"), n)
			ok = ok && (said.IsSuccess() || said.Code() == fwk.Unschedulable)
		}
		if ok {
			return ""
		}
		return fmt.Sprintf("the plugin does not know the nodes: %v", status)
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func uid(p *v1.Pod, uid string) *v1.Pod {
	p.UID = types.UID(uid)
	return p
}

// TestFilterAndReserveAgree checks that Filter and Reserve give the same answer for the same state. Reserve succeeds on
// every node that Filter accepts and fails on every node that Berth refused; each bound pod changes the later answers.
func TestFilterAndReserveAgree(t *testing.T) {
	seed := chance.Seed()
	s := &storm{cluster: newCluster(t), rand: rand.New(rand.NewPCG(seed, 3))}
	for i, one := range tights()[:4] {
		s.addMachine(fmt.Sprintf("n%d", i), one)
	}
	b := s.byHand()
	b.known()
	passed, refused, bound, near := 0, 0, 0, 0
	for range setting("BERTH_STATES", 300) {
		nodes := b.snapshot()
		p := s.any()
		p.UID = types.UID(p.Name)
		state, status := b.cycle(p)
		if !status.IsSuccess() {
			continue
		}
		own := p.Annotations != nil // Reserve ignores ordinary pods
		var fits []string
		for _, n := range nodes {
			name := n.Node().Name
			said := b.f.RunFilterPlugins(t.Context(), state, p, n)
			did := b.f.RunReservePluginsReserve(t.Context(), state.Clone(), p, name)
			b.f.RunReservePluginsUnreserve(t.Context(), state.Clone(), p, name)
			switch {
			case said.IsSuccess() && !did.IsSuccess():
				t.Fatalf("%s on %s: Filter lets it pass, Reserve says %v", p.Name, name, did)
			case !said.IsSuccess() && said.Plugin() == schedule.Name && own && did.IsSuccess():
				t.Fatalf("%s on %s: Filter says %v, Reserve succeeds", p.Name, name, said)
			case said.IsSuccess():
				passed++
				fits = append(fits, name)
			default:
				refused++
			}
		}
		if len(fits) > 0 && s.rand.IntN(2) == 0 {
			near += b.bind(s, state, p, fits[s.rand.IntN(len(fits))])
			bound++
		}
		if s.rand.IntN(3) == 0 {
			b.release(s)
		}
	}
	t.Logf("%d answers yes, %d no, %d pods bound, bound memory audited %d times", passed, refused, bound, near)
	if passed < 50 || refused < 50 || near < 50 {
		t.Fatalf("%d answers yes, %d no, bound memory %d times: too few of one kind to prove anything", passed, refused, near)
	}
}

// bindTo creates a pod, reserves CPUs for it on the node, and binds it.
func (b *byHand) bindTo(c *cluster, state fwk.CycleState, p *v1.Pod, node string) {
	b.t.Helper()
	c.create(p)
	p = c.pod(p.Name)
	if status := b.f.RunReservePluginsReserve(b.t.Context(), state, p, node); !status.IsSuccess() {
		b.t.Fatalf("reserve %s on %s: %v", p.Name, node, status)
	}
	if status := b.f.RunBindPlugins(b.t.Context(), state, p, node); !status.IsSuccess() {
		b.t.Fatalf("bind %s to %s: %v", p.Name, node, status)
	}
}

// bind is bindTo followed by an audit, and returns of how many containers the auditor found bound memory. It waits
// until the scheduler's own cache has the pod.
func (b *byHand) bind(s *storm, state fwk.CycleState, p *v1.Pod, node string) int {
	b.t.Helper()
	b.bindTo(s.cluster, state, p, node)
	a := s.auditor()
	if err := a.check(s.pods()); err != nil {
		b.t.Fatal(err)
	}
	s.until("the cache has "+p.Name, func() bool {
		for _, n := range b.snapshot() {
			for _, q := range n.GetPods() {
				if q.GetPod().UID == p.UID {
					return true
				}
			}
		}
		return false
	})
	return a.bindings
}

// release deletes a random pod and waits until the scheduler's cache has dropped it.
func (b *byHand) release(s *storm) {
	b.t.Helper()
	s.some(func(p *v1.Pod) {
		s.remove(p.Name)
		s.until("the cache has lost "+p.Name, func() bool {
			for _, n := range b.snapshot() {
				for _, q := range n.GetPods() {
					if q.GetPod().UID == p.UID {
						return false
					}
				}
			}
			return true
		})
	})
}
