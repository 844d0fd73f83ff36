// Package flags has the flags with which the Makefile has programs and tests compiled, for tests that run the compiler
// themselves. With other flags the compiler would build each package of Kubernetes twice, and the programs under test
// would not be those that ship.
package flags

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// begin is the beginning of the line of the Makefile with the flags.
const begin = "export GOFLAGS := $(strip $(GOFLAGS) "

// Compiling returns the flags that the Makefile of the source tree around a directory adds to GOFLAGS.
func Compiling(dir string) ([]string, error) {
	text, err := makefile(dir)
	if err != nil {
		return nil, fmt.Errorf("flags of the compiler for %s: %w", dir, err)
	}
	for line := range strings.Lines(text) {
		if flags, found := strings.CutPrefix(line, begin); found {
			return strings.Fields(strings.TrimSuffix(strings.TrimSpace(flags), ")")), nil
		}
	}
	return nil, fmt.Errorf("flags of the compiler for %s: the Makefile has no line %s…)", dir, begin)
}

// makefile returns the nearest Makefile above a directory.
func makefile(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "Makefile"))
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return string(text), err
		}
		dir = filepath.Dir(dir)
	}
}
