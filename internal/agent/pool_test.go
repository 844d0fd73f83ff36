package agent

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A name in sharedPool without a group on this host is a problem for as long as the group is missing. The agent reports
// the problem each time it begins.
func TestSharedPoolWithoutGroup(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.write("etc/agent.yaml", "workloadDir: workloads\nstateDir: state\nsharedPool: [user.slice, sytem.slice]\n")
		m.addGroup("user.slice", "max 100000")
		m.boot()
		const problem = `agent.yaml: field sharedPool[1]: value "sytem.slice": allowed: a group of this host`
		has := func(want bool) {
			t.Helper()
			m.run(2*checkpointEvery, 0)
			m.controls.mu.Lock()
			all := m.controls.checkpoint().Problems
			m.controls.mu.Unlock()
			if slices.ContainsFunc(all, func(p string) bool { return strings.Contains(p, problem) }) != want || !want && len(all) > 0 {
				t.Errorf("problems %q", all)
			}
		}
		has(true)
		m.addGroup("sytem.slice", "max 100000")
		has(false)
		m.write("etc/agent.yaml", "workloadDir: workloads\nstateDir: state\nsharedPool: [user.slice, mine.slice]\n")
		m.run(2*time.Second, 0)
		if m.told(`mine.slice`) != 1 || m.told("sytem.slice") != 1 {
			t.Errorf("log %s", m.log)
		}
		if err := m.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A workload may lose CPUs when the shared CPUs change, or later when systemd has moved it. The agent then lowers its
// quota at once, and does not use its old CPUs for up to five seconds.
func TestFewerCPUsAtOnce(t *testing.T) {
	for name, late := range map[string]time.Duration{"with the shared CPUs": 0, "through systemd": 1500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, m *machine) {
				const full = "100000 100000"
				m.workload(policy20)
				m.addGroup(app, full)
				m.boot()
				m.run(11*time.Second, 0.1) // past the full read every five seconds
				wantQuota(t, m, "299998 100000")
				m.write("sys/devices/system/cpu/online", "0-2\n")
				if late > 0 {
					m.run(late, 0.1)
				}
				wantQuota(t, m, "299998 100000")
				m.write("sys/fs/cgroup/"+app+"/cpuset.cpus.effective", "0\n")
				m.run(2200*time.Millisecond, 0.1)
				wantQuota(t, m, full)
				if err := m.stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
