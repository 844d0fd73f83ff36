package agent

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/agent/checkpoint"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/cluster"
)

// An agent that starts long after the last one ended first restores raised quotas, and then decides again. An agent
// that starts soon keeps them (TestRestartWritesNothingThatStands).
func TestOrphansGoBackFirst(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(12*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
		m.kill()
		time.Sleep(2 * orphanedAfter)
		m.makes()
		if got := m.quota(); got != atLimit {
			t.Errorf("cpu.max is %q before the first pass, want %q", got, atLimit)
		}
		m.begin()
		m.run(12*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
		_ = m.stop()
	})
}

// A value that cannot be restored is a warning with the file and the original.
func TestOrphanThatStays(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.boot()
		m.run(12*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
		m.kill()
		time.Sleep(2 * orphanedAfter)
		limit := m.path("sys/fs/cgroup/" + app + "/cpu.max")
		if err := errors.Join(os.Remove(limit), os.Mkdir(limit, 0o755)); err != nil {
			t.Fatal(err)
		}
		m.makes()
		m.closeJournal()
		at := -1
		lines := strings.Split(m.log.String(), "\n")
		for i, line := range lines {
			if strings.Contains(line, "before anything else") && strings.Contains(line, "cpu.max") {
				at = i
			}
		}
		if at < 0 || !strings.Contains(lines[at], "level=WARN") || !strings.Contains(lines[at], "outcome=failed") || !strings.Contains(lines[at], `original="50000 100000"`) || !strings.Contains(lines[at], limit) {
			t.Errorf("line %d of:\n%s", at, m.log)
		}
	})
}

// divides applies lists as a dead agent left them: one group on each side of a boundary, and optionally a pinned group.
func (m *machine) divides(lists map[string]plan.Owner) {
	m.t.Helper()
	var changes []plan.Change
	for list, owner := range lists {
		group := string(owner)
		m.addGroup(group, "max 100000")
		m.write("sys/fs/cgroup/"+group+"/cpuset.cpus", "\n")
		target := cgroupfile.Target(group, cgroup.KnobCPUs)
		stands := m.controls.opts.settles.Read([]plan.Target{target})[0]
		if stands.Err != nil {
			m.t.Fatal(stands.Err)
		}
		m.write("sys/fs/cgroup/"+group+"/cpuset.cpus.effective", list+"\n")
		changes = append(changes, plan.Change{From: stands.Value, Setting: plan.Setting{Target: target, ID: stands.ID, Value: plan.Value(list), Owner: owner, Workload: group}})
	}
	for _, r := range m.controls.opts.settles.Apply(changes) {
		if r.Err != nil {
			m.t.Fatal(r.Err)
		}
	}
}

// lists returns the CPUs of these groups.
func (m *machine) lists(groups ...plan.Owner) string {
	var all []string
	for _, group := range groups {
		all = append(all, m.read("sys/fs/cgroup/"+string(group)+"/cpuset.cpus"))
	}
	return strings.Join(all, " ")
}

// A new agent that does not hear from the runtime removes a dead agent's boundary after a minute, or when it is stopped
// earlier. No group gets the CPUs of a pinned group. Without a pinned group the originals return.
func TestBoundaryFallsWhileHeld(t *testing.T) {
	const pool, isolate, place = plan.OwnerPool, plan.OwnerIsolate, plan.OwnerPlace
	for name, test := range map[string]struct {
		lists                   map[string]plan.Owner
		stands, falls, inEffect string
	}{
		"beside a pinned group": {map[string]plan.Owner{"0": place, "1": pool, "2-3": isolate}, "1 2-3 0", "1-3 1-3 0", "1-3"},
		"alone":                 {map[string]plan.Owner{"0-1": pool, "2-3": isolate}, "0-1 2-3", " ", "0-3"},
	} {
		groups := []plan.Owner{pool, isolate, place}[:len(test.lists)]
		for _, waits := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stopped %t", name, !waits), func(t *testing.T) {
				in(t, func(t *testing.T, m *machine) {
					m.makes()
					m.joins()
					m.divides(test.lists)
					m.begin()
					m.run(50*time.Second, 0)
					if got := m.lists(groups...); got != test.stands {
						t.Errorf("before a minute was over the lists are %q", got)
					}
					for _, group := range groups { // the kernel's view after the write
						if group != place {
							m.write("sys/fs/cgroup/"+string(group)+"/cpuset.cpus.effective", test.inEffect+"\n")
						}
					}
					if waits {
						m.run(20*time.Second, 0)
					} else if err := m.stop(); err != nil {
						t.Error(err)
					}
					if got := m.lists(groups...); got != test.falls {
						t.Errorf("the lists are %q, want %q", got, test.falls)
					}
					if waits {
						_ = m.stop()
					}
				})
			})
		}
	}
}

