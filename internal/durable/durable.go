// Package durable replaces files of this program's own: a crash, or a power cut, leaves the old
// content or the new one, whole. What it wrote, but by Rewrite without sync, is there after a power cut. Files that are the host's
// are replaced by package hostwrite.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Replace replaces a file, or makes it, with this content and mode. After an error the file is as it
// was, or as it was to be. Of several calls at the same time one is the last: the file has what that
// one was given. A draft that a killed call left goes with the next call after an hour.
func Replace(name string, content []byte, mode fs.FileMode) error {
	draft, err := os.CreateTemp(filepath.Dir(name), draftOf(name)+"*")
	if err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	if info, err := draft.Stat(); err == nil {
		clean(name, info.ModTime().Add(-time.Hour))
	}
	return finish(draft, name, content, mode, true)
}

// Rewrite does the same in a directory that nobody else writes meanwhile, as it is locked: a draft that a killed
// call left is overwritten. Without sync it waits for no disk, and a power cut may leave an empty file.
func Rewrite(name string, content []byte, mode fs.FileMode, sync bool) error {
	draft, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	return finish(draft, name, content, mode, sync)
}

// finish fills a draft and gives it the name of the file.
func finish(draft *os.File, name string, content []byte, mode fs.FileMode, sync bool) error {
	_, err := draft.Write(content)
	err = errors.Join(err, draft.Chmod(mode))
	if sync {
		err = errors.Join(err, draft.Sync())
	}
	if err = errors.Join(err, draft.Close()); err == nil {
		err = os.Rename(draft.Name(), name)
	}
	if err != nil {
		_ = os.Remove(draft.Name()) // the first error is the one to report
		return fmt.Errorf("replace %s: %w", name, err)
	}
	if sync {
		return SyncDir(filepath.Dir(name))
	}
	return nil
}

// draftOf begins the names of the drafts of a file; a number follows.
func draftOf(name string) string { return "." + filepath.Base(name) + "." }

// clean removes the drafts of a file from before a moment, best effort.
func clean(name string, before time.Time) {
	all, _ := os.ReadDir(filepath.Dir(name)) // of a directory that cannot be read they stay
	for _, e := range all {
		number, is := strings.CutPrefix(e.Name(), draftOf(name))
		if !is || number == "" || strings.Trim(number, "0123456789") != "" {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.ModTime().Before(before) {
			_ = os.Remove(filepath.Join(filepath.Dir(name), e.Name()))
		}
	}
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
