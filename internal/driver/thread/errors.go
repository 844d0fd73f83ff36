package thread

import "errors"

var (
	// ErrUnseen says that threads of a group have no id in this pid namespace.
	ErrUnseen = errors.New("not all threads can be seen from this pid namespace")
	// errMalformed says that a knob or a record of this package cannot be read.
	errMalformed = errors.New("malformed")
	// errAnother says that threads were given another policy or slice, which is not Berth's.
	errAnother = errors.New("threads were given another one meanwhile")
)
