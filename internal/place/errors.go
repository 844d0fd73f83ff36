package place

import "errors"

// Classes of errors.
var (
	// ErrRefused is a pod that requires CPUs which it cannot have now, or that has them
	// as soon as another pod has left. The message holds the reason. Its containers must
	// not start; asking again later may succeed.
	ErrRefused = errors.New("placement refused")
	// ErrUnknownPod is a pod that was never put.
	ErrUnknownPod = errors.New("unknown pod")
)
