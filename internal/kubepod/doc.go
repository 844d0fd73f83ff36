// Package kubepod turns a Kubernetes pod into the plain value that the rest of
// Berth decides by.
//
// Quantities are read as kube-scheduler reads them, so that both add up the
// same node to the same sum: a CPU is a thousand thousandths, a fraction of a
// thousandth is rounded up, restartable init containers run as long as the pod,
// and while a resize is under way the larger of what is wished, what the
// kubelet granted and what runs counts, unless the kubelet called the wish
// infeasible. Limits are those of the spec: they say how many CPUs a pod asks
// for, and nobody shrinks a pod by asking.
//
// All functions are pure; they keep no reference into the pod except to its
// labels and annotations, which nobody may change.
package kubepod
