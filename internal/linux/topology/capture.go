package topology

import (
	"fmt"
	"io/fs"
	"strings"
)

// Capture runs Discover on fsys and records the files that it read, so that the machine can be inspected elsewhere. It
// records only the total of the memory information, and never reads host names and serial numbers. Capture checks that
// the recording, read back from its text, gives the same machine. If not, it fails with ErrRecording.
func Capture(fsys fs.FS) (*Recording, error) {
	log := &readLog{fsys: fsys, files: map[string][]byte{}}
	seen, err := Discover(log)
	if err != nil {
		return nil, err
	}
	r, err := newRecording(log.files)
	if err != nil {
		return nil, err
	}
	again, err := ParseRecording(r.Format())
	if err != nil {
		return nil, err
	}
	replayed, err := Discover(again)
	if err != nil {
		return nil, fmt.Errorf("%w: read back: %w", ErrRecording, err)
	}
	if replayed.Hash() != seen.Hash() || replayed.Online != seen.Online || replayed.Offline != seen.Offline {
		return nil, fmt.Errorf("%w: read back it gives another machine: did CPUs come or go meanwhile?", ErrRecording)
	}
	return again, nil
}

// readLog records the files that are read through it. It is for one goroutine.
type readLog struct {
	fsys  fs.FS
	files map[string][]byte
}

// Open is required by fs.FS. Discover does not use it.
func (l *readLog) Open(name string) (fs.File, error) {
	return l.fsys.Open(name) //nolint:wrapcheck // a file system hands its errors on
}

// ReadDir lists a directory. The files in it are recorded when they are read.
func (l *readLog) ReadDir(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(l.fsys, name) //nolint:wrapcheck // a file system hands its errors on
}

// ReadFile reads and records a file.
func (l *readLog) ReadFile(name string) ([]byte, error) {
	content, err := fs.ReadFile(l.fsys, name)
	if err != nil {
		return nil, err //nolint:wrapcheck // a file system hands its errors on
	}
	kept := content
	if strings.HasSuffix(name, "/meminfo") {
		kept = totalOnly(content)
	}
	l.files[name] = kept
	return content, nil
}

// totalOnly returns the lines with the total memory size.
func totalOnly(meminfo []byte) []byte {
	var kept strings.Builder
	for line := range strings.Lines(string(meminfo)) {
		if strings.Contains(line, memTotal) {
			kept.WriteString(line)
		}
	}
	return []byte(kept.String())
}
