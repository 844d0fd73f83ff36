package inventory

import "errors"

// ErrUnknownPod means that the runtime asks about a container whose pod asks for CPUs and is not known yet. Neither the
// API server nor the kubelet has reported the pod, or the limits of its resize. Another request a moment later may
// succeed; Handle with final decides without the pod.
var ErrUnknownPod = errors.New("the pod is not known yet")
