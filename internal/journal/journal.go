package journal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/berth-project/berth/internal/plan"
)

// Journal is the open journal of the process that holds the state directory.
// It is safe for concurrent use.
type Journal struct {
	dir      string
	boot     string
	kinds    plan.Kinds
	lock     *os.File
	recovery Recovery

	mu      sync.Mutex
	file    *journalFile // nil once closed
	entries entries
	rewrite int64 // the size at which Tidy rewrites the file next
}

// Begin records an original before the first write to its target. When it
// returns nil the record is on disk. Entry.Boot, Entry.Lifetime and Entry.Writes are
// filled in. Errors: ErrExists when the target has an entry, ErrBadEntry, or the file
// system's; after an error nothing may be written to the target.
func (j *Journal) Begin(e Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e = j.fresh(e)
	if err := e.check(); err != nil {
		return err
	}
	if _, known := j.entries[e.Target.Place()]; known {
		return fmt.Errorf("begin %s: %w", e.Target, ErrExists)
	}
	if err := j.book(originalRecord(e)); err != nil {
		return fmt.Errorf("begin %s: %w", e.Target, err)
	}
	return nil
}

// fresh fills in what the journal knows of a new entry.
func (j *Journal) fresh(e Entry) Entry {
	e.Boot, e.Lifetime, e.Writes = j.boot, j.kinds.Lifetime(e.Target), 0
	return e
}

// Intend records that c.Value is about to be written over c.From. Unless that is
// the original, the entry is c.Owner's from then on. It waits for the disk only where
// the value outlives a boot.
// Errors: ErrNoEntry without a Begin, or the file system's; after an error nothing
// may be written, unless c.Value is the original.
func (j *Journal) Intend(c plan.Change) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, known := j.entries[c.Place()]
	if !known {
		return fmt.Errorf("intend %s: %w", c, ErrNoEntry)
	}
	if c.Value == "" {
		return fmt.Errorf("intend %s: no value: %w", c, ErrBadEntry)
	}
	if err := j.book(intentRecord(j.kinds, e, c)); err != nil {
		return fmt.Errorf("intend %s: %w", c, err)
	}
	return nil
}

// Made records what the host made of the last intent of a target, one that it may take in part. It does not wait
// for the disk: until then all on the way count as Berth's. Errors: ErrNoEntry, or the file system's.
func (j *Journal) Made(t plan.Target, v plan.Value) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, known := j.entries[t.Place()]
	if !known || e.Intent == "" {
		return fmt.Errorf("made of %s: %w", t, ErrNoEntry)
	}
	if err := j.book(madeRecord(e, v)); err != nil {
		return fmt.Errorf("made of %s: %w", t, err)
	}
	return nil
}

// Rebase replaces the original of a target by a value that Berth did not
// write and that the workload's own spec confirms. Either it stands now, or
// Berth wrote over it before it was confirmed; what Berth wrote stays known as
// its own. When Rebase returns nil the record is on disk; after an error the
// old original counts. Only the owner of the entry knows what its values mean: for
// any other one the error is ErrNotOwner, and without an entry ErrNoEntry.
func (j *Journal) Rebase(t plan.Target, owner plan.Owner, original plan.Value) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, known := j.entries[t.Place()]
	if !known {
		return fmt.Errorf("rebase %s to %s: %w", t, original, ErrNoEntry)
	}
	if original == "" {
		return fmt.Errorf("rebase %s: no value: %w", t, ErrBadEntry)
	}
	if e.Owner != owner {
		return fmt.Errorf("rebase %s to %s for %s: %w: %s", t, original, owner, ErrNotOwner, e.Owner)
	}
	r := targetRecord(kindRebase, t)
	r.Value = original
	if err := j.book(r); err != nil {
		return fmt.Errorf("rebase %s to %s: %w", t, original, err)
	}
	return nil
}

// KeepThreads replaces the threads of an entry. It does not wait for the disk. Without an
// entry the error is ErrNoEntry; after any error the threads are those from before.
func (j *Journal) KeepThreads(t plan.Target, threads []Thread) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, known := j.entries[t.Place()]
	if !known {
		return fmt.Errorf("threads of %s: %w", t, ErrNoEntry)
	}
	if slices.Equal(e.Threads, threads) {
		return nil
	}
	r := targetRecord(kindThreads, t)
	r.Threads = slices.Clone(threads)
	if err := j.book(r); err != nil {
		return fmt.Errorf("threads of %s: %w", t, err)
	}
	return nil
}

