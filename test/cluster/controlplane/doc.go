// Package controlplane runs the servers of a Kubernetes control plane: one etcd and one
// kube-apiserver as child processes, for tests and benchmarks that need the real API, and for
// the test cluster. What follows holds without nodes; a [Site] with nodes differs as it says.
//
// Both listen on this machine only: etcd on a socket in a private directory, the API server
// on a loopback port. That port is chosen below the range from which the kernel takes ports
// for outgoing connections, so that a server that was stopped for a while finds it free
// again. Every start makes a certificate authority of its own. It signs the server's
// certificate and one certificate for each user that is asked for; authorization is RBAC,
// as in a cluster. Two admission plug-ins are off, because the controllers they count on do
// not run: ServiceAccount (a pod needs no account) and TaintNodesByCondition (a node object
// is schedulable at once).
//
// The children die with this process, also when it is killed: the kernel sends them SIGKILL
// when the thread that started them ends, and that thread lives until they have ended. Stop
// kills their process groups and waits for them. The data is never synced to the disk: it is
// worth nothing after Stop.
package controlplane
