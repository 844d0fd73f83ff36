package service

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Trusted refuses a program that another user than root could replace: root runs it at every boot. Trusted checks the
// file and every directory above it. The path has no symbolic links. Errors match ErrPath; doubts name groups that may
// write there.
func Trusted(program string) (doubts []string, err error) {
	for at := program; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return nil, fmt.Errorf("look at the program: %w", err)
		}
		doubt, err := writers(at, info)
		if err != nil {
			return nil, err
		}
		if doubt != "" {
			doubts = append(doubts, doubt)
		}
		if at == filepath.Dir(at) {
			return doubts, nil
		}
	}
}

// writers checks who other than root may replace a file, or the contents of a directory. In a sticky directory users
// can replace only their own files, so the files below it decide. A group is only a doubt: distributions give
// /usr/local to a group of administrators.
func writers(path string, info fs.FileInfo) (doubt string, err error) {
	const group, all = 0o020, 0o002
	owner, is := info.Sys().(*syscall.Stat_t)
	if !is {
		return "", fmt.Errorf("%s: %w: its owner is not known", path, ErrPath)
	}
	switch sticky := info.IsDir() && info.Mode()&fs.ModeSticky != 0; {
	case owner.Uid != 0:
		return "", fmt.Errorf("%s: %w: root would run what another user can replace: it belongs to user %d; allowed: root", path, ErrPath, owner.Uid)
	case sticky:
	case info.Mode()&all != 0:
		return "", fmt.Errorf("%s: %w: root would run what every user can replace: its mode is %#o; allowed: one that only root can write", path, ErrPath, info.Mode().Perm())
	case info.Mode()&group != 0 && owner.Gid != 0:
		return fmt.Sprintf("%s: group %d can replace what root runs (mode %#o)", path, owner.Gid, info.Mode().Perm()), nil
	}
	return "", nil
}
