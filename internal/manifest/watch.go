package manifest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"path/filepath"
	"syscall"
)

// Fingerprint identifies a state of the agent's file and of the workload
// directory by names, sizes, times and inodes. The zero value is no state.
type Fingerprint [sha256.Size]byte

// TakeFingerprint looks once. config may be empty. What cannot be read is part
// of the state, so that a directory that appears is a change.
func TakeFingerprint(config, dir string) Fingerprint {
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

// state is what a Fingerprint is of. An agent looks once a second at files of which there
// may be hundreds, so that nothing is kept of each.
type state struct {
	hash hash.Hash
	line []byte
}

// addFile adds what distinguishes a file from one that was renamed over it, and a second
// write from the first where another program set the time back. It follows symbolic links:
// a ConfigMap mount changes what they lead to.
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

// maxRestless bounds how many looks in a row may differ before a change is
// reported all the same: a file that never rests must not hide the others.
const maxRestless = 10

// Watcher finds out whether the agent's file or a workload file changed. It
// never reads them.
type Watcher struct {
	config, dir      string
	reported, latest Fingerprint
	restless         int
}

// NewWatcher returns a Watcher of the agent's file, which may be empty, and
// the workload directory.
func NewWatcher(config, dir string) *Watcher {
	return &Watcher{config: config, dir: dir}
}

// Changed looks once and says whether everything should be read again. The
// first look always says so. Later a change is reported at the first look that
// sees the same as the one before: a file that is still being written is not
// read in halves, and a second write within the file system's clock tick,
// which leaves no trace in the times, is before the reading and not after it.
// Looks should therefore be at least 20 ms apart. After ten looks that all
// differ the change is reported too.
func (w *Watcher) Changed() bool {
	seen := TakeFingerprint(w.config, w.dir)
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
	w.reported, w.restless = Fingerprint{}, 0 // to be read once more when it rests
	return true
}
