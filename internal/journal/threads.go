package journal

import (
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/plan"
)

// Thread is the affinity that one thread gave itself.
type Thread struct {
	// TID and Start name the thread: its id, and when it started, in clock ticks after
	// boot.
	TID   int    `json:"tid"`
	Start uint64 `json:"start"`
	// CPUs are those that it asked for, as far as its group had them, and Without those of
	// its group that it did not ask for; both in the kernel's format.
	CPUs    string `json:"cpus"`
	Without string `json:"without,omitempty"`
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
	if err := j.grow(r, 0); err != nil {
		return fmt.Errorf("threads of %s: %w", t, err)
	}
	e.Threads = r.Threads
	j.entries[t.Place()] = e
	return nil
}
