package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/test/patience"
)

// selector is the ConfigMap that selects pods by label.
const (
	selectorSpace = "koordinator-system"
	selectorName  = "cfs-quota-burst-cm"
)

// burstPolicy returns a policy that always takes effect, however busy the node is: percent of the limit.
func burstPolicy(percent int) string {
	return fmt.Sprintf(`{"policy":"cpuBurstOnly","cpuBurstPercent":%d}`, percent)
}

// change changes the policy of a running pod, by its annotation and by the ConfigMap that selects it, and waits for the
// file of its control group.
func (s *stage) change(t *testing.T) {
	changes := number(t, "BERTH_NODE_CHANGES", 20)
	p := s.start(t, "changed", limited("300m"), labelled("app", "changed"), annotated(burstKey, burstPolicy(20)))
	dir := s.groupOf(t, id(p, "app")).dir
	s.awaitBurst(t, dir, 20)
	var byAnnotation, byMap []time.Duration
	for i := range changes {
		percent := 30 + 10*(i%5)
		begin := time.Now()
		s.annotate(t, "changed", burstKey, burstPolicy(percent))
		s.awaitBurst(t, dir, percent)
		byAnnotation = append(byAnnotation, time.Since(begin))
	}
	must(t, s.patch(t.Context(), "changed", `{"metadata":{"annotations":{"`+burstKey+`":null}}}`))
	s.awaitBurst(t, dir, 0)
	for i := range changes {
		percent := 30 + 10*(i%5)
		begin := time.Now()
		s.configMap(t, selectorSpace, selectorName, map[string]string{"app": "changed", "cpu-burst-config": burstPolicy(percent)})
		s.awaitBurst(t, dir, percent)
		byMap = append(byMap, time.Since(begin))
	}
	for name, all := range map[string][]time.Duration{"annotation": byAnnotation, "ConfigMap": byMap} {
		for _, q := range []float64{0.5, 0.99} {
			s.figure(t, fmt.Sprintf("%s to file p%g, ms (n=%d)", name, q*100, len(all)), quantile(all, q).Milliseconds())
		}
	}
}

// awaitBurst waits until a group with a limit of 300m has that burst, in percent.
func (s *stage) awaitBurst(t *testing.T, dir string, percent int) {
	t.Helper()
	want := fmt.Sprint(300 * percent) // Microseconds: 30 ms of each period of 100 ms.
	must(t, patience.Until(t.Context(), 2*time.Millisecond, func() string {
		if b := burst(dir); b != want {
			return fmt.Sprintf("the burst of %s is %s, want %s", dir, b, want)
		}
		return ""
	}))
}

// groupOf waits for the group of a container.
func (s *stage) groupOf(t *testing.T, id string) group {
	t.Helper()
	var found group
	s.eventually(t, "the group of "+id, func() string {
		for _, g := range groups() {
			if g.id == id {
				found = g
				return ""
			}
		}
		return "none"
	})
	return found
}

// configMap creates or changes a ConfigMap, and removes it when the test ends.
func (s *stage) configMap(t *testing.T, namespace, name string, data map[string]string) {
	t.Helper()
	_, err := s.client.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	maps := s.client.CoreV1().ConfigMaps(namespace)
	m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
	_, err = maps.Update(t.Context(), m, metav1.UpdateOptions{})
	if !apierrors.IsNotFound(err) {
		must(t, err)
		return
	}
	_, err = maps.Create(t.Context(), m, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		err := maps.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) {
			must(t, err)
		}
	})
}
