package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// batch writes an offline workload, and its group with a weight.
func (m *machine) batch(annotation string) {
	m.addGroup("batch", "max 100000")
	m.write("sys/fs/cgroup/batch/cpu.weight", "79\n")
	m.write("sys/fs/cgroup/batch/cpu.idle", "0\n")
	m.annotate(annotation)
}

func (m *machine) annotate(annotation string) {
	m.write("etc/workloads/batch.yaml", `apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: batch, labels: {koordinator.sh/qosClass: BE}, annotations: {koordinator.sh/cpuQOS: '`+annotation+`'}}
spec: {cgroup: batch}
`)
}

// An offline workload is idle as its class says. Changes of its annotation take effect at once, and its weight returns
// when the agent ends.
func TestOfflineIsIdle(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.write("etc/agent.yaml", "workloadDir: workloads\nstateDir: state\n"+
			"resource-qos-config: {clusterStrategy: {beClass: {cpuQOS: {enable: true}}}}\n")
		m.batch("{}")
		m.boot()
		idle := func(want string) {
			t.Helper()
			m.run(4*time.Second, 0.1)
			if got := m.read("sys/fs/cgroup/batch/cpu.idle"); got != want {
				t.Errorf("cpu.idle is %s, want %s", got, want)
			}
		}
		idle("1")
		m.annotate(`{"enable": false}`)
		idle("0")
		m.annotate(`{"schedIdle": 1, "groupIdentity": 2}`)
		idle("1")
		m.annotate(`{"schedIdle": 7}`)
		idle("0")
		if log := m.log.String(); strings.Count(log, "InvalidPolicy") != 1 || !strings.Contains(log, "schedIdle: value 7") {
			t.Errorf("the log has\n%s", log)
		}
		m.annotate("{}")
		idle("1")
		if got := text(t, m.served().Node["isolation"]); !strings.Contains(got, `"idle":{"support":"supported"}`) {
			t.Errorf("the node has %s", got)
		}
		if err := m.stop(); err != nil {
			t.Error(err)
		}
		if idle, weight := m.read("sys/fs/cgroup/batch/cpu.idle"), m.read("sys/fs/cgroup/batch/cpu.weight"); idle != "0" || weight != "79" {
			t.Errorf("after the end cpu.idle is %s, cpu.weight %s", idle, weight)
		}
	})
}

// cfsQuota limits the group that has only offline work. Without such a group the log gives the reason.
func TestOfflineByQuota(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.write("etc/agent.yaml", "workloadDir: workloads\nstateDir: state\n"+
			"resource-threshold-config: {clusterStrategy: {enable: true, cpuSuppressPolicy: cfsQuota}}\n")
		for cpu := range 4 {
			at := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", cpu)
			m.write(at+"thread_siblings_list", fmt.Sprintf("%d\n", cpu))
			m.write(at+"core_id", fmt.Sprintf("%d\n", cpu))
			m.write(at+"physical_package_id", "0\n")
		}
		m.write("sys/fs/cgroup/cpuset.cpus.effective", "0-3\n")
		m.addGroup("all", "max 100000")
		m.addGroup("all/batch", "max 100000")
		m.write("etc/workloads/batch.yaml", `apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: batch, labels: {koordinator.sh/qosClass: BE}}
spec: {cgroup: all/batch}
`)
		m.boot()
		m.run(4*time.Second, 0.1)
		if got := m.read("sys/fs/cgroup/all/cpu.max"); got != "100000 100000" {
			t.Errorf("the quota is %s, want that of one core; the node has %s", got, text(t, m.served().Node["isolation"]))
		}
		m.addGroup("all/online", "max 100000")
		m.write("sys/fs/cgroup/all/online/cgroup.procs", "7\n")
		m.run(4*time.Second, 0.1)
		if got := m.read("sys/fs/cgroup/all/cpu.max"); got != "max 100000" || strings.Count(m.log.String(), "all has the online group online") != 1 {
			t.Errorf("beside an online group the quota is %s; the log has\n%s", got, m.log)
		}
		if err := m.stop(); err != nil {
			t.Error(err)
		}
	})
}
