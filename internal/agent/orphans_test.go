package agent

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/checkpoint"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// An agent that comes long after the last one ended puts raised quotas back before anything else, and
// then decides anew. One that comes soon goes on with them (TestRestartWritesNothingThatStands).
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

// What cannot go back is a warning, with what was to be written where.
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

// Orphans are what moves, of an agent that neither wrote its checkpoint nor came to an entry lately.
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
	set := func(by time.Duration, c checkpoint.Checkpoint) checkpoint.Checkpoint { // who set the wall clock, since
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
