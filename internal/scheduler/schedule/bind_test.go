package schedule

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
)

func TestAmbiguous(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, test := range []struct {
		err  error
		want bool
	}{
		{apierrors.NewNotFound(pods, "a"), false},
		{apierrors.NewForbidden(pods, "a", errors.New("no")), false},
		{apierrors.NewBadRequest("no"), false},
		{apierrors.NewTooManyRequests("later", 1), false},
		{refused, false},
		{apierrors.NewConflict(pods, "a", errors.New("etcdserver: request timed out")), true},
		{apierrors.NewTimeoutError("timed out", 1), true},
		{apierrors.NewServerTimeout(pods, "create", 1), true},
		{apierrors.NewInternalError(errors.New("etcd")), true},
		{context.DeadlineExceeded, true},
		{errors.New("EOF"), true},
	} {
		if got := ambiguous(fmt.Errorf("send the binding: %w", test.err)); got != test.want {
			t.Errorf("%v: ambiguous %v, want %v", test.err, got, test.want)
		}
	}
}

// The outcome of an ambiguous bind is unknown. The pod keeps its CPUs until the API server shows the outcome.
func TestAmbiguousBind(t *testing.T) {
	tests := []struct {
		name    string
		applied bool
		then    func(*cluster, *v1.Pod)
		freed   time.Duration // when other pods get the CPUs; 0 for never
	}{
		{"went through", true, func(*cluster, *v1.Pod) {}, 0},
		{"was lost", false, func(*cluster, *v1.Pod) {}, requestTimeout + lastLook},
		{"was lost, and the pod deleted", false, func(c *cluster, p *v1.Pod) { c.remove(p) }, time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
				c.node("n1")
				first, other := c.pod("first", 20), c.pod("other", 20)
				c.fault = func(*v1.Binding) (bool, error) { return test.applied, context.DeadlineExceeded }
				a := c.filter(first)
				c.reserve(a)
				a.status = c.plugin.Bind(c.ctx, a.state, a.pod, a.node)
				if a.status.Code() != fwk.Error {
					t.Fatalf("Bind: %v", a.status)
				}
				c.giveUp(a) // the scheduler forgets the pod before any event arrives
				c.fault = nil
				c.refused(other, "")
				test.then(c, first)
				c.handle.tookActivated()
				if test.freed == 0 {
					time.Sleep(10 * requestTimeout)
					c.refused(other, "")
					c.disjoint()
					return
				}
				if test.freed > time.Second {
					time.Sleep(requestTimeout / 2)
					c.refused(other, "")
				}
				time.Sleep(test.freed)
				c.placed(other)
				c.disjoint()
			})
		})
	}
}

// When an ambiguous bind releases its CPUs, the scheduler retries the pods that wait for CPUs.
func TestSettledAmbiguousBindWakesPods(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		first, other := c.pod("first", 20), c.pod("other", 20)
		c.fault = func(*v1.Binding) (bool, error) { return false, errors.New("EOF") }
		c.schedule(first)
		c.refused(other, "")
		c.handle.tookActivated()
		time.Sleep(requestTimeout + lastLook)
		c.expectActivated("default/other")
	})
}

// A pod's own ambiguous bind does not refuse the pod. The scheduler retries it at once with the same CPUs, and the API
// server binds it only once.
func TestPodWithAmbiguousBindIsTriedAgain(t *testing.T) {
	for _, applied := range []bool{false, true} {
		t.Run(fmt.Sprint("applied ", applied), func(t *testing.T) {
			inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
				c.node("n1")
				pod := c.pod("a", 20)
				c.fault = func(*v1.Binding) (bool, error) { return applied, errors.New("EOF") }
				a := c.reserve(c.filter(pod))
				a.status = c.plugin.Bind(c.ctx, a.state, a.pod, a.node)
				c.giveUp(a)
				if status := signStatus(c, pod); status.IsSuccess() && !applied {
					t.Error("the pod may be batched with others")
				}
				c.fault = nil
				again := c.filter(pod)
				if !again.status.IsSuccess() {
					t.Fatal(again.status.Message(), again.refusals)
				}
				c.reserve(again)
				c.finish(again)
				if again.status.IsSuccess() == applied {
					t.Errorf("second Bind: %v", again.status)
				}
				time.Sleep(2 * requestTimeout)
				c.settle()
				c.placed(c.pod("b", 8))
				c.disjoint()
				if _, ambiguous := c.plugin.core.flights.size(); ambiguous != 0 {
					t.Errorf("%d ambiguous binds are left", ambiguous)
				}
			})
		})
	}
}

func signStatus(c *cluster, pod *v1.Pod) *fwk.Status {
	_, status := c.plugin.SignPod(c.ctx, pod)
	return status
}

