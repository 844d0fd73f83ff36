package agent

import (
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

// Orphans are what moves, of an agent that neither wrote its checkpoint nor came to an entry lately.
func TestOrphaned(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(owner plan.Owner, ago time.Duration) []journal.Entry {
		return []journal.Entry{{Owner: plan.OwnerPlace, Since: now.Add(-time.Hour)}, {Owner: owner, Since: now.Add(-ago)}}
	}
	last := func(boot string, ago time.Duration) checkpoint.Checkpoint {
		return checkpoint.Checkpoint{BootID: boot, Written: now.Add(-ago)}
	}
	for name, c := range map[string]struct {
		entries []journal.Entry
		last    checkpoint.Checkpoint
		want    bool
	}{
		"none":                      {nil, last("this", time.Hour), false},
		"what does not move":        {at(plan.OwnerPool, time.Hour), last("this", time.Hour), false},
		"a raised quota":            {at(plan.OwnerBurst, time.Hour), last("this", orphanedAfter), true},
		"a boundary":                {at(plan.OwnerIsolate, time.Hour), last("this", orphanedAfter), true},
		"a quick successor":         {at(plan.OwnerBurst, time.Hour), last("this", orphanedAfter-1), false},
		"before its checkpoint":     {at(plan.OwnerBurst, orphanedAfter-1), checkpoint.Checkpoint{}, false},
		"no checkpoint":             {at(plan.OwnerBurst, orphanedAfter), checkpoint.Checkpoint{}, true},
		"a checkpoint of last boot": {at(plan.OwnerBurst, time.Hour), last("that", 0), true},
	} {
		if got := orphaned(c.entries, c.last, "this", now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
