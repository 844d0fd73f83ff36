package evidence

import "errors"

// ErrValue says that a measured value is not above zero, or a rule out of its range.
var ErrValue = errors.New("value out of range")
