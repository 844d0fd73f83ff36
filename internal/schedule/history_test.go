package schedule

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/kubepod"
	"github.com/berth-project/berth/internal/placement"
)

// TestHistories runs random histories and checks after every step what must
// always hold: no CPU twice, the accounting rule, and every placement as it was
// reserved.
func TestHistories(t *testing.T) {
	seeds, steps := 6, 250
	if testing.Short() {
		seeds, steps = 2, 120
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
				c.node("n1")
				c.node("n2")
				h := &history{cluster: c, random: rand.New(rand.NewPCG(uint64(seed), 7)), reserved: map[string]string{}}
				for step := range steps {
					h.step(step)
					h.check()
					if t.Failed() {
						t.Fatalf("step %d", step)
					}
				}
				if h.bound < steps/10 {
					t.Errorf("only %d pods were bound: the history says little", h.bound)
				}
			})
		})
	}
}

type history struct {
	*cluster

	random   *rand.Rand
	pending  []*v1.Pod
	flying   []*attempt
	reserved map[string]string // annotation by pod name
	bound    int
}

func (h *history) step(step int) {
	switch n := h.random.IntN(100); {
	case n < 25:
		h.pending = append(h.pending, h.newPod(fmt.Sprint("p", step)))
	case n < 58:
		h.cycle()
	case n < 84:
		h.land()
	case n < 95:
		h.end()
	case n < 96:
		h.restart()
	case n < 98:
		time.Sleep(2 * requestTimeout)
		h.settle()
	default:
		h.relabel()
	}
}

func (h *history) newPod(name string) *v1.Pod {
	if h.random.IntN(4) == 0 {
		return h.ordinary(name, fmt.Sprint(1+h.random.IntN(4)))
	}
	options := [][]option{
		nil, nil,
		{requesting("500m")},
		{annotated(resourceSpec, `{"preferredCPUBindPolicy":"SpreadByPCPUs"}`)},
		{annotated(resourceSpec, `{"requiredCPUExclusivePolicy":"PCPULevel"}`)},
		{annotated(resourceSpec, `{"preferredCPUExclusivePolicy":"NUMANodeLevel"}`)},
		{annotated(numaSpec, `{"numaTopologyPolicy":"SingleNUMANode"}`)},
		{annotated(v1alpha1.AnnotationCPUPolicy, "static-burst")},
		{annotated(v1alpha1.AnnotationCPUSetScheduler, "yes")},
	}
	return h.pod(name, 1+h.random.IntN(6), options[h.random.IntN(len(options))]...)
}

// cycle runs a scheduling cycle of some pending pod.
func (h *history) cycle() {
	if len(h.pending) == 0 {
		return
	}
	i := h.random.IntN(len(h.pending))
	a := h.filter(h.pending[i])
	if !a.status.IsSuccess() {
		return
	}
	if h.reserve(a); !a.status.IsSuccess() {
		h.t.Errorf("pod %s: Filter takes node %s, Reserve says %s", a.pod.Name, a.node, a.status.Message())
		return
	}
	h.pending = append(h.pending[:i], h.pending[i+1:]...)
	h.flying = append(h.flying, a)
}

// land ends a binding cycle of some pod on its way, in one of many ways.
func (h *history) land() {
	if len(h.flying) == 0 {
		return
	}
	i := h.random.IntN(len(h.flying))
	a := h.flying[i]
	h.flying = append(h.flying[:i], h.flying[i+1:]...)
	if data, found := a.state.data[reservationKey]; found {
		h.reserved[a.pod.Name] = data.(*reservation).annotation
	}
	switch h.random.IntN(9) {
	case 0:
		h.fault = func(*v1.Binding) (bool, error) { return true, context.DeadlineExceeded }
	case 1:
		h.fault = func(*v1.Binding) (bool, error) { return false, errors.New("EOF") }
	case 2:
		h.remove(a.pod)
	}
	h.finish(a)
	h.fault = nil
	if a.status.IsSuccess() {
		h.bound++
		return
	}
	if now, err := h.client.CoreV1().Pods(a.pod.Namespace).Get(h.ctx, a.pod.Name, metav1.GetOptions{}); err == nil && now.Spec.NodeName == "" {
		h.pending = append(h.pending, now)
	}
}

// end deletes or completes some bound pod.
func (h *history) end() {
	var bound []v1.Pod
	for _, pod := range must(h.client.CoreV1().Pods("").List(h.ctx, metav1.ListOptions{}))(h.t).Items {
		if pod.Spec.NodeName != "" {
			bound = append(bound, pod)
		}
	}
	if len(bound) > 0 {
		h.remove(&bound[h.random.IntN(len(bound))])
	}
}

// restart loses all that is not in the API server.
func (h *history) restart() {
	for _, a := range h.flying {
		if _, err := h.client.CoreV1().Pods(a.pod.Namespace).Get(h.ctx, a.pod.Name, metav1.GetOptions{}); err == nil {
			h.pending = append(h.pending, h.get(a.pod))
		}
	}
	h.flying = nil
	h.start()
}

// relabel changes the policy of a node.
func (h *history) relabel() {
	node := must(h.client.CoreV1().Nodes().Get(h.ctx, "n1", metav1.GetOptions{}))(h.t)
	node.Labels[v1alpha1.NodeLabelNUMAAllocateStrategy] = []string{"MostAllocated", "LeastAllocated", "DistributeEvenly"}[h.random.IntN(3)]
	must(h.client.CoreV1().Nodes().Update(h.ctx, node, metav1.UpdateOptions{}))(h.t)
	h.settle()
}

// check looks at what the API server shows.
func (h *history) check() {
	h.t.Helper()
	h.disjoint()
	m := must(alloc.Compile(machine()))(h.t)
	occupied := map[string]*placement.Occupancy{"n1": {}, "n2": {}}
	requested := map[string]int64{}
	for _, pod := range must(h.client.CoreV1().Pods("").List(h.ctx, metav1.ListOptions{}))(h.t).Items {
		if pod.Spec.NodeName == "" {
			continue
		}
		requested[pod.Spec.NodeName] += kubepod.Scheduled(&pod)
		if r, pinned := readRecord(m, &pod, flight{}); pinned {
			occupied[pod.Spec.NodeName].Add(m, &r.held)
			if r.held.Unknown() > 0 {
				h.t.Errorf("pod %s is bound without a placement", pod.Name)
			}
			if got, want := pod.Annotations[v1alpha1.AnnotationPlacement], h.reserved[pod.Name]; got != want {
				h.t.Errorf("pod %s has %s, reserved was %s", pod.Name, got, want)
			}
		}
	}
	for name, o := range occupied {
		n := placement.Node{Machine: m, AllocatableMilli: 32000, RequestedMilli: requested[name]}
		if left := n.Surplus(o); left < 0 {
			h.t.Errorf("node %s: %d thousandths too many are promised", name, -left)
		}
	}
}
