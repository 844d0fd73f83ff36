package manifest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"path/filepath"
	"syscall"
)

// Fingerprint identifies a state of the agent's file and the workload directory by names, sizes, times and inodes. The
// zero value is not a state.
type Fingerprint [sha256.Size]byte

// takeFingerprint computes the present Fingerprint. config may be empty. Errors are part of the state, so that the
// appearance of a directory is a change.
func takeFingerprint(config, dir string) Fingerprint {
	s := state{hash: sha256.New()}
	if config != "" {
		s.addFile(config)
	}
	names, err := workloadFiles(dir)
	fmt.Fprintf(s.hash, "%q %v\n", dir, err)
	for _, name := range names {
		s.addFile(filepath.Join(dir, name))
	}
	return Fingerprint(s.hash.Sum(nil))
}

// state computes a Fingerprint. An agent checks hundreds of files every second, so state stores nothing for each file.
type state struct {
	hash hash.Hash
	line []byte
}

// addFile adds what distinguishes a file from a file renamed over it. It also distinguishes a second write from the
// first if a program set the time back. addFile follows symbolic links: a ConfigMap mount changes their targets.
func (s *state) addFile(path string) {
	var stat syscall.Stat_t
	if err := syscall.Stat(path, &stat); err != nil {
		fmt.Fprintf(s.hash, "%q %v\n", path, err)
		return
	}
	s.line = append(s.line[:0], path...)
	for _, n := range [...]uint64{
		stat.Dev, stat.Ino, uint64(stat.Size), uint64(stat.Mode), uint64(stat.Ctim.Nano()), uint64(stat.Mtim.Nano()),
	} {
		s.line = binary.BigEndian.AppendUint64(s.line, n)
	}
	s.hash.Write(s.line)
}

// maxRestless bounds how many checks in a row may differ before Changed returns true: a file that always changes must
// not hide other changes.
const maxRestless = 10

// Watcher detects changes of the agent's file or a workload file. It never reads them.
type Watcher struct {
	config, dir      string
	reported, latest Fingerprint
	restless         int
}

// NewWatcher returns a Watcher of the agent's file, which may be empty, and the workload directory.
func NewWatcher(config, dir string) *Watcher {
	return &Watcher{config: config, dir: dir}
}

// Changed checks the files once and reports whether to read everything again. The first check always reports true.
// Later Changed reports a change at the first check that finds the same state as the check before. A file that is still
// being written is therefore not read in halves. A second write within the file system's clock tick, which the times do
// not show, is before the reading, not after it. Checks should therefore be at least 20 ms apart. After ten checks that
// all differ, Changed reports the change too.
func (w *Watcher) Changed() bool {
	seen := takeFingerprint(w.config, w.dir)
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
