package manifest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Fingerprint identifies a state of the agent's file and of the workload
// directory by names, sizes, times and inodes. The zero value is no state.
type Fingerprint [sha256.Size]byte

// TakeFingerprint looks once. config may be empty. What cannot be read is part
// of the state, so that a directory that appears is a change.
func TakeFingerprint(config, dir string) Fingerprint {
	var state []byte
	if config != "" {
		state = appendFile(state, config)
	}
	names, err := workloadFiles(dir)
	state = fmt.Appendf(state, "%q %v\n", dir, err)
	for _, name := range names {
		state = appendFile(state, filepath.Join(dir, name))
	}
	return sha256.Sum256(state)
}

// appendFile follows symbolic links: a ConfigMap mount changes what they lead to.
func appendFile(state []byte, path string) []byte {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Appendf(state, "%q %v\n", path, err)
	}
	state = append(state, path...)
	for _, n := range append(identity(info), info.Size(), info.ModTime().UnixNano(), int64(info.Mode())) {
		state = binary.BigEndian.AppendUint64(state, uint64(n))
	}
	return state
}

// identity distinguishes a file from one that was renamed over it, and a second write
// from the first where another program set the time back.
func identity(info fs.FileInfo) []int64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	seconds, nanoseconds := stat.Ctim.Unix()
	return []int64{int64(stat.Dev), int64(stat.Ino), seconds, nanoseconds}
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
