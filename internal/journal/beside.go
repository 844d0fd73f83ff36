package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/berth-project/berth/internal/plan"
)

// Beside is the journal of another part of Berth, which that part writes: it is read without a lock,
// again each time that its file has changed. It is safe for concurrent use.
type Beside struct {
	dir, boot string
	kinds     plan.Kinds

	mu      sync.Mutex
	read    fs.FileInfo // nil for no file
	entries map[plan.Place]Entry
}

// NewBeside returns the journal of a directory, of which nothing is read yet. bootID and kinds are as
// in Open.
func NewBeside(stateDir, bootID string, kinds plan.Kinds) *Beside {
	return &Beside{dir: stateDir, boot: bootID, kinds: kinds}
}

// Entry returns what is on record of the place of a target, whichever way leads to it, as the file is
// now, and false for nothing. Of a damaged file it knows what can be read. The error is that of Load.
func (b *Beside) Entry(t plan.Target) (Entry, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refresh(); err != nil {
		return Entry{}, false, err
	}
	e, known := b.entries[t.Place()]
	return e, known, nil
}

func (b *Beside) refresh() error {
	now, err := os.Stat(filepath.Join(b.dir, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		b.read, b.entries = nil, nil
		return nil
	}
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	if was := b.read; was != nil && os.SameFile(was, now) && was.Size() == now.Size() && was.ModTime().Equal(now.ModTime()) {
		return nil
	}
	snapshot, err := Load(b.dir, b.kinds)
	if err != nil {
		return err
	}
	b.read, b.entries = now, map[plan.Place]Entry{}
	held, _ := snapshot.Of(b.boot)
	for _, e := range held {
		b.entries[e.Target.Place()] = e
	}
	return nil
}
