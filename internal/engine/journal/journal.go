package journal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/berth-project/berth/internal/engine/plan"
)

// Journal is the open journal of the process that has locked the state directory. It is safe for concurrent use.
type Journal struct {
	dir      string
	boot     string
	kinds    plan.Kinds
	lock     *os.File
	recovery Recovery

	mu      sync.Mutex
	file    *journalFile // nil once closed
	entries entries
	rewrite int64 // the file size at which Tidy rewrites next
	changed atomic.Uint64
}

// Begin records an original before the first write to its target. When it returns nil, the record is on disk. Begin
// fills in Entry.Boot, Entry.Lifetime and Entry.Writes. Errors: ErrExists when the target has an entry, ErrBadEntry, or
// the file system's; after an error nothing may be written to the target.
func (j *Journal) Begin(e Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e = j.fresh(e)
	if err := e.check(); err != nil {
		return err
	}
	if _, known := j.entries.at[e.Target.Place()]; known {
		return fmt.Errorf("begin %s: %w", e.Target, ErrExists)
	}
	if err := j.book(originalRecord(e)); err != nil {
		return fmt.Errorf("begin %s: %w", e.Target, err)
	}
	return nil
}

// fresh fills in the fields of a new entry that the journal knows.
func (j *Journal) fresh(e Entry) Entry {
	e.Boot, e.Lifetime, e.Writes = j.boot, j.kinds.Lifetime(e.Target), 0
	return e
}

// Intend records that c.Value is about to be written over c.From. Unless c.Value is the original, c.Owner owns the
// entry from then on. Intend waits for the disk only where the value outlives a boot. Errors: ErrNoEntry without a
// Begin, or the file system's; after an error nothing may be written, unless c.Value is the original.
func (j *Journal) Intend(c plan.Change) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, known := j.entries.entry(c.Place())
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

// Made records the value that the host made of the last intent of a target that it may apply in part. Made does not
// wait for the disk: without the record, every value on the way is treated as Berth's. Errors: ErrNoEntry, or the file
// system's.
func (j *Journal) Made(t plan.Target, v plan.Value) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, known := j.entries.entry(t.Place())
	if !known || e.Intent == "" {
		return fmt.Errorf("made of %s: %w", t, ErrNoEntry)
	}
	if err := j.book(madeRecord(e, v)); err != nil {
		return fmt.Errorf("made of %s: %w", t, err)
	}
	return nil
}

// Rebase replaces the original of a target by a value that Berth did not write and that the workload's own spec
// confirms. Either the new original is in effect now, or Berth wrote over it before it was confirmed. The journal still
// knows the values that Berth wrote. When Rebase returns nil, the record is on disk; after an error the old original
// stays valid. Only the owner of the entry knows what its values mean: for any other owner the error is ErrNotOwner.
// Without an entry the error is ErrNoEntry.
func (j *Journal) Rebase(t plan.Target, owner plan.Owner, original plan.Value) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, known := j.entries.entry(t.Place())
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

// KeepThreads replaces the threads of an entry. It does not wait for the disk. Without an entry the error is
// ErrNoEntry; after any error the entry has its previous threads.
func (j *Journal) KeepThreads(t plan.Target, threads []Thread) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, known := j.entries.entry(t.Place())
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

// Forget drops the entry of a target whose original is in effect again, or which is gone. The entry is dropped in
// memory even when the record cannot be written; a reader of the file then finds the original in effect. Without an
// entry, Forget does nothing.
func (j *Journal) Forget(t plan.Target) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, known := j.entries.at[t.Place()]; !known {
		return nil
	}
	j.entries.remove(t.Place())
	j.changed.Add(1)
	if err := j.book(targetRecord(kindForget, t)); err != nil {
		return fmt.Errorf("forget %s: %w", t, err)
	}
	return nil
}

// Entry returns the entry of the target's place, whichever driver wrote there.
func (j *Journal) Entry(t plan.Target) (Entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, known := j.entries.entry(t.Place())
	return e, known
}

// Entries returns all entries, sorted by object and knob.
func (j *Journal) Entries() []Entry {
	return j.Select(nil)
}

// Changed counts the changes of the entries: while it stays the same, so does Entries.
func (j *Journal) Changed() uint64 { return j.changed.Load() }

// Select returns the entries that match, all when match is nil, sorted like Entries. It calls match with the journal
// locked, so match must not call the journal.
func (j *Journal) Select(match func(Entry) bool) []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.entries.sorted(match)
}

// Recovery returns what Open or Salvage found and did. A later Tidy that had room for a new file adds the name under
// which it kept the damaged file.
func (j *Journal) Recovery() Recovery {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.recovery
}

// Close closes the journal and unlocks the state directory. The entries stay in the file for the next Open.
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

// book writes records, all or none, and applies them to the entries. A record of a way back (a restored original, a
// forgotten entry) uses space that is reserved for it. book accepts any other record only if that space stays reserved
// for every entry.
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
	j.changed.Add(1)
	return nil
}

// demands reports what a record needs. grows is true when the way back does not need the record. durable is true when
// the record must be on disk before the host is written, since a power loss does not undo that write.
func (j *Journal) demands(r record) (grows, durable bool) {
	e, _ := j.entries.entry(r.target().Place())
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

// spare is the space, in bytes, to reserve for the way back of all entries.
func (j *Journal) spare() int64 {
	var sum int64
	for _, e := range j.entries.order {
		sum += reserveFor(e.Target)
	}
	return sum
}

// reserveFor is the maximum size, in bytes, of an intent and a forget record for a target: names may grow sixfold when
// JSON escapes them.
func reserveFor(t plan.Target) int64 {
	const frames, escaped = 512, 6
	return frames + 2*escaped*int64(len(t.Driver)+len(t.Object)+len(t.Knob))
}

// growth is the number of bytes by which the file grows before Tidy rewrites it.
const growth = 1 << 20

// Tidy rewrites the file without its history once it has grown by more than 1 MiB. The rewrite waits for the disk
// several times, so call Tidy when no change is under way: appending a record never rewrites the file. Until a rewrite
// is due, Tidy only compares two numbers. After an error the old file stays in use, and the next attempt comes after as
// much growth again. Errors: the file system's, and ErrClosed.
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

// replace writes the header and all entries to a new file and continues with that file.
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
		_ = j.file.close() // the new file has its content
	}
	j.file = file
	return err
}
