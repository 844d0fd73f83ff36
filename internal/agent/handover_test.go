package agent

import (
	"testing"
	"time"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/plan"
)

// While another agent decides, the CPUs that pods have for themselves are not the pool's.
func TestPoolWhileAnotherDecides(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		given, _ := m.overtaken("podx/c")
		pool := func() int {
			time.Sleep(2 * time.Second) // some passes
			c := m.controls
			c.mu.Lock()
			defer c.mu.Unlock()
			var guard burst.NodeStatus
			if err := c.burst.Outcome(time.Now()).Node.Decode("node", &guard); err != nil {
				t.Fatal(err)
			}
			return guard.PoolCPUs
		}
		if got := pool(); got != 4-given.Size() {
			t.Fatalf("the pool has %d CPUs", got)
		}
		m.controls.mu.Lock()
		m.controls.inventory.Kubelet(inventory.Obstacle{Reason: inventory.OtherAgent, Message: "another agent"}, "")
		m.controls.mu.Unlock()
		if got := pool(); got != 4-given.Size() {
			t.Errorf("while another agent decides the pool has %d CPUs", got)
		}
	})
}

// What another writer did to a quota is forgotten when the group runs without one meanwhile.
func TestLeftQuotaIsTakenUpAfterExclusiveCPUs(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.loses()
		m.end()
		c := m.controls
		rounds := func(n int, unlimited map[string]bool) {
			for range n {
				now := c.opts.Clock()
				c.roster.Find(now)
				c.burst.Decide(&capability.Node{Now: now, Online: c.cpus.Online, Unlimited: unlimited})
				time.Sleep(time.Second)
			}
		}
		rounds(1, map[string]bool{app: true})
		target := cgroupfile.Target(app, cgroup.KnobMax) // place takes it over
		e, known := m.journal.Entry(target)
		if !known {
			t.Fatal("there is no entry")
		}
		lifted := plan.Setting{Target: target, ID: e.ID, Value: "max 100000", Owner: plan.OwnerPlace}
		if err := m.journal.Intend(plan.Change{Setting: lifted, From: "70000 100000"}); err != nil {
			t.Fatal(err)
		}
		m.write("sys/fs/cgroup/app/cpu.max", "max 100000\n")
		rounds(5, map[string]bool{app: true})
		wantState(t, m, StateOff)
		if err := m.journal.Forget(target); err != nil { // place puts back what a resize made of it
			t.Fatal(err)
		}
		m.write("sys/fs/cgroup/app/cpu.max", "60000 100000\n")
		rounds(3, nil)
		wantState(t, m, StateActive)
		if err := c.stop(); err != nil {
			t.Error(err)
		}
		m.closeJournal()
	})
}

// The law goes by the kernel's burst that is in force, also one of another writer under a
// policy that moves the quota alone, and also right after a write.
func TestForeignBurstStaysInTheLaw(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(`{"policy":"cfsQuotaBurstOnly","cfsQuotaBurstPercent":300,"cfsQuotaBurstPeriodSeconds":10}`)
		m.boot()
		m.run(time.Second, 0.1)
		m.write("sys/fs/cgroup/app/cpu.max.burst", "40000\n")
		m.run(6*time.Second, 1.2)
		for range 300 {
			m.run(100*time.Millisecond, 1.2)
			if s := m.status(); s.Burst == nil || s.Burst.KernelBurst != 40000 {
				t.Fatalf("the law knows of %s", m.statusJSON())
			}
		}
	})
}
