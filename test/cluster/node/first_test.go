package node

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// number returns a number from the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		return otherwise
	}
	n, err := strconv.Atoi(value)
	must(t, err)
	return n
}

// pool makes the containers of a pod share the pod's exclusive CPUs.
func pool(containers int) option {
	return func(p *v1.Pod) {
		p.Annotations[pinKey] = "true"
		p.Spec.Resources = &v1.ResourceRequirements{
			Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")},
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")},
		}
		p.Spec.Containers = nil
		for i := range containers {
			p.Spec.Containers = append(p.Spec.Containers, maskContainer(fmt.Sprintf("c%d", i)))
		}
	}
}

// firstInstruction makes containers print their masks as their first action. It uses pods with one container, and pods
// with many containers that share one exclusive CPU, which start faster. It does not count starts during which the
// runtime had dropped the agent, as it drops an agent that gets no CPU for seconds.
func (s *stage) firstInstruction(t *testing.T) {
	starts := number(t, "BERTH_NODE_STARTS", 100)
	before := s.latency(t)
	s.start(t, "neighbour", spinning, limited("500m"))
	right, total, uncounted := 0, 0, 0
	for i := 0; total < starts; i++ {
		name := fmt.Sprintf("first-%d", i)
		connections := metrics(t)["berth_nri_connections_total"]
		var p *v1.Pod
		if i%2 == 0 {
			p = s.start(t, name, pinned)
		} else {
			p = s.start(t, name, pool(min(24, starts-total)))
		}
		if after := metrics(t); after["berth_nri_connections_total"] != connections || after["berth_nri_connected"] != 1 {
			if uncounted += len(p.Spec.Containers); uncounted > starts {
				t.Fatalf("the runtime drops the agent again and again: %d starts", uncounted)
			}
			s.witness.unaskedPod(p)
			s.settled(t)
			s.remove(t, name)
			continue
		}
		s.settled(t)
		total += len(p.Spec.Containers)
		right += s.rightFromTheFirst(t, p)
		s.remove(t, name)
	}
	s.figure(t, "starts with the right masks from the first instruction", fmt.Sprintf("%d of %d", right, total))
	s.figure(t, "starts not counted, as the runtime had dropped the agent", uncounted)
	s.reportLatency(t, "", before)
}

// rightFromTheFirst counts the containers of a pod that first printed the CPUs and memory nodes of their placement.
func (s *stage) rightFromTheFirst(t *testing.T, p *v1.Pod) (right int) {
	t.Helper()
	for _, c := range p.Spec.Containers {
		want := s.placement(t, p.Name, c.Name)
		got := s.printed(t, p, c.Name)
		if len(got) == 1 && parseList(got[0][0]).equal(want.cpus) && parseList(got[0][1]).equal(want.mems) && len(want.cpus) == 1 {
			right++
			continue
		}
		t.Errorf("%s/%s printed %q first, want CPUs %s, memory nodes %s", p.Name, c.Name, got, want.cpus, want.mems)
	}
	return right
}

// placement returns the placement of a container from the pod's annotation.
func (s *stage) placement(t *testing.T, pod, container string) claim {
	t.Helper()
	p, err := s.get(t, pod)
	must(t, err)
	r := resident{bundle: bundle{name: container}, pod: p}
	return r.claimed()
}
