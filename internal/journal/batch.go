package journal

import (
	"fmt"
	"maps"
	"time"

	"github.com/berth-project/berth/internal/plan"
)

// Record records changes that another writer is about to make, such as a container
// runtime that was asked to: Begin for each target without an entry, with
// Change.From as its original, and Intend for each. An entry of another group
// under the same name is replaced. All of it is one write and at most one sync,
// which there is only when there are new originals, or values that outlive a boot. After an error nothing of it
// counts, and the changes must not be made. The errors are those of Begin.
func (j *Journal) Record(changes []plan.Change, since time.Time) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := batch{kinds: j.kinds, entries: make(map[plan.Place]Entry)}
	for _, c := range changes {
		e, known := b.entries[c.Place()]
		if !known {
			e, known = j.entries[c.Place()]
		}
		if err := b.add(c, e, known, j.entryOf(c, since)); err != nil {
			return fmt.Errorf("record %s: %w", c, err)
		}
	}
	if len(b.lines) == 0 {
		return nil
	}
	err := j.write(b.lines, b.reserve, true)
	if err == nil && b.sync {
		err = j.file.sync()
	}
	if err != nil {
		return fmt.Errorf("record %d changes: %w", len(changes), err)
	}
	maps.Copy(j.entries, b.entries)
	return nil
}

func (j *Journal) entryOf(c plan.Change, since time.Time) Entry {
	return Entry{
		Target: c.Target, ID: c.ID, Boot: j.boot, Lifetime: j.kinds.Lifetime(c.Target), Original: c.From,
		Owner: c.Owner, Workload: c.Workload, Why: c.Why, Since: since,
	}
}

// batch collects records that are written together.
type batch struct {
	kinds   plan.Kinds
	lines   []byte
	sync    bool  // a record has to be on disk
	reserve int64 // for the way back of new entries
	entries map[plan.Place]Entry
}

// add takes in one change: e is what is known of its target, fresh what would be
// begun.
func (b *batch) add(c plan.Change, e Entry, known bool, fresh Entry) error {
	if c.Value == "" {
		return fmt.Errorf("no value: %w", ErrBadEntry)
	}
	if known && !e.IsOf(b.kinds, c.ID, c.From) {
		if err := b.append(targetRecord(kindForget, c.Target)); err != nil {
			return err
		}
		known = false
	}
	if !known {
		if err := fresh.check(); err != nil {
			return err
		}
		if err := b.append(originalRecord(fresh)); err != nil {
			return err
		}
		e = fresh
		b.sync = true
		b.reserve += reserveFor(e)
	}
	r := intentRecord(b.kinds, e, c)
	if err := b.append(r); err != nil {
		return err
	}
	b.sync = b.sync || e.Lifetime == plan.Persistent
	b.entries[c.Place()] = e.intend(b.kinds, r)
	return nil
}

func (b *batch) append(r record) error {
	line, err := encode(r)
	if err == nil {
		b.lines = append(b.lines, line...)
	}
	return err
}
