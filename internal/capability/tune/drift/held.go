package drift

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
)

// ErrHeld means that a host profile has set, or is about to set again, the target of another writer.
var ErrHeld = errors.New("a host profile has set it")

// setAgain is how long after a boot the agent leaves a committed profile its targets: the unit berth-tune starts after
// the agent, and tries every half minute, ten times.
const setAgain = 10 * time.Minute

// Held returns a function that checks whether a host profile has set a target. It returns nil if not, ErrHeld with the
// profile, or why that is unknown. A list has only one owner, who alone knows its original: of two owners, the first to
// restore would mistake the other's value for a foreign one.
//
// If the journal of profiles cannot be read, the record of the applied profile decides. The record is on disk before
// the first entry, names each target that may have an entry, and is removed after the last entry. No command changes a
// profile while it cannot read the journal. Each call first calls unreadable with the error of such a read, or nil.
//
// For the first ten minutes of a boot, by boottime (CLOCK_BOOTTIME), a committed profile that is not yet in force also
// has its targets. Otherwise the agent, which starts first, writes one of its lists, and the whole profile is refused.
func Held(stateDir, bootID string, boottime func() time.Duration, unreadable func(error)) func(plan.Target) error {
	dir := filepath.Join(stateDir, tuner.Subdir)
	profiles := journal.NewBeside(dir, bootID, driver.Values())
	committed := returning{dir: dir, boot: bootID, boottime: boottime}
	return func(t plan.Target) error {
		e, held, err := profiles.Entry(t)
		profile := e.Workload
		if err != nil {
			err = fmt.Errorf("host profiles: %w: until it can be read, by the Berth that wrote it or with other rights, lists of the profile on record are left alone", err)
		}
		again, damaged := committed.has(t)
		if err == nil && damaged != nil {
			unreadable(damaged)
		} else {
			unreadable(err)
		}
		if err != nil {
			record, is, broken := tuner.Load(dir)
			if broken != nil { // its error has advice that needs a readable journal
				return fmt.Errorf("%w; nor can the record: no new list is written", err)
			}
			profile, held = record.Profile.Name, is && record.Has(t, bootID)
		}
		if held {
			return fmt.Errorf("%w: %s: take it out of the profile, or berth tune rollback", ErrHeld, profile)
		}
		return errors.Join(again, damaged)
	}
}

// awaited is the name of a committed profile that will be set again soon. It matches ErrHeld.
type awaited string

func (a awaited) Error() string {
	return fmt.Sprintf("profile %s is committed, and berth-tune sets it again within the first ten minutes of a boot: take it out of the profile, or berth tune rollback", string(a))
}

func (a awaited) Is(target error) bool { return target == ErrHeld }

// returning is the record of profiles early in a boot. It is safe for concurrent use.
type returning struct {
	dir, boot string
	boottime  func() time.Duration

	mu     sync.Mutex
	read   fs.FileInfo // nil if nothing was read
	record tuner.Applied
}

// has returns an error that matches ErrHeld if the committed profile has a target, and any damage of the record. After
// setAgain it reads nothing and returns nil.
func (r *returning) has(t plan.Target) (held, damaged error) {
	if r.boottime() >= setAgain {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.refresh(); err != nil {
		return nil, fmt.Errorf("host profiles: %w; until then no new list is written within the first ten minutes of a boot", err)
	}
	if profile, is := r.record.Returns(t, r.boot); is {
		return awaited(profile), nil
	}
	return nil, nil
}

// refresh reads the record if its file has changed.
func (r *returning) refresh() error {
	file := tuner.RecordFile(r.dir)
	now, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		r.read, r.record = nil, tuner.Applied{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what is applied: %w", err)
	}
	if was := r.read; was != nil && os.SameFile(was, now) && was.Size() == now.Size() && was.Mode() == now.Mode() && was.ModTime().Equal(now.ModTime()) {
		return nil
	}
	record, is, err := tuner.Load(r.dir)
	if err != nil {
		return err
	}
	if !is { // gone since the stat
		now = nil
	}
	r.read, r.record = now, record
	return nil
}
