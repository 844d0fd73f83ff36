// Package cri reads pods and containers from the container runtime over the Container Runtime Interface, CRI: their
// lists and their groups. It is for nodes whose runtime has no Node Resource Interface. It reads, and decides nothing.
//
// CRI itself does not report the group of a container. containerd and CRI-O report it in the verbose information of a
// container's status, as the cgroupsPath of its OCI specification. It does not change while a container runs, so it is
// requested once. Only the list is requested each time.
package cri
