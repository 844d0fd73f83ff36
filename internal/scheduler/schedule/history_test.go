package schedule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	agent "github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/node/observed"
)

// TestHistories runs random histories and checks the invariants after every step. No CPU and no byte of a NUMA node is
// given out twice, the accounting rule is kept, and every placement is the reserved one.
func TestHistories(t *testing.T) {
	seeds, steps := 6, 250
	if testing.Short() {
		seeds, steps = 2, 120
	}
	bound, promised := 0, 0
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
				for _, name := range []string{"n1", "n2"} {
					c.bareNode(name)
					c.topology(name, withPools())
				}
				c.settle()
				h := &history{cluster: c, random: rand.New(rand.NewPCG(uint64(seed), 7)), reserved: map[string]string{}}
				for step := range steps {
					h.step(step)
					h.check()
					if t.Failed() {
						t.Fatalf("step %d", step)
					}
				}
				bound += h.bound
				if h.promised {
					promised++
				}
			})
		})
	}
	if bound < seeds*steps/10 || promised < seeds/2 {
		t.Errorf("only %d pods were bound, and memory was promised in %d histories: they say little", bound, promised)
	}
}

type history struct {
	*cluster

	random   *rand.Rand
	pending  []*v1.Pod
	flying   []*attempt
	reserved map[string]string // annotation by pod name
	bound    int
	promised bool // whether memory of a NUMA node was promised
	resized  int
}

