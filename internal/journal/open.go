package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/berth-project/berth/internal/plan"
)

// Recovery says what a writer found in the state directory and did about it.
// The zero value says that there was nothing to do.
type Recovery struct {
	// Torn says that the last line was cut off by a crash and was dropped.
	Torn bool
	// Dropped counts the entries of another boot, which were dropped.
	Dropped int
	// Damage is the damage that Salvage read past, as a *DamageError.
	Damage error
	// Kept is the copy of the damaged file, "" when none was needed or possible. Where NoRoom kept the journal from
	// being replaced, the damaged file itself stays in use, with all that it holds, and the next rewrite keeps it.
	Kept string
	// NoRoom is why the journal could not be rewritten or its space not be
	// reserved, most often a full disk. It takes no new originals then, but
	// the way back is open.
	NoRoom error
}

// Notes says in sentences what there is to report to an administrator, and is empty
// for the zero value. The damage is among them, though Salvage goes on.
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

// Open locks the state directory, made with mode 0700 if it is missing, and
// reads the journal. bootID is that of the running kernel: entries of another
// are dropped, unless what they are about outlives a boot. kinds says how the values
// of each kind of target compare. Errors: a *LockedError (ErrLocked) while another process holds
// the directory, a *DamageError (ErrDamaged), ErrVersion, or the file
// system's, which includes a disk too full to make a new journal.
func Open(stateDir, bootID string, kinds plan.Kinds) (*Journal, error) {
	return open(stateDir, bootID, kinds, false)
}

// Salvage is Open for a damaged journal: it keeps the file aside under another
// name and goes on with every entry that can be read. It is for rollback only;
// an agent must not start from a journal with holes.
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
	j := &Journal{dir: stateDir, boot: bootID, kinds: kinds, lock: lock, entries: make(entries)}
	if err := j.adopt(salvage); err != nil {
		return nil, errors.Join(err, release(lock))
	}
	j.rewrite = j.file.size + growth
	return j, nil
}

// adopt reads the file and makes it fit for appending.
func (j *Journal) adopt(salvage bool) error {
	snapshot, err := Load(j.dir, j.kinds)
	if err != nil {
		return err
	}
	here, dropped := snapshot.Of(j.boot)
	for _, e := range here {
		j.entries[e.Target.Place()] = e
	}
	j.recovery.Dropped = dropped
	// What a power loss did to records of another boot matters only where some of
	// them outlive it. It is no fault of the file then: what was synced can be read.
	foreign := snapshot.Boot != "" && snapshot.Boot != j.boot
	if snapshot.Damage != nil && (!foreign || len(j.entries) > 0) {
		if !salvage && !foreign {
			return snapshot.Damage
		}
		j.recovery.Damage = snapshot.Damage
	}
	j.recovery.Torn = snapshot.Torn && !foreign
	return j.settle(snapshot, salvage)
}

// settle opens the file, rewritten if it holds anything but header and entries of
// this boot in the format of today. Who only goes back does not wait for that where the file serves as it is: the disk
// waits for threads of the kernel, which what is to be undone may keep from running.
func (j *Journal) settle(s Snapshot, salvage bool) error {
	clean := s.version == version && s.Boot == j.boot && s.Damage == nil && !s.Torn && (salvage || s.records == len(j.entries)+1)
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
	if clean && salvage { // what its writer reserved is reserved still
		return nil
	}
	if err := j.file.reserve(j.spare()); err != nil && j.recovery.NoRoom == nil {
		j.recovery.NoRoom = err
	}
	return nil
}

// keepDamaged gives a damaged file a second name right before it is replaced: a file in use is no copy, since records
// are appended to it. A link takes no data space.
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

// reopen goes on with the old file in place, where there is no room for a new
// one. Of a file without any entry of this boot nothing is worth keeping, and
// its space is what a new header needs.
func (j *Journal) reopen(s Snapshot) error {
	worthless := len(j.entries) == 0 && (s.Boot != "" && s.Boot != j.boot || s.Boot == "" && s.Damage == nil)
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

// openOld opens the old file. What follows its last good line is cut off, but of a damaged file, of which there is no copy.
func (j *Journal) openOld(s Snapshot) (*journalFile, error) {
	if j.recovery.Damage != nil {
		return openWhole(s.File, s.size, s.partial)
	}
	return openFile(s.File, s.sound)
}
