package inventory

import "errors"

// ErrUnknownPod says that the runtime asks about a container of a pod that asks
// for CPUs and that neither the API server nor the kubelet has reported yet, as it is or
// with the limits that it is resized to. Asking again a moment later may succeed; Handle
// with final decides without.
var ErrUnknownPod = errors.New("the pod is not known yet")
