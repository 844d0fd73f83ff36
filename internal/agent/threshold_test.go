package agent

import (
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/node/cluster"
)

// The ConfigMap's threshold of the shared pool has precedence over the agent's file. The file's threshold applies again
// when the ConfigMap or its field is removed.
func TestSharePoolThresholdFollows(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		m.joins()
		c := m.controls
		file := func(percent string) {
			m.write("etc/agent.yaml", "workloadDir: workloads\nstateDir: state\ncpu-burst-config: {clusterStrategy: {sharePoolThresholdPercent: "+percent+"}}\n")
		}
		says := func(configMap string) {
			maps := strategy.Maps{}
			if configMap != "" {
				maps[strategy.BerthConfig] = map[string]string{strategy.KeyBurst: configMap}
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.inventory.Take(&cluster.Snapshot{Generation: 1, ConfigMaps: maps, PodsFrom: cluster.APIServer})
			c.cluster.stale = true
		}
		for _, step := range []struct {
			what string
			do   func()
			want float64
		}{
			{"the file", func() { file("40") }, 0.4},
			{"a ConfigMap", func() { says(`{"clusterStrategy": {"sharePoolThresholdPercent": 20}}`) }, 0.2},
			{"another file under it", func() { file("60") }, 0.2},
			{"a ConfigMap without the field", func() { says(`{"clusterStrategy": {"policy": "none"}}`) }, 0.6},
			{"a ConfigMap", func() { says(`{"clusterStrategy": {"sharePoolThresholdPercent": 20}}`) }, 0.2},
			{"no ConfigMap", func() { says("") }, 0.6},
		} {
			step.do()
			time.Sleep(3 * time.Second) // some passes
			c.mu.Lock()
			var guard burst.NodeStatus
			if err := c.built.burst.Outcome(time.Now()).Node.Decode("node", &guard); err != nil || guard.Threshold != step.want {
				t.Errorf("%s: %v, want %v: %v", step.what, guard.Threshold, step.want, err)
			}
			c.mu.Unlock()
		}
	})
}
