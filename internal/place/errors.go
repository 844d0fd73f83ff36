package place

import "errors"

// Classes of errors.
var (
	// ErrRefused is a pod that requires CPUs which it cannot have now, or that has
	// them as soon as another one is through with leaving. The message holds the
	// reason. Its containers must not start; asking again
	// later may succeed.
	ErrRefused = errors.New("placement refused")
	// ErrUnknownPod is a pod that the Node was not told about.
	ErrUnknownPod = errors.New("unknown pod")
)
