package agent

import (
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/test/newcomer"
)

// saysState sets the state in berth-config, "" for none, and runs the loop.
func (m *machine) saysState(state string) {
	data := map[string]string{}
	if state != "" {
		data[strategy.KeyState] = state
	}
	c := m.controls
	c.mu.Lock()
	c.inventory.Take(&cluster.Snapshot{
		Generation: 2, PodsFrom: cluster.APIServer, Node: cluster.Node{UID: "n", AllocatableMilli: 4000},
		Pods: []*cluster.Pod{c.inventory.Pods.Pod("u")}, ConfigMaps: strategy.Maps{strategy.BerthConfig: data},
	})
	c.reportProblems()
	c.cluster.stale = true
	c.mu.Unlock()
	m.run(4*time.Second, 0.1)
}

// restoreRetry is longer than the delay before the agent retries a failed restore.
const restoreRetry = 12 * time.Second

// effective sets the effective CPUs of the pinned container and of its pod's sandbox.
func (m *machine) effective(own, box string) {
	m.write("sys/fs/cgroup/podp/c/cpuset.cpus.effective", own+"\n")
	m.write("sys/fs/cgroup/podp/box/cpuset.cpus.effective", box+"\n")
}

// pinnable returns the NodeTopology's condition as "status reason: message".
func (m *machine) pinnable() string {
	c := m.controls
	c.mu.Lock()
	defer c.mu.Unlock()
	var status v1alpha1.NodeTopologyStatus
	c.built.pins.AddConditions(&status)
	one := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPinnable)
	return string(one.Status) + " " + one.Reason + ": " + one.Message
}

// While berth-config says restore, every value that a capability wrote is back, except where another program wrote
// since. Afterwards the agent applies everything again.
func TestRestoreByConfiguration(t *testing.T) {
	inNodes(t, func(t *testing.T, m *machine, _ *moves) {
		m.workload(policy20)
		m.addGroup("bunk", atLimit)
		m.more = []capability.Capability{&newcomer.Newcomer{Settings: []plan.Desired{{Setting: plan.Setting{
			Target: cgroupfile.Target("bunk", cgroup.KnobMax), Value: "70000 100000", Owner: newcomer.Owner, Workload: "sleeper",
		}}}}}
		m.boot()
		m.pinnedPod(map[string]string{}, `{}`)
		m.run(4*time.Second, 0.1)
		files := []string{"app/cpu.max", "bunk/cpu.max", "podp/c/cpuset.cpus", "podp/c/cpuset.mems", "podp/c/cpu.max"}
		host := func() string {
			var all []string
			for _, file := range files {
				all = append(all, m.read("sys/fs/cgroup/"+file))
			}
			return strings.Join(all, ", ")
		}
		const working = atCeiling + ", 70000 100000, 0-1, 0, max 100000"
		if got := host(); got != working || m.pinnable() != "True Working: " {
			t.Fatalf("before: %s, %s", got, m.pinnable())
		}
		m.saysState("restore")
		if got := m.pinnable(); !strings.HasPrefix(got, "False Restoring: ") || !strings.HasSuffix(got, ": values that are not back yet: 2") {
			t.Errorf("while the kernel keeps lists the condition is %s", got)
		}
		m.effective("0-3", "0-3")
		m.run(restoreRetry, 0.1)
		const restored = atLimit + ", " + atLimit + ", , , 200000 100000"
		if got := host(); got != restored {
			t.Errorf("restored: %s", got)
		}
		if got := m.pinnable(); got != "False Restored: state: restore in ConfigMap berth-system/berth-config: every original value is back" {
			t.Errorf("the condition is %s", got)
		}
		if left := m.controls.journal.Entries(); len(left) > 0 {
			t.Errorf("the journal has %+v", left)
		}
		m.saysState("off") // invalid: the last valid value applies
		if got := host(); got != restored || m.told(v1alpha1.EventInvalidPolicy) != 1 {
			t.Errorf("with a bad value: %s", got)
		}
		m.saysState("")
		m.effective("0-1", "2-3")
		m.run(restoreRetry, 0.1)
		if got := host(); got != working || m.pinnable() != "True Working: " {
			t.Errorf("afterwards: %s, %s", got, m.pinnable())
		}
		m.write("sys/fs/cgroup/podp/c/cpuset.cpus", "3\n")
		m.effective("3", "0-3")
		m.saysState("restore")
		if got := m.pinnable(); !strings.HasPrefix(got, "False Restored: ") || !strings.HasSuffix(got, "; values that other programs wrote stay: 1") {
			t.Errorf("beside another writer the condition is %s", got)
		}
	})
}

// When everything is restored, a container may have started with the answer to the runtime before any pass journaled
// it. It must not stay on few CPUs or without its quota. The condition says Restored only after that.
func TestRestoreBeforeAnyPass(t *testing.T) {
	inNodes(t, func(t *testing.T, m *machine, _ *moves) {
		m.boot()
		m.pinnedPod(map[string]string{}, `{}`)
		const dir = "sys/fs/cgroup/podp/c/"
		for file, answered := range map[string]string{"cpuset.cpus": "0-1", "cpuset.mems": "0", "cpuset.mems.effective": "0"} {
			m.write(dir+file, answered+"\n")
		}
		if left := m.controls.journal.Entries(); len(left) > 0 {
			t.Fatalf("before: the journal has %+v", left)
		}
		m.saysState("restore")
		if got := m.pinnable(); !strings.HasPrefix(got, "False Restoring: ") || !strings.HasSuffix(got, ": values that are not back yet: 2") {
			t.Errorf("while the kernel keeps lists the condition is %s", got)
		}
		m.effective("0-3", "0-3")
		m.write(dir+"cpuset.mems.effective", "0-1\n")
		m.run(restoreRetry, 0.1)
		if cpus, mems, quota := m.read(dir+"cpuset.cpus"), m.read(dir+"cpuset.mems"), m.read(dir+"cpu.max"); cpus+mems != "" || quota != "200000 100000" {
			t.Errorf("CPUs %q, memory nodes %q, quota %q", cpus, mems, quota)
		}
		if got := m.pinnable(); !strings.HasPrefix(got, "False Restored: ") || !strings.HasSuffix(got, ": every original value is back") {
			t.Errorf("the condition is %s", got)
		}
	})
}

// An unreadable workload directory does not prevent the restore. Until it is readable, requests of its files have no
// effect.
func TestRestoreWithoutFiles(t *testing.T) {
	inNodes(t, func(t *testing.T, m *machine, _ *moves) {
		m.workload(policy20)
		m.boot()
		m.pinnedPod(map[string]string{}, `{}`)
		m.run(4*time.Second, 0.1)
		if got := m.quota(); got != atCeiling {
			t.Fatalf("before: %s", got)
		}
		dir := m.path("etc/workloads")
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		m.effective("0-3", "0-3")
		m.saysState("restore")
		m.run(restoreRetry, 0.1)
		if got := m.quota(); got != atLimit || !strings.HasPrefix(m.pinnable(), "False Restored: ") {
			t.Errorf("restored: %s, the condition is %s", got, m.pinnable())
		}
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
		m.saysState("")
		if got := m.quota(); got != atCeiling {
			t.Errorf("afterwards: %s", got)
		}
	})
}
