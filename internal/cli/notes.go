package cli

import "io"

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
