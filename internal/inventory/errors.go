package inventory

import "errors"

// ErrUnknownPod says that the runtime asks about a container of a pod that asks
// for CPUs and that neither the API server nor the kubelet has reported yet. Asking
// again a moment later may succeed; Handle with Event.Final decides without.
var ErrUnknownPod = errors.New("the pod is not known yet")
