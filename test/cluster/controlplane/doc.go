// Package controlplane runs the servers of a Kubernetes control plane: one etcd and one kube-apiserver as child
// processes. It is for tests and benchmarks that need the real API, and for the test cluster. The following describes a
// control plane without nodes; see [Site] for the differences with nodes.
//
// Both servers listen on this machine only: etcd on a socket in a private directory, the API server on a loopback port.
// That port is below the range from which the kernel chooses ports for outgoing connections, so that a restarted server
// finds it free again. Every start makes its own certificate authority. It signs the server's certificate and a
// certificate for each user; authorization is RBAC, as in a cluster. Two admission plug-ins are off, because their
// controllers do not run: ServiceAccount (a pod needs no account) and TaintNodesByCondition (a node object is
// schedulable at once).
//
// The children die with this process, even when it is killed. The kernel sends them SIGKILL when the thread that
// started them ends, and that thread lives until they have ended. Stop kills their process groups and waits for them.
// The servers never sync the data to the disk, because nobody needs it after Stop.
package controlplane
