package history

import "errors"

// ErrDamaged means that the data is not a valid history.
var ErrDamaged = errors.New("damaged")
