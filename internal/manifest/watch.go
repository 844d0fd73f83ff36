package manifest

import (
	"crypto/sha256"
	"fmt"
	"io"
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
	h := sha256.New()
	if config != "" {
		add(h, config)
	}
	names, err := workloadFiles(dir)
	fmt.Fprintf(h, "%q %v\n", dir, err)
	for _, name := range names {
		add(h, filepath.Join(dir, name))
	}
	return Fingerprint(h.Sum(nil))
}

// add follows symbolic links: a ConfigMap mount changes what they lead to.
func add(h io.Writer, path string) {
	info, err := os.Stat(path)
	if err != nil {
		fmt.Fprintf(h, "%q %v\n", path, err)
		return
	}
	fmt.Fprintf(h, "%q %d %d %v %v\n", path, info.Size(), info.ModTime().UnixNano(), info.Mode(), inode(info))
}

// inode tells a file from the one that was renamed over it.
func inode(info fs.FileInfo) [3]int64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return [3]int64{}
	}
	return [3]int64{int64(stat.Dev), int64(stat.Ino), stat.Ctim.Nano()}
}

// Watcher finds out whether the agent's file or a workload file changed. It
// never reads them.
type Watcher struct {
	config, dir      string
	reported, latest Fingerprint
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
// Looks should therefore be at least 20 ms apart.
func (w *Watcher) Changed() bool {
	seen := TakeFingerprint(w.config, w.dir)
	calm := seen == w.latest || w.latest == Fingerprint{}
	w.latest = seen
	if !calm || seen == w.reported {
		return false
	}
	w.reported = seen
	return true
}
