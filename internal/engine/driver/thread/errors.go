package thread

import "errors"

var (
	// ErrUnseen says that threads of a group have no id in this pid namespace.
	ErrUnseen = errors.New("not all threads can be seen from this pid namespace")
	// errMalformed says that a knob or a journaled value of this package cannot be parsed.
	errMalformed = errors.New("malformed")
	// errAnother says that another program, or the threads themselves, changed the policy or slice since.
	errAnother = errors.New("threads were given another one meanwhile")
)
