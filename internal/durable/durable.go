// Package durable replaces files of this program's own: a crash, or a power cut, leaves the old
// content or the new one, whole. What it wrote is there after a power cut. Files that are the host's
// are replaced by package hostwrite.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace replaces a file, or makes it, with this content and mode. After an error the file is as it
// was, or as it was to be. Of several calls at the same time one is the last: the file has what that
// one was given.
func Replace(name string, content []byte, mode fs.FileMode) (err error) {
	draft, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(draft.Name()) // the first error is the one to report
		}
	}()
	_, err = draft.Write(content)
	if err := errors.Join(err, draft.Chmod(mode), draft.Sync(), draft.Close()); err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	return Rename(draft.Name(), name)
}

// Rename gives a file, whose content is on disk, another name in its directory.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("replace %s: %w", to, err)
	}
	return SyncDir(filepath.Dir(to))
}

// SyncDir has the names in a directory on disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