// The API server is away for a minute and refuses connections. The scheduler holds nothing and recovers by itself.
func TestAPIServerAway(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		away := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		c.fault = func(*v1.Binding) (bool, error) { return false, away }
		pod := c.pod("a", 20)
		for range 6 {
			c.schedule(pod)
			time.Sleep(10 * time.Second)
		}
		c.fault = nil
		c.placed(c.pod("b", 20))
	})
}

// Another scheduler or an agent gave the CPUs away between Reserve and Bind. Bind must refuse without a request.
func TestLostRace(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 4)
		a := c.reserve(c.filter(pod))
		made := a.state.data[reservationKey].(*reservation)
		rival := c.spec("rival", 4, annotated(v1alpha1.AnnotationPlacement, made.annotation))
		rival.Spec.NodeName = "n1"
		c.create(rival)
		c.finish(a)
		if a.status.Code() != fwk.Unschedulable || a.status.Message() != textRace {
			t.Fatalf("Bind: %s %s", a.status.Code(), a.status.Message())
		}
		if c.requests != 0 {
			t.Error("Bind sent something")
		}
		c.placed(pod)
		c.disjoint()
	})
}

// A rival on an SMT sibling that must stay empty is a lost race too.
func TestLostRaceForSibling(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 1, annotated(resourceSpec, `{"requiredCPUExclusivePolicy":"PCPULevel"}`))
		a := c.reserve(c.filter(pod))
		cpus := placedCPUs(t, a.state.data[reservationKey].(*reservation).annotation)
		lowest, _ := cpus.Min()
		sibling := (lowest + 16) % 32
		rival := c.spec("rival", 1, annotated(v1alpha1.AnnotationPlacement, fmt.Sprintf(
			`{"v":1,"topology":%q,"containers":{"app":{"cpus":"%d","mems":"0","policy":"exclusive"}}}`, machine().Hash(), sibling)))
		rival.Spec.NodeName = "n1"
		c.create(rival)
		if c.finish(a); a.status.Message() != textRace {
			t.Errorf("Bind: %v", a.status)
		}
	})
}

// So is a rival in a NUMA node that the pod has for itself, or the other way round. Pods that already share such a node
// keep no other pod off.
func TestLostRaceForNUMANode(t *testing.T) {
	alone := annotated(resourceSpec, `{"requiredCPUExclusivePolicy":"NUMANodeLevel"}`)
	for name, of := range map[string]struct {
		pod, rival []option
		granted    string
	}{
		"the pod has the node for itself": {pod: []option{alone}},
		"the rival has it":                {rival: []option{alone}, granted: `"exclusive":"NUMANodeLevel",`},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, `{}`, func(t *testing.T, c *cluster) {
				c.node("n1")
				a := c.reserve(c.filter(c.pod("a", 2, of.pod...)))
				cpus := placedCPUs(t, a.state.data[reservationKey].(*reservation).annotation)
				lowest, _ := cpus.Min()
				for i := range 2 {
					placed := fmt.Sprintf(`{"v":1,"topology":%q,%s"containers":{"app":{"cpus":"%d","mems":"0","policy":"exclusive"}}}`,
						machine().Hash(), of.granted, lowest+4+i)
					rival := c.spec(fmt.Sprint("rival", i), 1, append(of.rival, annotated(v1alpha1.AnnotationPlacement, placed))...)
					rival.Spec.NodeName = "n1"
					c.create(rival)
				}
				if c.finish(a); a.status.Message() != textRace || c.requests != 0 {
					t.Errorf("Bind: %v", a.status)
				}
				c.placed(c.pod("b", 2))
			})
		})
	}
}

// An ordinary pod with an ambiguous bind keeps its request reserved against other pods. The reservation ends when the
// pod is bound or can no longer be bound.
func TestOrdinaryPodLeavesAmbiguousBind(t *testing.T) {
	for _, applied := range []bool{false, true} {
		t.Run(fmt.Sprint("applied ", applied), func(t *testing.T) {
			inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
				c.node("n1")
				pod, other := c.ordinary("o", "20"), c.ordinary("p", "20")
				c.fault = func(*v1.Binding) (bool, error) { return false, errors.New("EOF") }
				c.schedule(pod)
				c.fault = nil
				c.refused(other, textPromised)
				if a := c.filter(pod); !a.status.IsSuccess() {
					t.Errorf("it stands in its own way: %s", a.status.Message())
				}
				if applied {
					if a := c.schedule(pod); !a.status.IsSuccess() {
						t.Fatal(a.status.Message())
					}
					if a := c.filter(c.ordinary("q", "12")); !a.status.IsSuccess() {
						t.Errorf("its request counts twice: %s", a.status.Message())
					}
					time.Sleep(2 * requestTimeout)
					c.refused(other, "")
					return
				}
				c.handle.tookActivated()
				time.Sleep(requestTimeout + lastLook)
				c.expectActivated("default/p")
				if a := c.schedule(other); !a.status.IsSuccess() {
					t.Error(a.status.Message())
				}
			})
		})
	}
}

