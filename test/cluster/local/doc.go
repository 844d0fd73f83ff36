// Package local runs a whole Kubernetes cluster with Berth in it on this machine: etcd,
// kube-apiserver, kube-controller-manager, containerd, kubelet and kube-proxy, a registry that
// has the images, and berth-scheduler and the agent as they ship. It is what `make cluster`
// starts. One machine has at most one such cluster.
//
// # One supervisor
//
// [Up] starts a supervisor, a process of its own session, and returns when everything is
// ready. The supervisor starts the servers as child processes, and starts again what ends by
// itself; the children die with it. [Cluster.Stop] keeps one down until [Cluster.Start].
//
// # Nothing left
//
// All files are below [Dir]. The supervisor lives in a mount name space of its own, in which
// the usual directories of a node (/var/lib/kubelet, /run/containerd, …) are directories below
// Dir: programs and manifests find what they expect, a container runtime of the machine is not
// touched, and every mount goes with the last process. All processes, those of containers too,
// are in control groups below [Group], so [Down] finds them without asking anybody, whatever
// was killed before. What else is changed on the machine is two links, berth0 and berth-br0, the
// nftables tables of kube-proxy and of the CNI plugin portmap, and some settings of the kernel
// that kubelet and kube-proxy make: these are noted before, and restored.
//
// # Addresses
//
// A link of its own holds [Address], on which the API server, the registry and the kubelet
// listen. The addresses are from 198.18.0.0/15, which RFC 2544 sets aside for benchmarks and
// no router forwards: they collide with no network of the machine. A virtual machine with QEMU's user
// network reaches them as they are.
//
// # Tests
//
// A cluster takes a minute to start, so one is started for several packages: with
// BERTH_CLUSTER_GUESTS="./node ./tour" TestCluster runs the tests of these directories, too, before
// it ends its cluster and looks for what is left. BERTH_CLUSTER_RUN is their -run, "" for all.
package local
