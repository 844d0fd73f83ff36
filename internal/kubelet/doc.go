// Package kubelet reads what the kubelet of this node knows: its pods, when the
// API server is away, and how it is configured, which decides whether another
// owner of CPU sets is on the node. It writes nothing.
//
// A Client asks the kubelet's HTTPS API: /pods and /configz, with a bearer
// token that needs get on nodes/pods and nodes/configz and nothing more. It
// never talks to a server that it cannot identify as this node's kubelet: the
// server's certificate is either signed by a given authority for a given name,
// or is the very certificate in one of the given files, the kubelet's own on this
// node's disk. Token and certificates are read anew for every connection, since both
// are rotated.
//
// Devices asks the kubelet's PodResources API, a socket in its directory, where the
// devices are that it may give out, and Memory what its memory manager gave to which pod.
//
// Where the API may not be asked, ReadState reads the file in which the
// kubelet keeps its CPU manager's state, and ReadConfig its configuration
// file. What a file does not say is not known: flags and defaults may say
// otherwise. A Source asks first and reads then, again and again, and Knowledge is what
// all readings say together: who sets CPU sets and memory nodes on this node, and how
// long a silence of the kubelet is none to worry about.
package kubelet
