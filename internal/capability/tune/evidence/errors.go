package evidence

import "errors"

// ErrValue means that a measured value is not above zero, or that a rule is out of its range.
var ErrValue = errors.New("value out of range")
