package cpuset

import "fmt"

// SyntaxError reports text that is not a valid CPU list or mask.
type SyntaxError struct {
	// Form is the expected format: "CPU list" or "CPU mask".
	Form string
	// Input is the text as the caller passed it.
	Input string
	// Offset is the byte of Input where parsing failed, 0 to len(Input).
	Offset int
	// Want describes the input that is allowed at Offset.
	Want string
}

// shown is the number of bytes of a long input that an error message quotes.
const shown = 64

// Error quotes the input, and states the position and the allowed input there.
func (e *SyntaxError) Error() string {
	input := fmt.Sprintf("%q", e.Input)
	if len(e.Input) > shown {
		input = fmt.Sprintf("%q... (%d bytes)", e.Input[:shown], len(e.Input))
	}
	return fmt.Sprintf("%s %s: byte %d: want %s", e.Form, input, e.Offset, e.Want)
}
