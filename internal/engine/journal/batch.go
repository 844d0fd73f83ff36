package journal

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/engine/plan"
)

// Record records changes that another writer is about to make, such as a container runtime at Berth's request. It does
// Begin for each target without an entry, with Change.From as its original, and Intend for each target. An entry of
// another group under the same name is replaced. All records are one write and at most one sync. The sync happens only
// for new originals, or for values that outlive a boot. After an error nothing is recorded, and the changes must not be
// made. The errors are those of Begin.
func (j *Journal) Record(changes []plan.Change, since time.Time) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	staged := map[plan.Place]Entry{} // a target may change twice
	var records []record
	for _, c := range changes {
		if c.Value == "" {
			return fmt.Errorf("record %s: no value: %w", c, ErrBadEntry)
		}
		e, known := staged[c.Place()]
		if !known {
			e, known = j.entries.entry(c.Place())
		}
		if known && !e.IsOf(j.kinds, c.ID, c.From) {
			records = append(records, targetRecord(kindForget, c.Target))
			known = false
		}
		if !known {
			e = j.fresh(Entry{
				Target: c.Target, ID: c.ID, Original: c.From, Owner: c.Owner, Workload: c.Workload, Why: c.Why, Since: since,
			})
			if err := e.check(); err != nil {
				return fmt.Errorf("record %s: %w", c, err)
			}
			records = append(records, originalRecord(e))
		}
		r := intentRecord(j.kinds, e, c)
		records = append(records, r)
		staged[c.Place()] = e.intend(j.kinds, r)
	}
	if len(records) == 0 {
		return nil
	}
	if err := j.book(records...); err != nil {
		return fmt.Errorf("record %d changes: %w", len(changes), err)
	}
	return nil
}