// Forget drops the entry of a target, whose original stands again or which
// is gone. The entry is dropped in memory even when the record cannot be
// written; a reader of the file then finds the original standing. Forgetting
// what is not there does nothing.
func (j *Journal) Forget(t plan.Target) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, known := j.entries[t.Place()]; !known {
		return nil
	}
	delete(j.entries, t.Place())
	if err := j.book(targetRecord(kindForget, t)); err != nil {
		return fmt.Errorf("forget %s: %w", t, err)
	}
	return nil
}

// Entry returns the entry of what the target means, whichever way it was written.
func (j *Journal) Entry(t plan.Target) (Entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, known := j.entries[t.Place()]
	return e, known
}

// Entries returns all entries, sorted by object and knob.
func (j *Journal) Entries() []Entry {
	return j.Select(nil)
}

// Select returns the entries that match, all when match is nil, sorted like Entries. What matches is asked under
// the lock of the journal, and asks nothing of it.
func (j *Journal) Select(match func(Entry) bool) []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.entries.sorted(match)
}

// Recovery says what Open or Salvage found and did. A later Tidy that had room for a new file adds where it kept the
// damaged one.
func (j *Journal) Recovery() Recovery {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.recovery
}

// Close closes the journal and gives the state directory back. Entries stay
// in the file for the next Open.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	err := j.file.close()
	j.file = nil
	return errors.Join(err, release(j.lock))
}

// book writes records, all or none, and takes them in. Those of the way back use the space
// that is reserved for it; all others leave it reserved, for every entry, behind them.
func (j *Journal) book(records ...record) error {
	if j.file == nil {
		return ErrClosed
	}
	lines, err := encodeAll(records)
	if err != nil {
		return err
	}
	spare, grows, durable := j.spare(), false, false
	for _, r := range records {
		if r.Kind == kindOriginal {
			spare += reserveFor(r.target())
		}
		growing, lasting := j.demands(r)
		grows, durable = grows || growing, durable || lasting
	}
	if grows {
		if err := j.file.reserve(int64(len(lines)) + spare); err != nil {
			return err
		}
	}
	err = j.file.append(lines)
	if err == nil && durable {
		err = j.file.sync()
	}
	if err != nil {
		return err
	}
	for _, r := range records {
		j.entries.take(j.kinds, r)
	}
	return nil
}

// demands says whether a record is one that the way back does not need, and whether it has to
// be on disk before the host is written, since a power loss does not undo that.
func (j *Journal) demands(r record) (grows, durable bool) {
	e := j.entries[r.target().Place()]
	switch r.Kind {
	case kindOriginal, kindRebase:
		return true, true
	case kindIntent:
		return !e.IsOriginal(j.kinds, r.Value), e.Lifetime == plan.Persistent
	case kindForget:
		return false, false
	default:
		return true, false
	}
}

// spare is the space to keep for the way back of all entries.
func (j *Journal) spare() int64 {
	var sum int64
	for _, e := range j.entries {
		sum += reserveFor(e.Target)
	}
	return sum
}

// reserveFor is the size of an intent and a forget record for a target, at
// most: names may grow sixfold when JSON escapes them.
func reserveFor(t plan.Target) int64 {
	const frames, escaped = 512, 6
	return frames + 2*escaped*int64(len(t.Driver)+len(t.Object)+len(t.Knob))
}

// growth is by how much the file grows before Tidy rewrites it, in bytes.
const growth = 1 << 20

// Tidy rewrites a file that has grown by more than 1 MiB, without its history.
// That waits for the disk several times, so it is for a moment when no change
// is under way: no record is ever followed by a rewrite on its own. Until one
// is due, Tidy only compares two numbers. After an error the old file serves
// on, and the next try comes after as much growth again. Errors: the file
// system's, and ErrClosed.
func (j *Journal) Tidy() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return ErrClosed
	}
	if j.file.size < j.rewrite {
		return nil
	}
	err := j.replace()
	j.rewrite = j.file.size + growth
	if err != nil {
		return fmt.Errorf("rewrite journal: %w", err)
	}
	return nil
}

// replace writes header and entries to a new file and goes on with that.
func (j *Journal) replace() error {
	records := []record{headerRecord(j.boot)}
	for _, e := range j.entries.sorted(nil) {
		records = append(records, originalRecord(e))
	}
	file, err := createFile(j.dir, records, j.spare(), j.keepDamaged)
	if file == nil {
		return err
	}
	if j.file != nil {
		_ = j.file.close() // replaced; its content lives on in the new one
	}
	j.file = file
	return err
}
