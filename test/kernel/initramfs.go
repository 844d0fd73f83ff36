package kernel

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"strings"
)

// Archive writes an initramfs: a cpio archive in the "newc" format, uncompressed, because
// unpacking costs an emulated CPU more than reading
// (kernel: Documentation/driver-api/early-userspace/buffer-format.rst).
type Archive struct {
	w     io.Writer
	inode int
	dirs  map[string]bool
	err   error
}

// NewArchive starts an archive on w; Close ends it and returns the first error.
func NewArchive(w io.Writer) *Archive {
	return &Archive{w: w, dirs: map[string]bool{"/": true, ".": true}}
}

// Modes of cpio entries: file type and permissions.
const (
	modeDir  = 0o040755
	modeFile = 0o100755
)

// File adds a file at an absolute path, and the directories above it.
func (a *Archive) File(name string, content []byte) {
	a.Dir(path.Dir(name))
	a.entry(strings.TrimPrefix(name, "/"), modeFile, content)
}

// Dir adds a directory at an absolute path, and those above it; the kernel makes none by itself.
func (a *Archive) Dir(name string) {
	if a.dirs[name] {
		return
	}
	a.Dir(path.Dir(name))
	a.dirs[name] = true
	a.entry(strings.TrimPrefix(name, "/"), modeDir, nil)
}

// Close writes the trailer.
func (a *Archive) Close() error {
	a.entry("TRAILER!!!", 0, nil)
	return a.err
}

// entry writes one header of thirteen 8-digit hex numbers, the name and the content, each
// padded to four bytes.
func (a *Archive) entry(name string, mode int, content []byte) {
	a.inode++
	links := 1
	var head bytes.Buffer
	fmt.Fprintf(&head, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.inode, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name)+1, 0, name)
	for _, part := range [][]byte{head.Bytes(), content} {
		a.write(part)
		a.write(make([]byte, -len(part)&3))
	}
}

func (a *Archive) write(p []byte) {
	if a.err != nil || len(p) == 0 {
		return
	}
	if _, err := a.w.Write(p); err != nil {
		a.err = fmt.Errorf("write initramfs: %w", err)
	}
}
