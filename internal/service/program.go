package service

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Trusted refuses a program that another user than root could replace: root runs it at every boot. It
// looks at the file and at every directory above it. The path has no symbolic links. Errors match
// ErrPath; doubts are groups that may write there.
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

// writers says who besides root may replace a file, or what is in a directory. In a sticky directory
// each user replaces what is the user's own, which the files below it are asked about. A group is a
// doubt only: distributions give /usr/local to one of administrators.
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
