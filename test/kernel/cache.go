package kernel

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Kernel is a bootable kernel image.
type Kernel struct {
	Series string // Major and minor version, such as "6.12".
	Image  string // Path of the bzImage.
}

// cached returns the path of the image in the cache directory key.
func cached(key string, fill func(dir string) error) (string, error) {
	return Cached("kernels", key, "bzImage", fill)
}

// isCached reports whether the image of a package is in the cache.
func isCached(name, version string) bool {
	base, err := os.UserCacheDir()
	if err != nil {
		return false // cached returns the error.
	}
	_, err = os.Stat(filepath.Join(base, "berth", "kernels", name+"_"+version, "bzImage"))
	return err == nil
}

// Cached returns the path of a file or directory in the directory key of a kind, in the user's cache. If it does not
// exist, fill makes it. Only one process at a time fills a kind; other processes wait for its result.
func Cached(kind, key, file string, fill func(dir string) error) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory: %w", err)
	}
	all := filepath.Join(base, "berth", kind)
	made := filepath.Join(all, key, file)
	if _, err := os.Stat(made); err == nil {
		return made, nil
	}
	if err := os.MkdirAll(all, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(all, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(made); err == nil {
		return made, nil // Filled by the process that held the lock.
	}
	return made, replace(filepath.Join(all, key), fill)
}

// replace fills a draft directory and renames it, so that a killed build leaves nothing that looks complete.
func replace(dir string, fill func(dir string) error) error {
	draft := dir + ".draft"
	if err := os.RemoveAll(draft); err != nil {
		return err
	}
	if err := os.Mkdir(draft, 0o755); err != nil {
		return err
	}
	if err := fill(draft); err != nil {
		return err
	}
	return os.Rename(draft, dir)
}

// lock waits for an exclusive lock on a file.
func lock(name string) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { file.Close() }, nil
}
