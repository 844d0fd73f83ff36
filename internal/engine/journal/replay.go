package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-project/berth/internal/engine/plan"
)

// fileName is the name of the journal in the state directory.
const fileName = "journal"

// Snapshot is the content of the journal at one moment.
type Snapshot struct {
	// File is the path of the journal.
	File string
	// Boot is the boot id of the header. It is "" when there is no header: the file is missing, empty, or its first
	// line is damaged.
	Boot string
	// Entries are sorted by object and knob. Entries of another boot are meaningless unless they are persistent (see
	// Of).
	Entries []Entry
	// Damage is the first line that no crash leaves behind, as a *DamageError, or nil. Entries has the content of the
	// other lines.
	Damage error
	// Torn reports that the last line was left out because a crash cut it off. It is also true for a moment while the
	// agent appends.
	Torn bool

	kinds   plan.Kinds
	entries entries
	records int   // good lines
	sound   int64 // end of the last good line, in bytes
	size    int64 // file size in bytes
	partial bool  // the last line has no newline
}

// Of returns the entries that are meaningful in the given boot, in order, and the number of dropped entries of another
// boot.
func (s Snapshot) Of(boot string) (entries []Entry, dropped int) {
	for _, e := range s.Entries {
		if e.meansNothing(boot) {
			dropped++
		} else {
			entries = append(entries, e)
		}
	}
	return entries, dropped
}

// Load reads the journal without locking or changing anything. A missing file is an empty journal. The error is for a
// file that cannot be read at all, or whose format is unknown (ErrVersion); damage is in the Snapshot.
func Load(stateDir string, kinds plan.Kinds) (Snapshot, error) {
	file := filepath.Join(stateDir, fileName)
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Snapshot{File: file}, fmt.Errorf("read journal: %w", err)
	}
	return replay(file, data, kinds)
}

// replay reads the lines in order.
func replay(file string, data []byte, kinds plan.Kinds) (Snapshot, error) {
	s := Snapshot{File: file, kinds: kinds, entries: newEntries(), size: int64(len(data))}
	offset := 0
	for number := 1; offset < len(data); number++ {
		line, _, complete := bytes.Cut(data[offset:], []byte("\n"))
		end := min(offset+len(line)+1, len(data))
		s.partial = !complete
		r, reason := record{}, "cut off"
		if complete {
			r, reason = decode(line)
		}
		switch {
		case reason != "" && end == len(data) && (!complete || number > 1):
			s.Torn = true
		case reason != "":
			s.damage(number, reason)
		case r.Kind == kindHeader && r.Version != version:
			return s, fmt.Errorf("%s has version %d, and this program reads only version %d: %w", file, r.Version, version, ErrVersion)
		default:
			s.book(r, number, end)
		}
		offset = end
	}
	s.Entries = s.entries.sorted(nil)
	return s, nil
}

// book applies a readable record, and notes damage when the record does not fit its position.
func (s *Snapshot) book(r record, number, end int) {
	if number == 1 && r.Kind != kindHeader {
		s.damage(number, "no header")
	}
	if reason := s.take(r, number); reason != "" {
		s.damage(number, reason)
		return
	}
	s.records++
	s.sound = int64(end)
}

// damage remembers the first damage only.
func (s *Snapshot) damage(number int, reason string) {
	if s.Damage == nil {
		s.Damage = &DamageError{File: s.File, Line: number, Reason: reason}
	}
}

// take applies one record. It returns what is wrong with the record, or "".
func (s *Snapshot) take(r record, number int) string {
	if r.Kind == kindHeader {
		if number != 1 {
			return "a second header"
		}
		s.Boot = r.Boot
		return ""
	}
	return s.entries.take(s.kinds, r)
}
