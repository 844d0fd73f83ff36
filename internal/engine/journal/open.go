package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/berth-project/berth/internal/engine/plan"
)

// Recovery reports what a writer found in the state directory and did about it. The zero value means that there was
// nothing to do.
type Recovery struct {
	// Torn reports that a crash cut off the last line, which was dropped.
	Torn bool
	// Dropped is the number of entries of another boot that were dropped.
	Dropped int
	// Damage is damage despite which the writer continued, as a *DamageError. Salvage continues despite any damage,
	// Open only despite damage to a journal of another boot.
	Damage error
	// Kept is the second name of the damaged file, "" when none was needed or possible. Where NoRoom prevented the
	// replacement of the journal, the damaged file itself stays in use with its whole content. The next rewrite then
	// gives it a second name.
	Kept string
	// NoRoom is why the journal could not be rewritten or its space not be reserved, most often a full disk. The
	// journal then accepts no new originals, but the way back is open.
	NoRoom error
}

// Notes returns sentences that report the recovery to an administrator. It is empty for the zero value. It includes the
// damage, although Salvage continues despite it.
func (r Recovery) Notes() []string {
	var notes []string
	if r.Torn {
		notes = append(notes, "the last record of the journal was cut off by a crash and is dropped")
	}
	if r.Dropped > 0 {
		notes = append(notes, fmt.Sprintf("entries of an earlier boot are dropped, since no cgroup survives a reboot: %d", r.Dropped))
	}
	if r.Damage != nil {
		notes = append(notes, fmt.Sprintf("%v; every entry that can be read is used", r.Damage))
	}
	if r.Kept != "" {
		notes = append(notes, "the damaged journal is kept as "+r.Kept)
	}
	if r.Damage != nil && r.Kept == "" {
		notes = append(notes, "the damaged journal stays in use, and what it holds stays in it, until there is room for a new one")
	}
	if r.NoRoom != nil {
		notes = append(notes, fmt.Sprintf("the journal takes no new originals, only the way back: %v", r.NoRoom))
	}
	return notes
}

// Open locks the state directory, which it creates with mode 0700 if it is missing, and reads the journal. bootID is
// the boot id of the running kernel: Open drops entries of another boot, unless their values outlive a boot. kinds
// defines how the values of each kind of target compare. Errors: a *LockedError (ErrLocked) while another process has
// locked the directory, a *DamageError (ErrDamaged), ErrVersion, or the file system's, such as a disk too full for a
// new journal.
func Open(stateDir, bootID string, kinds plan.Kinds) (*Journal, error) {
	return open(stateDir, bootID, kinds, false)
}

// Salvage is Open for a damaged journal: it gives the file a second name and continues with every entry that can be
// read. It is for rollback only; an agent must not start from an incomplete journal.
func Salvage(stateDir, bootID string, kinds plan.Kinds) (*Journal, error) {
	return open(stateDir, bootID, kinds, true)
}

func open(stateDir, bootID string, kinds plan.Kinds, salvage bool) (*Journal, error) {
	if bootID == "" {
		return nil, fmt.Errorf("open journal in %s: no boot id: %w", stateDir, ErrBadEntry)
	}
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	lock, err := acquire(stateDir)
	if err != nil {
		return nil, err
	}
	j := &Journal{dir: stateDir, boot: bootID, kinds: kinds, lock: lock, entries: newEntries()}
	if err := j.adopt(salvage); err != nil {
		return nil, errors.Join(err, release(lock))
	}
	j.rewrite = j.file.size + growth
	return j, nil
}

// adopt reads the file and prepares it for appending.
func (j *Journal) adopt(salvage bool) error {
	snapshot, err := Load(j.dir, j.kinds)
	if err != nil {
		return err
	}
	here, dropped := snapshot.Of(j.boot)
	for _, e := range here {
		j.entries.put(e)
	}
	j.recovery.Dropped = dropped
	// Damage that a power loss did to records of another boot matters only where some of them outlive the boot. It is
	// then no fault of the file: everything that was synced can be read.
	foreign := snapshot.Boot != "" && snapshot.Boot != j.boot
	if snapshot.Damage != nil && (!foreign || len(j.entries.order) > 0) {
		if !salvage && !foreign {
			return snapshot.Damage
		}
		j.recovery.Damage = snapshot.Damage
	}
	j.recovery.Torn = snapshot.Torn && !foreign
	return j.settle(snapshot, salvage)
}

// settle opens the file, and rewrites it if it contains anything but the header and the entries of this boot. A
// rollback does not wait for the rewrite where the file can be used as it is. Disk writes need kernel threads, and the
// settings that the rollback undoes may keep these threads from running.
func (j *Journal) settle(s Snapshot, salvage bool) error {
	clean := s.Boot == j.boot && s.Damage == nil && !s.Torn && (salvage || s.records == len(j.entries.order)+1)
	if !clean {
		err := j.replace()
		if err == nil {
			return nil
		}
		j.recovery.NoRoom = err
	}
	if j.file == nil {
		if err := j.reopen(s); err != nil {
			return errors.Join(j.recovery.NoRoom, err)
		}
	}
	if clean && salvage { // the space that its writer reserved is still reserved
		return nil
	}
	if err := j.file.reserve(j.spare()); err != nil && j.recovery.NoRoom == nil {
		j.recovery.NoRoom = err
	}
	return nil
}

// keepDamaged gives a damaged file a second name right before it is replaced: a file in use is no copy, since records
// are appended to it. A link needs no data space.
func (j *Journal) keepDamaged() error {
	if j.recovery.Damage == nil || j.recovery.Kept != "" {
		return nil
	}
	file := filepath.Join(j.dir, fileName)
	for n := 1; ; n++ {
		name := file + ".damaged-" + strconv.Itoa(n)
		err := os.Link(file, name)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("keep damaged journal: %w", err)
		}
		j.recovery.Kept = name
		return nil
	}
}

// reopen continues with the old file in place, where there is no room for a new file. A file without entries to retain
// is worthless if it is of another boot, or has neither header nor damage. A new header then uses its space.
func (j *Journal) reopen(s Snapshot) error {
	worthless := len(j.entries.order) == 0 && (s.Boot != "" && s.Boot != j.boot || s.Boot == "" && s.Damage == nil)
	if worthless {
		s.sound = 0
	}
	file, err := j.openOld(s)
	if err != nil {
		return err
	}
	if worthless {
		line, err := encode(headerRecord(j.boot))
		if err == nil {
			err = file.append(line)
		}
		if err == nil {
			err = file.sync()
		}
		if err != nil {
			return errors.Join(err, file.close())
		}
	}
	j.file = file
	return nil
}

// openOld opens the old file. It cuts off everything after the last good line, except in a damaged file, of which there
// is no copy.
func (j *Journal) openOld(s Snapshot) (*journalFile, error) {
	if j.recovery.Damage != nil {
		return openWhole(s.File, s.size, s.partial)
	}
	return openFile(s.File, s.sound)
}
