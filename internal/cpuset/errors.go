package cpuset

import "fmt"

// SyntaxError is text that is no CPU list or mask.
type SyntaxError struct {
	// Form is what was expected as a whole: "CPU list" or "CPU mask".
	Form string
	// Input is the text as it was given.
	Input string
	// Offset is the byte of Input at which it went wrong, 0 to len(Input).
	Offset int
	// Want is what would have been allowed there.
	Want string
}

// shown is how much of a long input an error message quotes, in bytes.
const shown = 64

// Error quotes the text, the position and what is allowed there.
func (e *SyntaxError) Error() string {
	input := fmt.Sprintf("%q", e.Input)
	if len(e.Input) > shown {
		input = fmt.Sprintf("%q... (%d bytes)", e.Input[:shown], len(e.Input))
	}
	return fmt.Sprintf("%s %s: byte %d: want %s", e.Form, input, e.Offset, e.Want)
}
