package node

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/test/cluster/local"
)

const (
	localityKey  = "koordinator.sh/memoryLocality"
	localityDone = "koordinator.sh/memory-locality-status"
)

// memoryLocality requests memory on the NUMA node of a pod's CPUs: by annotation, by an invalid annotation, and by the
// ConfigMap of the documentation. This machine has one node, so no page moves, and the agent reports that there is no
// target. The tour tests a node with two.
func (s *stage) memoryLocality(t *testing.T) {
	s.start(t, "neighbour")
	s.start(t, "local", pinned, annotated(localityKey, `{"policy":"bestEffort"}`))
	first := s.skipped(t, "local", nil)

	s.annotate(t, "local", localityKey, `{"policy":"bestEffort","targetLocalityRatio":101}`)
	s.event(t, space, "local", "InvalidPolicy", localityKey, "targetLocalityRatio", "101", "allowed")

	text, err := os.ReadFile("../testdata/seeds/ml-config.yaml")
	must(t, err)
	var config v1.ConfigMap
	must(t, yaml.UnmarshalStrict(text, &config))
	s.configMap(t, config.Namespace, config.Name, config.Data)
	must(t, s.patch(t.Context(), "local", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, localityKey)))
	s.skipped(t, "local", first)
	invalid, err := s.client.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=InvalidPolicy"})
	must(t, err)
	for _, e := range invalid.Items {
		if strings.Contains(e.Message, config.Name) {
			t.Errorf("the ConfigMap of the documentation: %s", e.Message)
		}
	}
	if p, err := s.get(t, "neighbour"); err != nil || p.Annotations[localityDone] != "" {
		t.Errorf("a pod of the shared pool, which did not ask, has the status %s, %v", p.Annotations[localityDone], err)
	}
	for key, value := range config.Data {
		config.Data[key] = strings.Replace(value, `"policy"`, `"targetLocalityRatio": 101, "policy"`, 1)
	}
	s.configMap(t, config.Namespace, config.Name, config.Data)
	s.event(t, metav1.NamespaceDefault, local.NodeName, "InvalidPolicy", config.Name, "memoryLocality.targetLocalityRatio", "101", "allowed")
}

// skipped waits until the agent reports for a pod that there is no target, later than the earlier result if given.
func (s *stage) skipped(t *testing.T, pod string, before *v1alpha1.MemoryLocalityResult) *v1alpha1.MemoryLocalityResult {
	t.Helper()
	const skipped = "MemoryLocalitySkipped"
	if text := s.event(t, space, pod, skipped); text != "no target numa" {
		t.Errorf("%s says %q", skipped, text)
	}
	var status v1alpha1.MemoryLocalityStatus
	s.eventually(t, "the status of "+pod, func() string {
		p, err := s.get(t, pod)
		if err != nil {
			return err.Error()
		}
		said := p.Annotations[localityDone]
		if status = (v1alpha1.MemoryLocalityStatus{}); json.Unmarshal([]byte(said), &status) != nil || status.LastResult == nil ||
			before != nil && !status.LastResult.CompletedTime.After(before.CompletedTime) {
			return fmt.Sprintf("so far %q", said)
		}
		return ""
	})
	last := *status.LastResult
	if status.Phase != v1alpha1.MemoryLocalityClosed || last.Result != "Skipped" || last.CompletedTimeLocalityRatio != 100 || last.CompletedTimeRemotePages != 0 {
		t.Errorf("the status of %s is %s", pod, status.Encode())
	}
	return &last
}
