package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/berth-project/berth/internal/engine/plan"
)

// Beside reads the journal that another part of Berth writes. It reads without a lock, and reads again whenever the
// file has changed. It is safe for concurrent use.
type Beside struct {
	dir, boot string
	kinds     plan.Kinds

	mu      sync.Mutex
	read    fs.FileInfo // nil without a file
	entries map[plan.Place]Entry
}

// NewBeside returns a Beside for the journal in stateDir, without reading it yet. bootID and kinds are as in Open.
func NewBeside(stateDir, bootID string, kinds plan.Kinds) *Beside {
	return &Beside{dir: stateDir, boot: bootID, kinds: kinds}
}

// Entry returns the recorded entry of the target's place, whichever driver wrote there, as the file is now, and false
// if there is none. From a damaged file it returns the entries that can be read. The error is that of Load.
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
