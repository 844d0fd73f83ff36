package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/value/table"
)

// printNote prints a note for people. It is not on standard output, which scripts read.
func printNote(cmd *cobra.Command, format string, args ...any) {
	_, _ = fmt.Fprintln(cmd.ErrOrStderr(), table.Clean("note: "+fmt.Sprintf(format, args...)))
}

// printNotes prints notes for people.
func printNotes(cmd *cobra.Command, notes []string) {
	for _, note := range notes {
		printNote(cmd, "%s", note)
	}
}

// freshNotes omits a note that the previous round printed. A repeating command prints a note once, and again after a
// round without it. Each note is one Write.
type freshNotes struct {
	to          io.Writer
	before, now map[string]bool
}

// next begins another round.
func (f *freshNotes) next() { f.before, f.now = f.now, map[string]bool{} }

// Write implements io.Writer.
func (f *freshNotes) Write(note []byte) (int, error) {
	f.now[string(note)] = true
	if f.before[string(note)] {
		return len(note), nil
	}
	return f.to.Write(note) //nolint:wrapcheck // a closed standard error needs no context
}
