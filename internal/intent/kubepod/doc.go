// Package kubepod converts a Kubernetes pod to the plain value that Berth's decisions use.
//
// Quantities are read as kube-scheduler reads them, so that both calculate the same sum for a node. A CPU is 1000
// thousandths, and fractions of a thousandth are rounded up. Restartable init containers run as long as the pod. During
// a resize the largest of the desired, the allocated and the running value is used, unless the kubelet called the
// resize infeasible. Limits are those of the spec: they say how many CPUs a pod asks for, and a request to resize
// shrinks no pod.
//
// All functions are pure. Their results refer to no part of the pod except its labels and annotations, which nobody may
// change.
package kubepod
