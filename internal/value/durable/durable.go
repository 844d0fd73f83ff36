// Package durable replaces Berth's own files: after a crash or a power cut a file has the old content or the new
// content, whole. A completed write survives a power cut, except for Rewrite without sync. Package hostwrite replaces
// files of the host.
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

// Replace replaces a file, or makes it, with this content and mode. After an error the file has the old content or the
// new content. If several calls run at the same time, the file has the content of the last call. A killed call may
// leave a draft, which a later Replace removes after an hour.
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

// Rewrite is like Replace, for a directory that is locked, so that no other program writes there at the same time. It
// overwrites a draft that a killed call left. Without sync it does not wait for the disk, and a power cut may leave an
// empty file.
func Rewrite(name string, content []byte, mode fs.FileMode, sync bool) error {
	draft, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	return finish(draft, name, content, mode, sync)
}

// finish writes a draft and renames it to the name of the file.
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

// draftOf returns the prefix of a file's draft names; a number follows.
func draftOf(name string) string { return "." + filepath.Base(name) + "." }

// clean removes the drafts of a file from before a time, best effort.
func clean(name string, before time.Time) {
	all, _ := os.ReadDir(filepath.Dir(name)) // drafts in an unreadable directory stay
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

// SyncDir syncs the entries of a directory to disk.
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
