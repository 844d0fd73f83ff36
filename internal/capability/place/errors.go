package place

import "errors"

// Classes of errors.
var (
	// ErrRefused says that a pod requires CPUs which it cannot have now, or will have as soon as another pod has left.
	// The message has the reason. The containers must not start; asking again later may succeed.
	ErrRefused = errors.New("placement refused")
	// ErrUnknownPod says that the pod was never put.
	ErrUnknownPod = errors.New("unknown pod")
)
