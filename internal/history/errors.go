package history

import "errors"

// ErrDamaged says that what was read is no history.
var ErrDamaged = errors.New("damaged")