// While the agent is held, it retries each minute what it cannot restore. It warns once, and again when the problem
// changes, when it is held again, and when it ends.
func TestBoundaryThatStaysIsSaidOnce(t *testing.T) {
	const pool, isolate, place = plan.OwnerPool, plan.OwnerIsolate, plan.OwnerPlace
	for text, lists := range map[string]map[string]plan.Owner{
		"not put back": {"0-1": pool, "2-3": isolate},
		"not widened":  {"0": place, "1": pool, "2-3": isolate},
	} {
		t.Run(text, func(t *testing.T) {
			in(t, func(t *testing.T, m *machine) {
				m.makes()
				m.joins()
				m.divides(lists)
				list := m.path("sys/fs/cgroup/" + string(isolate) + "/cpuset.cpus")
				if err := errors.Join(os.Remove(list), os.Mkdir(list, 0o755)); err != nil {
					t.Fatal(err)
				}
				warned := func(when string, want int) {
					t.Helper()
					got := 0
					for line := range strings.Lines(m.log.String()) {
						if strings.Contains(line, "level=WARN msg="+strconv.Quote(text)) && strings.Contains(line, "nobody moves it") && strings.Contains(line, list) {
							got++
						}
					}
					if got != want {
						t.Errorf("%s: %d warnings, want %d", when, got, want)
					}
				}
				m.begin()
				m.run(3*orphanedAfter, 0)
				warned("after three minutes", 1)
				if err := os.Remove(list); err != nil {
					t.Fatal(err)
				}
				m.run(2*orphanedAfter, 0)
				warned("of another problem", 2)
				m.controls.mu.Lock()
				m.controls.turns.unmoved.is = false // as if the runtime had reported for a moment
				m.controls.mu.Unlock()
				m.run(2*orphanedAfter, 0)
				warned("held again", 3)
				if err := m.stop(); !errors.Is(err, ErrNotRestored) {
					t.Errorf("stop: %v, want %v", err, ErrNotRestored)
				}
				warned("at the end", 4)
			})
		})
	}
}

// Another agent that holds the Lease of the node may have pinned groups that this journal does not have. The boundary
// stays.
func TestBoundaryStaysBesideAnotherAgent(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.makes()
		m.joins()
		m.divides(map[string]plan.Owner{"0-1": plan.OwnerPool, "2-3": plan.OwnerIsolate})
		c := m.controls
		c.inventory.Take(&cluster.Snapshot{Generation: 1, PodsFrom: cluster.APIServer, Lease: cluster.Lease{Other: "another"}})
		m.begin()
		m.run(2*orphanedAfter, 0)
		_ = m.stop()
		if got := m.lists(plan.OwnerPool, plan.OwnerIsolate); got != "0-1 2-3" {
			t.Errorf("the lists are %q", got)
		}
	})
}

// Orphans are raised quotas and boundaries of an agent that has recently written neither its checkpoint nor a journal
// entry.
func TestOrphaned(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(owner plan.Owner, ago time.Duration) []journal.Entry {
		return []journal.Entry{{Owner: plan.OwnerPlace, Since: now.Add(-time.Hour)}, {Owner: owner, Since: now.Add(-ago)}}
	}
	const uptime = 2 * time.Hour
	last := func(boot string, ago time.Duration) checkpoint.Checkpoint {
		return checkpoint.Checkpoint{BootID: boot, Written: now.Add(-ago), Clock: uptime - ago}
	}
	set := func(by time.Duration, c checkpoint.Checkpoint) checkpoint.Checkpoint { // the wall clock was set by this much since
		c.Written = c.Written.Add(-by)
		return c
	}
	older := func(c checkpoint.Checkpoint) checkpoint.Checkpoint { c.Clock = 0; return c }
	for name, c := range map[string]struct {
		entries []journal.Entry
		last    checkpoint.Checkpoint
		want    bool
	}{
		"none":                                 {nil, last("this", time.Hour), false},
		"what does not move":                   {at(plan.OwnerPool, time.Hour), last("this", time.Hour), false},
		"a raised quota":                       {at(plan.OwnerBurst, time.Hour), last("this", orphanedAfter), true},
		"a boundary":                           {at(plan.OwnerIsolate, time.Hour), last("this", orphanedAfter), true},
		"a quick successor":                    {at(plan.OwnerBurst, time.Hour), last("this", orphanedAfter-1), false},
		"before its checkpoint":                {at(plan.OwnerBurst, orphanedAfter-1), checkpoint.Checkpoint{}, false},
		"no checkpoint":                        {at(plan.OwnerBurst, orphanedAfter), checkpoint.Checkpoint{}, true},
		"a checkpoint of last boot":            {at(plan.OwnerBurst, time.Hour), last("that", 0), true},
		"an entry after it":                    {at(plan.OwnerBurst, orphanedAfter-1), last("this", orphanedAfter+1), false},
		"the clock set forward":                {at(plan.OwnerBurst, time.Hour), set(30*time.Minute, last("this", time.Second)), false},
		"set forward since, and then an entry": {at(plan.OwnerBurst, 0), set(24*time.Hour, last("this", orphanedAfter+checkpointEvery)), true},
		"the clock set back":                   {at(plan.OwnerBurst, time.Hour), set(-30*time.Minute, last("this", orphanedAfter)), true},
		"of an older agent":                    {at(plan.OwnerBurst, time.Hour), older(last("this", orphanedAfter)), true},
		"just by an older agent":               {at(plan.OwnerBurst, time.Hour), older(last("this", orphanedAfter-1)), false},
	} {
		opts := Options{BootID: "this", Now: func() time.Time { return now }, Clock: func() time.Duration { return uptime }}
		if got := orphaned(c.entries, silence(c.entries, c.last, opts)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
