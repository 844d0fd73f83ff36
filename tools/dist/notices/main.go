// Command notices writes the license texts of the modules that are linked into Go programs:
//
//	notices OUT FILE...
//
// The texts come from the module cache of the user, from which the programs were built; GOMODCACHE may name another one.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/berth-project/berth/tools/image/notices"
)

// errUsage reports arguments that do not match the usage above.
var errUsage = errors.New("want OUT FILE, as often as there are files")

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	const fixed = 1
	if len(args) <= fixed {
		return errUsage
	}
	var programs []io.ReaderAt
	for _, name := range args[fixed:] {
		file, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("read program: %w", err)
		}
		defer file.Close()
		programs = append(programs, file)
	}
	text, err := notices.Of(notices.Cache(), programs...)
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[0], text, 0o644); err != nil { //nolint:gosec // everybody reads it
		return fmt.Errorf("write notices: %w", err)
	}
	return nil
}