func (h *history) step(step int) {
	switch n := h.random.IntN(100); {
	case n < 25:
		h.pending = append(h.pending, h.newPod(fmt.Sprint("p", step)))
	case n < 58:
		h.cycle()
	case n < 84:
		h.land()
	case n < 92:
		h.end()
	case n < 95:
		h.resize()
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
	bytes := func(p *v1.Pod) {
		for _, of := range []struct { // in this order, so that a seed repeats a history
			name    v1.ResourceName
			amounts []string
		}{
			{v1.ResourceMemory, []string{"0", "128Mi", "512Mi", "1Gi"}},
			{v1.ResourceHugePagesPrefix + "1Gi", []string{"0", "0", "9Gi", "25Gi", "40Gi"}},
		} {
			amount := resource.MustParse(of.amounts[h.random.IntN(len(of.amounts))])
			r := &p.Spec.Containers[0].Resources
			r.Requests, r.Limits = maps.Clone(r.Requests), maps.Clone(r.Limits)
			if !amount.IsZero() && r.Limits != nil {
				r.Limits[of.name] = amount
			}
			if !amount.IsZero() && r.Requests != nil {
				r.Requests[of.name] = amount
			}
		}
	}
	if h.random.IntN(4) == 0 {
		pod := h.ordinary(name, fmt.Sprint(1+h.random.IntN(4)))
		h.update(pod, bytes)
		return h.get(pod)
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
	return h.pod(name, 1+h.random.IntN(6), append(options[h.random.IntN(len(options))], bytes)...)
}

// cycle runs a scheduling cycle of a random pending pod.
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

// land ends the binding cycle of a random pod in one of many ways.
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

// end deletes or completes a random bound pod.
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

// resize changes the limit of a random bound pod or continues a resize. The kubelet defers the resize or carries it
// out, and the agent's annotation follows with CPUs that are free on the node. One resize ends before the next one
// begins.
func (h *history) resize() {
	var all, under []v1.Pod
	for _, pod := range must(h.client.CoreV1().Pods("").List(h.ctx, metav1.ListOptions{}))(h.t).Items {
		if kept := pod.Annotations[v1alpha1.AnnotationPlacement]; pod.Spec.NodeName != "" && kept != "" && kept == h.reserved[pod.Name] {
			all = append(all, pod)
			if its := kubepod.Of(&pod); its.Resizing || its.Held() {
				under = append(under, pod)
			}
		}
	}
	if len(all) == 0 {
		return
	}
	if len(under) > 0 {
		all = under
	}
	pod := &all[h.random.IntN(len(all))]
	switch {
	case len(under) == 0:
		h.update(pod, resize(max(1, int(pod.Spec.Containers[0].Resources.Requests.Cpu().Value()))+h.random.IntN(8)))
	case h.random.IntN(3) == 0:
		h.update(pod, putOff([]string{v1.PodReasonDeferred, v1.PodReasonInfeasible}[h.random.IntN(2)]))
	default:
		h.carryOutResize(pod)
	}
}

// carryOutResize acts as the agent and the kubelet. The agent knows the pods that are bound to the node, but not the
// pods that are being bound.
func (h *history) carryOutResize(pod *v1.Pod) {
	n := agent.New(agent.Facts{Machine: must(alloc.Compile(machine()))(h.t), Hash: machine().Hash(), AllocatableMilli: 32000, Pinnable: true})
	for _, other := range must(h.client.CoreV1().Pods("").List(h.ctx, metav1.ListOptions{}))(h.t).Items {
		if other.Spec.NodeName != pod.Spec.NodeName {
			continue
		}
		n.Pods.Put(kubepod.Of(&other))
		if text := other.Annotations[v1alpha1.AnnotationPlacement]; text != "" {
			n.Pods.Observe(observed.Container{ID: other.Name, PodUID: string(other.UID), Name: "app", Phase: observed.Running, CPUs: placedCPUs(h.t, text)})
		}
	}
	n.Events()
	n.Pods.Put(kubepod.Of(pod).CarriedOut())
	must(n.Resize(string(pod.UID)))(h.t)
	for _, e := range n.Events() {
		if e.PodUID == string(pod.UID) && e.Annotation != nil {
			h.reserved[pod.Name] = e.Annotation.Encode()
			h.update(pod, annotated(v1alpha1.AnnotationPlacement, h.reserved[pod.Name]))
			h.resized++
		}
	}
	h.update(pod, carriedOut)
}

// restart starts a new scheduler, which loses all state that is not in the API server.
func (h *history) restart() {
	for _, a := range h.flying {
		if _, err := h.client.CoreV1().Pods(a.pod.Namespace).Get(h.ctx, a.pod.Name, metav1.GetOptions{}); err == nil {
			h.pending = append(h.pending, h.get(a.pod))
		}
	}
	h.flying = nil
	h.start()
}

// relabel changes the allocation strategy of a node.
func (h *history) relabel() {
	node := must(h.client.CoreV1().Nodes().Get(h.ctx, "n1", metav1.GetOptions{}))(h.t)
	node.Labels[v1alpha1.NodeLabelNUMAAllocateStrategy] = []string{"MostAllocated", "LeastAllocated", "DistributeEvenly"}[h.random.IntN(3)]
	must(h.client.CoreV1().Nodes().Update(h.ctx, node, metav1.UpdateOptions{}))(h.t)
	h.settle()
}

// check verifies the invariants with the objects of the API server.
func (h *history) check() {
	h.t.Helper()
	h.disjoint()
	m := must(alloc.Compile(machine()))(h.t)
	occupied := map[string]*placement.Occupancy{"n1": {}, "n2": {}}
	requested, promised := map[string]int64{}, map[string]int64{}
	for _, pod := range must(h.client.CoreV1().Pods("").List(h.ctx, metav1.ListOptions{}))(h.t).Items {
		if pod.Spec.NodeName == "" {
			continue
		}
		requested[pod.Spec.NodeName] += kubepod.Scheduled(&pod)
		if placed := h.reserved[pod.Name]; placed != "" {
			h.promise(promised, &pod, placed)
		}
		if pin, _ := pinningOf(&pod); pin.Wanted {
			held := placement.HeldBy(m, pin, pod.Annotations[v1alpha1.AnnotationPlacement])
			occupied[pod.Spec.NodeName].Add(m, &held)
			if held.Unknown() > 0 {
				h.t.Errorf("pod %s is bound without a placement", pod.Name)
			}
			if got, want := pod.Annotations[v1alpha1.AnnotationPlacement], h.reserved[pod.Name]; got != want {
				h.t.Errorf("pod %s has %s, reserved was %s", pod.Name, got, want)
			}
		}
	}
	for what, bytes := range promised {
		if most := int64(62) << 30; bytes > most || strings.HasSuffix(what, "memory") && bytes > 2<<30 {
			h.t.Errorf("%s: %d bytes are promised", what, bytes)
		}
	}
	if len(promised) > 0 {
		h.promised = true
	}
	for name, o := range occupied {
		n := placement.Node{Machine: m, AllocatableMilli: 32000, RequestedMilli: requested[name]}
		if left := n.Surplus(o); left < 0 {
			h.t.Errorf("node %s: %d thousandths too many are promised", name, -left)
		}
	}
}

// promise adds what a pod is promised of the NUMA node that its placement binds it to.
func (h *history) promise(promised map[string]int64, pod *v1.Pod, placed string) {
	all, problems := v1alpha1.DecodePlacement(placed)
	mems := all.Containers["app"].Mems
	if len(problems) > 0 || mems == "0-1" {
		return
	}
	for name, amount := range pod.Spec.Containers[0].Resources.Limits {
		if name != v1.ResourceCPU {
			promised[pod.Spec.NodeName+" NUMA node "+mems+" "+string(name)] += amount.Value()
		}
	}
}