// The informer can show a bound pod before the scheduler's snapshot does.
func TestSnapshotOlderThanBinding(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		hand := annotated(v1alpha1.AnnotationPlacement, `{"v":1,"topology":"`+machine().Hash()+`","containers":{"app":{"cpus":"30-31","mems":"0","policy":"exclusive"}}}`)
		a := c.reserve(c.filter(c.pod("a", 2, hand)))
		c.look() // The snapshot contains the assumed pod.
		made := placedCPUs(t, a.state.data[reservationKey].(*reservation).annotation)
		other := c.pod("b", 2)
		c.finish(a)
		b := c.choose(&attempt{state: newState(), pod: other, refusals: map[string]int{}})
		c.reserve(b)
		if !b.status.IsSuccess() {
			t.Fatal(b.status.Message())
		}
		if cpus := placedCPUs(t, b.state.data[reservationKey].(*reservation).annotation); cpus.Intersects(made) {
			t.Errorf("CPUs %s overlap with %s", cpus, made)
		}
		if held := c.plugin.core.nodes.find("n1").records[a.pod.UID].held; held.Unknown() != 0 || held.CPUs() != made {
			t.Errorf("the pod holds %s and %d unknown, not %s", held.CPUs(), held.Unknown(), made)
		}
	})
}

// An ambiguous bind to n1 turns out to have been applied while the pod is reserved on n2. The second binding fails and
// n2 releases its CPUs.
func TestBoundElsewhere(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 20)
		late := func() {}
		c.fault = func(b *v1.Binding) (bool, error) {
			late = func() {
				if err := c.carryOut(b); err != nil {
					t.Error(err)
				}
			}
			return false, errors.New("EOF")
		}
		first := c.reserve(c.filter(pod))
		first.status = c.plugin.Bind(c.ctx, first.state, first.pod, first.node)
		c.giveUp(first)
		c.fault = nil
		c.node("n2")
		c.look()
		delete(c.handle.snapshot, "n1")
		second := c.choose(&attempt{state: newState(), pod: pod, refusals: map[string]int{}})
		c.reserve(second)
		late()
		c.settle()
		if c.finish(second); second.status.IsSuccess() {
			t.Fatal("the pod is bound twice")
		}
		c.placed(c.pod("b", 20))
		c.disjoint()
	})
}

func TestPodDeletedWhileBinding(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 20)
		a := c.reserve(c.filter(pod))
		c.remove(pod)
		c.finish(a)
		if a.status.IsSuccess() {
			t.Fatal("a deleted pod is bound")
		}
		c.placed(c.pod("b", 20))
		time.Sleep(time.Minute)
		c.settle()
		if n := c.plugin.core.nodes.find("n1"); len(n.records) != 1 || len(n.ambiguous) != 0 {
			t.Errorf("%d records and %d ambiguous binds are left", len(n.records), len(n.ambiguous))
		}
	})
}

// The framework may call Reserve again after Unreserve, perhaps for another node. Unreserve without Reserve does
// nothing.
func TestUnreserve(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 20)
		a := c.filter(pod)
		c.plugin.Unreserve(c.ctx, a.state, pod, "n1")
		c.plugin.Unreserve(c.ctx, a.state, pod, "no such node")
		c.reserve(a)
		c.giveUp(a)
		c.plugin.Unreserve(c.ctx, a.state, a.pod, "n1")
		c.placed(c.pod("b", 20))
		time.Sleep(5 * time.Minute)
		c.settle()
		if got := len(c.plugin.core.nodes.find("n1").records); got != 1 {
			t.Errorf("%d records are left, want 1", got)
		}
	})
}

// While the scheduler's snapshot still contains an unreserved pod, its CPUs stay held.
func TestSnapshotOlderThanUnreserve(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		a := c.reserve(c.filter(c.pod("a", 20)))
		other := c.pod("b", 10)
		c.look()
		c.plugin.Unreserve(c.ctx, a.state, a.pod, a.node)
		held, _ := c.plugin.core.nodes.find("n1").records[a.pod.UID].held, 0
		b := c.choose(&attempt{state: newState(), pod: other, refusals: map[string]int{}})
		if !b.status.IsSuccess() {
			t.Fatal(b.status.Message())
		}
		c.reserve(b)
		if cpus := placedCPUs(t, b.state.data[reservationKey].(*reservation).annotation); cpus.Intersects(held.CPUs()) {
			t.Errorf("CPUs %s overlap with %s", cpus, held.CPUs())
		}
	})
}
