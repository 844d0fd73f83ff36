package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// resizePinned resizes a pod with an exclusive CPU between one, two and three CPUs under the kubelet. The pod must keep
// its first CPU and its container, and its annotation, files and masks must agree after each resize. In a second round
// the agent is killed before the resize, or right after it.
func (s *second) resizePinned(t *testing.T) {
	s.start(t, "lower", 1)
	s.start(t, "resized", 1)
	s.remove(t, "lower") // The pod grows by the lower CPU then, which is the first in every order.
	s.start(t, "neighbour", 0)
	s.settled(t)
	first, id, before := s.given(t, "resized"), containerID(s.pod(t, "resized")), s.answers(t)
	for _, limit := range []int{2, 3, 1} {
		s.resize(t, limit)
		s.resized(t, id, first, limit)
		if lowest, _ := s.given(t, "resized").Min(); limit > 1 && first.Contains(lowest) {
			t.Errorf("the first CPU, %s, is the lowest of %s: the pod would keep it anyhow", first, s.given(t, "resized"))
		}
	}
	s.answered(t, before)

	s.sh(t, killAgent)
	s.resize(t, 2)
	s.resized(t, id, first, 2)
	s.resize(t, 3)
	s.sh(t, killAgent)
	s.resized(t, id, first, 3)
	s.resize(t, 1)
	s.resized(t, id, first, 1)
}

// resize requests another limit for the pod.
func (s *second) resize(t *testing.T, limit int) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":"%d"}}}]}}`, limit)
	if _, err := s.client.CoreV1().Pods(namespace).Patch(t.Context(), "resized", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize"); err != nil {
		t.Fatal(err)
	}
}

// resized waits until the kubelet and the agent have followed a resize of the pod.
func (s *second) resized(t *testing.T, id string, first cpuset.Set, limit int) {
	t.Helper()
	s.eventually(t, fmt.Sprintf("the kubelet has resized the pod to %d CPUs", limit), func() string {
		p := s.pod(t, "resized")
		waits := p.Status.ObservedGeneration < p.Generation || slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress
		})
		if waits {
			return fmt.Sprintf("generation %d of %d, %+v", p.Status.ObservedGeneration, p.Generation, p.Status.Conditions)
		}
		return ""
	})
	s.eventually(t, fmt.Sprintf("the placement has %d CPUs", limit), func() string {
		if has := s.given(t, "resized"); has.Size() != limit || !first.IsSubsetOf(has) {
			return fmt.Sprintf("CPUs %s, first %s", has, first)
		}
		return ""
	})
	s.settled(t)
	s.eventually(t, "no quota", func() string {
		if has := s.kernel(t.Context(), s.pod(t, "resized")); !strings.HasPrefix(has.Quota, "max ") {
			return has.String()
		}
		return ""
	})
	s.sameContainer(t, "resized", id)
}

// answers returns the agent's histogram of its answers to the runtime: cumulative counts by upper bound in seconds.
func (s *second) answers(t *testing.T) map[float64]float64 {
	t.Helper()
	const ask = `printf 'GET /metrics HTTP/1.0\r\nHost: agent\r\n\r\n' | socat -t 60 - UNIX-CONNECT:/var/lib/berth/agent.sock`
	buckets := map[float64]float64{}
	for line := range strings.Lines(s.sh(t, ask)) {
		rest, is := strings.CutPrefix(line, `berth_nri_request_seconds_bucket{le="`)
		bound, count, cut := strings.Cut(strings.TrimSpace(rest), `"} `)
		if !is || !cut {
			continue
		}
		at, err := strconv.ParseFloat(bound, 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if buckets[at], err = strconv.ParseFloat(count, 64); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	if len(buckets) == 0 {
		t.Fatal("the agent has no histogram of its answers")
	}
	return buckets
}

// answered waits until the runtime has asked the agent since before, and reports how long the answers took. It judges
// no duration: the machine is emulated.
func (s *second) answered(t *testing.T, before map[float64]float64) {
	t.Helper()
	var after map[float64]float64
	all := 0.0
	s.eventually(t, "the runtime asks", func() string { // The kubelet calls the runtime, which asks the agent.
		after = s.answers(t)
		if all = after[math.Inf(1)] - before[math.Inf(1)]; all <= 0 {
			return "nothing"
		}
		return ""
	})
	for _, q := range []float64{0.5, 1} {
		for _, bound := range slices.Sorted(maps.Keys(after)) {
			if after[bound]-before[bound] >= q*all {
				t.Logf("FIGURE resize, answer to the runtime p%g at most, ms: %g", q*100, bound*1000)
				break
			}
		}
	}
	t.Logf("FIGURE resize, answers to the runtime: %g", all)
}
