package alloc

import "errors"

// ErrTopology means that a topology contradicts itself, so that none of its CPUs can be given out safely.
var ErrTopology = errors.New("topology not usable for placement")
