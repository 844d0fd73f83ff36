package agent

import (
	"strings"
	"testing"
	"time"
)

// After a restart, a second file claims the group of a running workload by its cgroup or its unit. The workload that
// had the group keeps it, and the second workload waits.
func TestHolderKeepsItsGroupOverARestart(t *testing.T) {
	const unit = "db.service"
	for name, second := range map[string]string{"group": "cgroup: " + unit, "unit": "systemdUnit: " + unit} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, m *machine) {
				file := func(name, spec string) {
					m.write("etc/workloads/"+name+".yaml", "apiVersion: berth.dev/v1alpha1\nkind: Workload\nmetadata: {name: "+name+
						`, annotations: {koordinator.sh/cpuBurst: '{"policy":"cfsQuotaBurstOnly"}'}}`+"\nspec: {"+spec+"}\n")
				}
				m.addGroup(unit, "50000 100000")
				file("mine", "cgroup: "+unit)
				m.boot()
				m.run(2*checkpointEvery, 0)
				m.kill()
				file("a-copy", second)
				m.boot()
				m.run(2*time.Second, 0)
				states := map[string]string{}
				m.controls.mu.Lock()
				for _, w := range m.controls.checkpoint().Workloads {
					states[w.Name] = string(w.State) + " " + w.Reason
				}
				m.controls.mu.Unlock()
				if !strings.HasPrefix(states["mine"], string(StateActive)) || !strings.HasPrefix(states["a-copy"], string(StatePending)) {
					t.Errorf("states %v", states)
				}
				if err := m.stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
