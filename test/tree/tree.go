// Package tree finds the source tree around a directory, for tests that build or read it: it looks for a file in the
// directory, then in each directory above.
package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// mark is a file that only the root of the source tree has.
const mark = "test/cluster/go.mod"

// Root returns the root of the source tree around the working directory.
func Root() (string, error) { return Above(".", mark) }

// Above returns the nearest directory that has a file, of dir and those above it. The file may be in a directory below:
// another file may have the name of that directory. The error is fs.ErrNotExist if there is none.
func Above(dir, file string) (string, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("source tree around %s: %w", dir, err)
	}
	for at := start; ; at = filepath.Dir(at) {
		_, err := os.Stat(filepath.Join(at, filepath.FromSlash(file)))
		switch {
		case err == nil:
			return at, nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) || at == filepath.Dir(at):
			return "", fmt.Errorf("source tree around %s: %w", start, err)
		}
	}
}
