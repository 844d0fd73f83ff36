package manifest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"path/filepath"
	"syscall"
	"time"
)

// Fingerprint identifies a state of the agent's file and the workload directory by names, sizes, times and inodes. The
// zero value is not a state.
type Fingerprint [sha256.Size]byte

// takeFingerprint computes the present Fingerprint. config may be empty. Errors are part of the state, so that the
// appearance of a directory is a change.
func takeFingerprint(config string, workloads *listing, now time.Time) Fingerprint {
	s := state{hash: sha256.New()}
	if config != "" {
		s.addFile(config)
	}
	paths, err := workloads.look(now)
	fmt.Fprintf(s.hash, "%q %v\n", workloads.dir, err)
	for _, path := range paths {
		s.addFile(path)
	}
	return Fingerprint(s.hash.Sum(nil))
}

// state computes a Fingerprint. An agent checks hundreds of files every second, so state stores nothing for each file.
type state struct {
	hash hash.Hash
	line []byte
}

// addFile adds what distinguishes a file from a file renamed over it.
func (s *state) addFile(path string) {
	is, err := factsOf(path)
	if err != nil {
		fmt.Fprintf(s.hash, "%q %v\n", path, err)
		return
	}
	s.line = append(s.line[:0], path...)
	for _, n := range is {
		s.line = binary.BigEndian.AppendUint64(s.line, n)
	}
	s.hash.Write(s.line)
}

// facts are device, inode, size, mode, and the times of the inode and of the content of a file.
type facts [6]uint64

// changed returns when the inode changed. For a directory, this is also when a file came or went.
func (f *facts) changed() time.Time { return time.Unix(0, int64(f[4])) }

// factsOf returns the facts of a file. The time of the inode distinguishes a second write from the first if a program
// set the time of the file back. factsOf follows symbolic links: a ConfigMap mount changes their targets.
func factsOf(path string) (facts, error) {
	var stat syscall.Stat_t
	err := syscall.Stat(path, &stat)
	return facts{
		stat.Dev, stat.Ino, uint64(stat.Size), uint64(stat.Mode), uint64(stat.Ctim.Nano()), uint64(stat.Mtim.Nano()),
	}, err //nolint:wrapcheck // part of the state
}

const (
	// settled is how long ago a directory must have changed for its list to be used again. A later change then has
	// another time: FAT counts 2 s, other file systems a clock tick.
	settled = 2 * time.Second
	// maxReused bounds how often in a row a list is used again: a file system without such times, as some of FUSE, does
	// not show that a file comes or goes.
	maxReused = 9
)

// listing has the workload files of a directory. To list a directory costs as much as to check its files, so look uses
// a list again while the directory stays unchanged.
type listing struct {
	dir   string
	paths []string
	// was are the facts of the directory before it was listed, and good reports whether a later change changes them.
	was    facts
	good   bool
	reused int
}

// look returns the paths of the workload files. now is the time of day.
func (l *listing) look(now time.Time) ([]string, error) {
	is, err := factsOf(l.dir)
	if l.good && err == nil && is == l.was && l.reused < maxReused {
		l.reused++
		return l.paths, nil
	}
	names, listed := workloadFiles(l.dir)
	l.was, l.reused, l.paths = is, 0, l.paths[:0]
	l.good = err == nil && listed == nil && now.Sub(is.changed()) >= settled
	for _, name := range names {
		l.paths = append(l.paths, filepath.Join(l.dir, name))
	}
	return l.paths, listed
}

// maxRestless bounds how many checks in a row may differ before Changed returns true: a file that always changes must
// not hide other changes.
const maxRestless = 10

// Watcher detects changes of the agent's file or a workload file. It never reads them.
type Watcher struct {
	config           string
	workloads        listing
	reported, latest Fingerprint
	restless         int
}

// NewWatcher returns a Watcher of the agent's file, which may be empty, and the workload directory.
func NewWatcher(config, dir string) *Watcher {
	return &Watcher{config: config, workloads: listing{dir: dir}}
}

// Changed checks the files once and reports whether to read everything again. The first check always reports true.
// Later Changed reports a change at the first check that finds the same state as the check before. A file that is still
// being written is therefore not read in halves. A second write within the file system's clock tick, which the times do
// not show, is before the reading, not after it. Checks should therefore be at least 20 ms apart. After ten checks that
// all differ, Changed reports the change too. now is the time of day.
func (w *Watcher) Changed(now time.Time) bool {
	seen := takeFingerprint(w.config, &w.workloads, now)
	calm := seen == w.latest || w.latest == Fingerprint{}
	w.latest = seen
	if calm {
		changed := seen != w.reported
		w.reported, w.restless = seen, 0
		return changed
	}
	w.restless++
	if w.restless < maxRestless {
		return false
	}
	w.reported, w.restless = Fingerprint{}, 0 // report again when the files rest
	return true
}
