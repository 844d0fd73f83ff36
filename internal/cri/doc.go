// Package cri reads pods and containers from the container runtime over the
// Container Runtime Interface, CRI: which there are, and in which groups they
// run. It is for nodes whose runtime has no Node Resource Interface. It reads,
// and decides nothing.
//
// CRI itself does not say where the group of a container is. containerd and
// CRI-O both say it in the verbose information of a container's status, as the
// cgroupsPath of its OCI specification. That is asked once for a container
// that runs, since it does not change any more; what is asked each time is the
// list.
package cri
