// Package flags has the flags with which the Makefile has programs and tests compiled, for tests that run the compiler
// themselves. With other flags the compiler would build each package of Kubernetes twice, and the programs under test
// would not be those that ship.
package flags

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-project/berth/test/tree"
)

// begin is the beginning of the line of the Makefile with the flags.
const begin = "export GOFLAGS := $(strip $(GOFLAGS) "

// Compiling returns the flags that the Makefile of the source tree around a directory adds to GOFLAGS.
func Compiling(dir string) ([]string, error) {
	const makefile = "Makefile"
	root, err := tree.Above(dir, makefile)
	if err != nil {
		return nil, fmt.Errorf("flags of the compiler for %s: %w", dir, err)
	}
	text, err := os.ReadFile(filepath.Join(root, makefile))
	if err != nil {
		return nil, fmt.Errorf("flags of the compiler for %s: %w", dir, err)
	}
	for line := range strings.Lines(string(text)) {
		if flags, found := strings.CutPrefix(line, begin); found {
			return strings.Fields(strings.TrimSuffix(strings.TrimSpace(flags), ")")), nil
		}
	}
	return nil, fmt.Errorf("flags of the compiler for %s: the Makefile has no line %s…)", dir, begin)
}
