// Package local runs a whole Kubernetes cluster with Berth on this machine: etcd, kube-apiserver,
// kube-controller-manager, containerd, kubelet and kube-proxy, a registry with the images, and the shipped
// berth-scheduler and agent. `make cluster` starts it. One machine has at most one such cluster.
//
// # One supervisor
//
// [Up] starts a supervisor, a process in its own session, and returns when everything is ready. The supervisor starts
// the servers as child processes and restarts servers that end; the children die with it. [Cluster.Stop] stops one
// server until [Cluster.Start].
//
// # Nothing left
//
// All files are below [Dir]. The supervisor has its own mount name space, in which the usual directories of a node
// (/var/lib/kubelet, /run/containerd, …) are directories below Dir. Programs and manifests find their usual paths, the
// cluster does not touch a container runtime of the machine, and every mount disappears with the last process. All
// processes, including those of containers, are in control groups below [Group], so [Down] finds them without asking
// any program, even after a kill. The cluster makes three other kinds of changes: two links (berth0 and berth-br0), the
// nftables tables of kube-proxy and of the CNI plugin portmap, and some kernel settings that kubelet and kube-proxy
// set. It records these before and restores them.
//
// # Addresses
//
// A separate link has [Address], on which the API server, the registry and the kubelet listen. The addresses are from
// 198.18.0.0/15, which RFC 2544 reserves for benchmarks and no router forwards: they do not collide with any network of
// the machine. A virtual machine with QEMU's user network reaches them unchanged.
//
// # Tests
//
// A cluster takes a minute to start, so several packages share one. With BERTH_CLUSTER_GUESTS="./node ./tour",
// TestCluster also runs the tests of these directories before it ends its cluster and checks that nothing is left.
// BERTH_CLUSTER_RUN is their -run, "" for all.
package local
