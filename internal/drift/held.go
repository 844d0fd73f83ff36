package drift

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/berth-project/berth/internal/driver"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/tuner"
)

// ErrHeld says that a host profile has set what somebody else is about to set, or is about to set it again.
var ErrHeld = errors.New("a host profile has set it")

// setAgain is for how long after a boot the agent leaves a committed profile its targets: the unit berth-tune starts
// after the agent, and tries every half minute, ten times.
const setAgain = 10 * time.Minute

// Held returns what answers whether a host profile has set a target: nil for no, else ErrHeld, with the
// profile, or why that is not known. A list has one owner, who alone knows what it was: of two, the first that
// puts back what it found takes the value of the other one for a stranger's.
//
// Where the journal of profiles cannot be read, the record of what is applied answers. It is on disk before the
// first entry, names each target that may have one, and goes after the last entry; and no command changes a
// profile while it cannot read the journal. Each answer tells first whether that is so, nil for no.
//
// For the first ten minutes of a boot, by boottime (CLOCK_BOOTTIME), a committed profile that is not in force yet has
// its targets as well. Otherwise the agent, which starts first, takes a list of it, and the whole profile is refused.
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
			if broken != nil { // whose error has advice that the journal cannot be read for
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

// awaited is the name of a committed profile that is set again soon. It matches ErrHeld.
type awaited string

func (a awaited) Error() string {
	return fmt.Sprintf("profile %s is committed, and berth-tune sets it again within the first ten minutes of a boot: take it out of the profile, or berth tune rollback", string(a))
}

func (a awaited) Is(target error) bool { return target == ErrHeld }

// returning is the record of profiles while a boot is young. It is safe for concurrent use.
type returning struct {
	dir, boot string
	boottime  func() time.Duration

	mu     sync.Mutex
	read   fs.FileInfo // nil for nothing that was read
	record tuner.Applied
}

// has returns an error that matches ErrHeld where the committed profile has a target, and what is wrong with the
// record. Once the boot is older, it reads nothing, and both are nil.
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

// refresh reads the record where its file has changed.
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
	if !is { // gone since the look
		now = nil
	}
	r.read, r.record = now, record
	return nil
}
