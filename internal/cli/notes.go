package cli

import "io"

// freshNotes leaves out what was said in the look before: a command that looks every second says
// a note once, and again when it is true again. Each note is one Write.
type freshNotes struct {
	to          io.Writer
	before, now map[string]bool
}

// next begins another look.
func (f *freshNotes) next() { f.before, f.now = f.now, map[string]bool{} }

// Write implements io.Writer.
func (f *freshNotes) Write(note []byte) (int, error) {
	f.now[string(note)] = true
	if f.before[string(note)] {
		return len(note), nil
	}
	return f.to.Write(note) //nolint:wrapcheck // a closed standard error needs no context
}
