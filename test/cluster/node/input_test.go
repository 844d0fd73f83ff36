package node

import (
	"encoding/json"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-project/berth/test/cluster/local"
)

// badAnnotations gives pods invalid annotations. Each pod must run and get an event with the annotation, the fault and
// the permitted values. An invalid bind policy must give no CPUs, and the API server must refuse an invalid request for
// CPUs.
func (s *stage) badAnnotations(t *testing.T) {
	for _, c := range []struct {
		name, key, value string
		words            []string
	}{
		{"bind-json", bindKey, `{"preferredCPUBindPolicy":`, []string{bindKey}},
		{"bind-unknown", bindKey, `{"requiredCPUBindPolicy":"Sideways"}`, []string{bindKey, "requiredCPUBindPolicy", "Sideways", "FullPCPUs"}},
		{"burst-json", burstKey, `{"policy"`, []string{burstKey}},
		{"burst-unknown", burstKey, `{"policy":"sometimes"}`, []string{burstKey, "policy", "sometimes", "cpuBurstOnly"}},
		{"burst-range", burstKey, `{"policy":"auto","cpuBurstPercent":20000}`, []string{burstKey, "cpuBurstPercent", "20000", "10000"}},
	} {
		s.create(t, podOf(c.name, limited("1"), annotated(c.key, c.value), here, func(p *v1.Pod) {
			if c.key == bindKey {
				p.Annotations[pinKey] = "true"
			}
		}))
		s.runs(t, c.name)
		s.event(t, space, c.name, "InvalidPolicy", append(c.words, "allowed")...)
		if has := s.placement(t, c.name, "app"); len(has.cpus) > 0 && c.key == bindKey {
			t.Errorf("%s has CPUs %s", c.name, has.cpus)
		}
	}
	_, err := s.client.CoreV1().Pods(space).Create(t.Context(), podOf("plain-key", limited("1"), annotated(pinKey, "maybe")), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !hasAll(text(err), []string{pinKey, "maybe", "allowed"}) {
		t.Errorf("a pod with %s: maybe: %v", pinKey, err)
	}
}

// badMaps makes the ConfigMaps invalid while a pod bursts according to them.
func (s *stage) badMaps(t *testing.T) {
	p := s.start(t, "by-map", limited("300m"), labelled("app", "by-map"))
	dir := s.groupOf(t, id(p, "app")).dir
	data := map[string]string{"app": "by-map", "cpu-burst-config": burstPolicy(40)}
	s.configMap(t, selectorSpace, selectorName, data)
	s.awaitBurst(t, dir, 40)
	for name, c := range map[string]struct {
		value string
		words []string
	}{
		"json":    {`{"policy":`, []string{selectorName, "cpu-burst-config"}},
		"unknown": {`{"policy":"sometimes"}`, []string{selectorName, "policy", "sometimes", "allowed", "cfsQuotaBurstOnly"}},
		"range":   {`{"policy":"cpuBurstOnly","cpuBurstPercent":-7}`, []string{selectorName, "cpuBurstPercent", "-7", "allowed"}},
	} {
		data["cpu-burst-config"] = c.value
		s.configMap(t, selectorSpace, selectorName, data)
		s.event(t, metav1.NamespaceDefault, local.NodeName, "InvalidPolicy", c.words...)
		if got := burst(dir); got != "12000" {
			t.Errorf("%s: the burst is %s, want the last good one", name, got)
		}
	}
	data["cpu-burst-config"] = burstPolicy(50)
	s.configMap(t, selectorSpace, selectorName, data)
	s.awaitBurst(t, dir, 50)
}

// forged binds pods with invalid placements, as the scheduler's account, which may write them.
func (s *stage) forged(t *testing.T) {
	config, _, err := s.c.As("system:serviceaccount:berth-system:berth-scheduler", "system:serviceaccounts", "system:serviceaccounts:berth-system")
	must(t, err)
	scheduler, err := kubernetes.NewForConfig(config)
	must(t, err)
	bind := func(name, placement string, options ...option) *v1.Pod {
		t.Helper()
		s.create(t, podOf(name, append(options, func(p *v1.Pod) { p.Spec.SchedulerName = "none" })...))
		must(t, scheduler.CoreV1().Pods(space).Bind(t.Context(), &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{placementKey: placement}},
			Target:     v1.ObjectReference{Kind: "Node", Name: local.NodeName},
		}, metav1.CreateOptions{}))
		return s.runs(t, name)
	}
	s.start(t, "neighbour")
	hash := s.kubectl(t, "get", "nodetopology", local.NodeName, "-o", "jsonpath={.spec.hash}")

	// The CPU does not exist: the agent chooses another CPU and writes it into the annotation.
	bind("absent", placementOf(hash, "1000"), pinned)
	s.settled(t)
	s.event(t, space, "absent", "CPUPinned")
	if has := s.placement(t, "absent", "app"); len(has.cpus) != 1 || !has.cpus.in(online()) {
		t.Errorf("absent has CPUs %s", has.cpus)
	}
	// Another pod already has these CPUs, and no other CPU is free.
	has := s.placement(t, "absent", "app").cpus
	bind("overlapping", placementOf(hash, has.String()), pinned)
	s.event(t, space, "overlapping", "PlacementRefused")
	s.settled(t)
	if now := s.placement(t, "absent", "app").cpus; !now.equal(has) {
		t.Errorf("absent has CPUs %s, and had %s", now, has)
	}
	s.remove(t, "overlapping", "absent")

	// A wrong hash alone must not cause a refusal.
	bind("hash", placementOf("0000000000000000", "1"), pinned)
	s.settled(t)
	s.event(t, space, "hash", "CPUPinned")
	if has := s.placement(t, "hash", "app"); !has.cpus.equal(list{1: true}) {
		t.Errorf("hash has CPUs %s", has.cpus)
	}
	s.remove(t, "hash")

	// More CPUs than the limit.
	bind("greedy", placementOf(hash, "0-1"), pinned)
	s.settled(t)
	s.event(t, space, "greedy", "CPUPinned")
	if has := s.placement(t, "greedy", "app"); len(has.cpus) != 1 {
		t.Errorf("greedy has CPUs %s", has.cpus)
	}
	s.remove(t, "greedy")

	// A placement for a pod that does not ask for CPUs.
	p := bind("unasked", placementOf(hash, "0"), limited("1"))
	s.event(t, space, "unasked", "PlacementRefused", "does not ask")
	if masks, _ := s.groupOf(t, id(p, "app")).masks(true); len(masks) != 1 || !masks[0].equal(online()) {
		t.Errorf("unasked runs on %s", masks)
	}

	// Another account must not write placements.
	mine := podOf("mine", pinned, annotated(placementKey, placementOf(hash, "0")))
	if _, err := s.client.CoreV1().Pods(space).Create(t.Context(), mine, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("anybody brings a placement along: %v", err)
	}
}

// placementOf returns a placement for the container app.
func placementOf(hash, cpus string) string {
	out, err := json.Marshal(map[string]any{
		"v": 1, "topology": hash,
		"containers": map[string]any{"app": map[string]string{"cpus": cpus, "mems": "0", "policy": "exclusive"}},
	})
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(out)
}
