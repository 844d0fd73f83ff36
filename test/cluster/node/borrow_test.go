package node

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// calPi returns the pod of the documentation, with the annotation that is a comment there, and with an image and a
// limit that fit this cluster.
func calPi(t *testing.T) option {
	t.Helper()
	text, err := os.ReadFile("../testdata/seeds/cal-pi.yaml")
	must(t, err)
	var seed v1.Pod
	must(t, yaml.Unmarshal(bytes.Replace(text, []byte("#"+policyKey), []byte(policyKey), 1), &seed))
	return func(p *v1.Pod) {
		p.Annotations = seed.Annotations
		p.Spec.RestartPolicy = seed.Spec.RestartPolicy
		p.Spec.Containers[0].Env = seed.Spec.Containers[0].Env
		p.Spec.Containers[0].Resources = cpu("1")
	}
}

// staticBurst starts a pod with a reserved CPU that keeps its quota. It must borrow a core that its neighbor retains.
func (s *stage) staticBurst(t *testing.T) {
	s.start(t, "neighbour")
	p := s.start(t, "cal-pi", calPi(t))
	s.event(t, space, "cal-pi", "CPUPinned")
	s.settled(t)
	s.has(t, "cal-pi", 2)
	s.settled(t)
	s.unchanged(t, p)
}

// has waits until the container of a pod has a given number of CPUs, including the CPUs of its placement.
func (s *stage) has(t *testing.T, name string, many int) {
	t.Helper()
	s.eventually(t, "the CPUs of "+name, func() string {
		for _, r := range s.witness.residents() {
			if r.pod == nil || r.pod.Name != name || r.name != "app" {
				continue
			}
			file := parseList(read(cpusets(), r.dir, "cpuset.cpus"))
			if r.claim.bursts && r.claim.cpus.in(file) && len(file) == many {
				return ""
			}
			return fmt.Sprintf("%s, with %s reserved, want %d in all", file, r.claim.cpus, many)
		}
		return "it has no group"
	})
}
