package alloc

import "errors"

// ErrTopology says that a topology contradicts itself, so that no CPU of it can
// be given out safely.
var ErrTopology = errors.New("topology not usable for placement")
