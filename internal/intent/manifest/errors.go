package manifest

import "errors"

// ErrConflict is why a valid workload waits: another workload claims the same name, group, unit or process.
var ErrConflict = errors.New("claimed by more than one workload")
