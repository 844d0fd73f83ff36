package agent

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/unit"
)

// While another agent decides, the shared pool still excludes the exclusive CPUs of pods.
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
			if err := c.built.burst.Outcome(time.Now()).Node.Decode("node", &guard); err != nil {
				t.Fatal(err)
			}
			return guard.PoolCPUs
		}
		if got := pool(); got != 4-given.Size() {
			t.Fatalf("the pool has %d CPUs", got)
		}
		m.controls.mu.Lock()
		m.controls.inventory.Kubelet(observed.Obstacle{Reason: observed.OtherAgent, Message: "another agent"}, "")
		m.controls.mu.Unlock()
		if got := pool(); got != 4-given.Size() {
			t.Errorf("while another agent decides the pool has %d CPUs", got)
		}
	})
}

// The agent forgets another writer's quota once the group has run without a quota for its exclusive CPUs.
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
				c.documents.roster.Find(now)
				c.built.burst.Decide(&capability.Node{Now: now, Online: c.hardware.CPUs.Online, Unlimited: unlimited})
				time.Sleep(time.Second)
			}
		}
		rounds(1, map[string]bool{app: true})
		target := cgroupfile.Target(app, cgroup.KnobMax) // place becomes the owner
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
		if err := m.journal.Forget(target); err != nil { // place restores the value of a resize
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

// The burst law uses the kernel's burst in effect. That includes another writer's burst under a policy that moves the
// quota alone, and right after a write.
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

// A burst that Berth did not write belongs to the kubelet or another writer. It stays, enters the law, and is no
// conflict. The kernel would accept every value seen here: no quota is below the burst.
func TestKubeletsOwnBurst(t *testing.T) {
	const file = "sys/fs/cgroup/app/cpu.max.burst"
	in(t, func(t *testing.T, m *machine) {
		m.write(file, "20000\n")
		files := 0
		named := func(limit int) {
			files++ // so that the file's size changes and the agent reads it again
			m.workload(`{"policy":"auto","cfsQuotaBurstPercent":300,"cfsQuotaBurstPeriodSeconds":10}`,
				fmt.Sprintf(`, cpu: {limit: "%dm"%s}`, limit/100, strings.Repeat(" ", files)))
		}
		named(50000)
		m.boot()
		r := rand.New(rand.NewPCG(1, 0))
		limit, burst, raised := 50000, 20000, 0
		for range 400 {
			switch r.IntN(8) {
			case 0: // the kubelet resizes the container and its burst
				limit = 100 * (100 + r.IntN(900))
				burst = min(limit, 1000*(1+r.IntN(100)))
				named(limit)
				m.run(2500*time.Millisecond, 0.1)
				m.write("sys/fs/cgroup/app/cpu.max", strconv.Itoa(limit)+" 100000\n")
				m.write(file, strconv.Itoa(burst)+"\n")
			case 1:
				burst = min(limit, 1000*(1+r.IntN(100)))
				m.write(file, strconv.Itoa(burst)+"\n")
			}
			m.run(time.Duration(r.IntN(2000))*time.Millisecond, m.rate(float64(r.IntN(4))))
			if quota := int(math.Round(m.rate(10) * 100000)); quota < burst {
				t.Fatalf("a quota of %d stands below the burst of %d", quota, burst)
			} else if quota > limit {
				raised++
			}
			if got := m.read(file); got != strconv.Itoa(burst) {
				t.Fatalf("the burst is %s, its writer wrote %d", got, burst)
			}
		}
		m.run(6*time.Second, 0) // the agent reads everything again
		s := wantState(t, m, StateActive)
		if s.Burst.KernelBurst != unit.Micros(burst) || !slices.ContainsFunc(s.Warnings, func(w string) bool { return strings.Contains(w, "another program's") }) {
			t.Errorf("status %s", m.statusJSON())
		}
		if raised == 0 || strings.Contains(m.log.String(), v1alpha1.EventHostDrift) {
			t.Errorf("raised %d times; log %s", raised, m.log)
		}
		_ = m.stop()
		if got := m.read(file); got != strconv.Itoa(burst) {
			t.Errorf("after stop the burst is %s, its writer wrote %d", got, burst)
		}
	})
}

// A burst that another program writes over Berth's is left to that program at once. Berth writes its burst once more
// after another program has set it to 0.
func TestBurstWrittenOver(t *testing.T) {
	const file = "sys/fs/cgroup/app/cpu.max.burst"
	for written, want := range map[string]string{"0": "50000", "30000": "30000"} {
		in(t, func(t *testing.T, m *machine) {
			m.workload(`{"policy":"auto"}`)
			m.boot()
			m.run(2*time.Second, 0.1)
			if got := m.read(file); got != "50000" {
				t.Fatalf("the burst is %s", got)
			}
			m.write(file, written+"\n")
			m.run(10*time.Second, 0.1)
			if got := m.read(file); got != want {
				t.Errorf("after another program's %s the burst is %s, want %s", written, got, want)
			}
		})
	}
}
