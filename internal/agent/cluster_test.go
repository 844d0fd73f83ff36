package agent

import (
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/containers"
	"github.com/berth-project/berth/internal/node/statedir"
)

// joins makes the machine a node of a cluster whose API server never answers.
func (m *machine) joins() {
	m.t.Helper()
	client, err := cluster.New(cluster.Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Node: "n", Identity: "i"})
	if err != nil {
		m.t.Fatal(err)
	}
	c := m.controls
	c.mu.Lock()
	defer c.mu.Unlock()
	memory := statedir.NewMemory(c.opts.Config.StateDir, c.opts.BootID)
	c.join(&connections{client: client, memory: memory, runtime: new(containers.Runtime)})
}

// told returns how often a text was logged.
func (m *machine) told(text string) int {
	m.controls.mu.Lock()
	defer m.controls.mu.Unlock()
	return strings.Count(m.log.String(), text)
}

// events returns the events of the view.
func (m *machine) events() []view.Event {
	m.controls.mu.Lock()
	defer m.controls.mu.Unlock()
	return m.controls.counts.events.All()
}

// The agent reports a fault in a pod's annotation when it appears, and again when it appears a second time. It
// remembers nothing of a pod that is gone.
func TestFaultsOfPodsAreToldAnew(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		m.joins()
		c := m.controls
		says := func(annotations ...string) {
			var pods []*cluster.Pod
			for _, a := range annotations {
				pods = append(pods, &cluster.Pod{Key: "ns/p", Pod: workload.Pod{
					Namespace: "ns", Name: "p", UID: "u", Annotations: map[string]string{"koordinator.sh/cpuBurst": a},
					Containers: []workload.Container{{Name: "c", Resources: workload.Resources{CPULimit: 1000}}},
				}})
			}
			c.mu.Lock()
			c.inventory.Take(&cluster.Snapshot{Generation: 1, Pods: pods, PodsFrom: cluster.APIServer})
			c.cluster.stale = true
			c.mu.Unlock()
			time.Sleep(2 * time.Second) // a pass
		}
		const bad, good = `{"policy": "nonsense"}`, `{"policy": "none"}`
		for i, want := range []int{1, 1, 1, 2, 2} {
			says([]string{bad, bad, good, bad, good}[i])
			if n := m.told(v1alpha1.EventInvalidPolicy); n != want {
				t.Errorf("step %d: reported %d times, want %d", i, n, want)
			}
		}
		says(bad)
		says()
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.reported) != 0 {
			t.Errorf("kept of a pod that is gone: %v", c.reported)
		}
	})
}

// The agent logs a peer's ConfigMap that its file does not list once for as long as the ConfigMap exists.
func TestIgnoredConfigMapIsLoggedOnce(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		m.joins()
		c := m.controls
		for i, want := range []int{1, 1, 1, 2} {
			s := &cluster.Snapshot{Generation: uint64(i), PodsFrom: cluster.APIServer, ConfigMaps: strategy.Maps{
				strategy.ACKConfig: {strategy.KeyBurst: `{"clusterStrategy": {"policy": "auto"}}`},
			}}
			if i == 2 {
				s.ConfigMaps = nil
			}
			c.mu.Lock()
			c.inventory.Take(s)
			c.reportProblems()
			c.mu.Unlock()
			text := `"ConfigMap ignored" configMap=kube-system/ack-slo-config reason="readPeerConfig in the agent's file does not list ack-slo"`
			if n := m.told(text); n != want {
				t.Errorf("step %d: logged %d times, want %d", i, n, want)
			}
		}
	})
}
