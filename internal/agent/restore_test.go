package agent

import (
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/strategy"
	"github.com/berth-project/berth/test/newcomer"
)

// saysState has berth-config say a state, or with "" nothing of it, and the loop turn.
func (m *machine) saysState(state string) {
	data := map[string]string{}
	if state != "" {
		data[strategy.KeyState] = state
	}
	c := m.controls
	c.mu.Lock()
	c.inventory.Take(&cluster.Snapshot{
		Generation: 2, PodsFrom: cluster.APIServer, Node: cluster.Node{UID: "n", AllocatableMilli: 4000},
		Pods: []*cluster.Pod{c.inventory.Pod("u")}, ConfigMaps: strategy.Maps{strategy.BerthConfig: data},
	})
	c.reportProblems()
	c.stale = true
	c.mu.Unlock()
	m.run(4*time.Second, 0.1)
}

// restoreRetry is longer than a value waits that could not be put back.
const restoreRetry = 12 * time.Second

// effective has the kernel use these CPUs for the pinned container, and for the sandbox of its pod.
func (m *machine) effective(own, box string) {
	m.write("sys/fs/cgroup/podp/c/cpuset.cpus.effective", own+"\n")
	m.write("sys/fs/cgroup/podp/box/cpuset.cpus.effective", box+"\n")
}

// pinnable is what the NodeTopology would say, as "status reason: message".
func (m *machine) pinnable() string {
	c := m.controls
	c.mu.Lock()
	defer c.mu.Unlock()
	var status v1alpha1.NodeTopologyStatus
	c.pins.AddConditions(&status, c.assignment.Snapshot(), c.reconciler)
	one := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPinnable)
	return string(one.Status) + " " + one.Reason + ": " + one.Message
}

// TestRestoreByConfiguration: while berth-config says so, everything that any capability wrote is
// as it was, but for what another program wrote since, and stays so; then all is done again.
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
		m.saysState("off") // no value: the last good one counts
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

// TestRestoreBeforeAnyPass: a container that starts with what the runtime was answered, and of which
// no pass has journaled anything when everything is to go back, is not left on few CPUs, nor without
// its quota. The condition says that all is back once that is so.
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

// TestRestoreWithoutFiles: a workload directory that cannot be read does not keep anything from going
// back. Nothing that its files asked for counts meanwhile.
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
