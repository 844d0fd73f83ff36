// Package kubelet reads from the kubelet of this node: its pods, when the API server is away, and its configuration,
// which decides whether the kubelet manages CPU sets on the node. It writes nothing.
//
// A Client requests /pods and /configz of the kubelet's HTTPS API, with a bearer token that needs get on nodes/pods and
// nodes/configz and nothing more. It never talks to a server that it cannot identify as this node's kubelet. The
// server's certificate must be signed by a given authority for a given name, or be equal to the certificate in one of
// the given files: the kubelet's own on this node's disk. Token and certificates are read again for every connection,
// because both are rotated.
//
// Devices asks the kubelet's PodResources API, a socket in its directory, for the NUMA nodes of the devices that it may
// allocate. Memory asks it for the memory that its memory manager gave to each pod.
//
// Without access to the API, ReadState reads the state file of the kubelet's CPU manager, and ReadConfig its
// configuration file. A value that a file lacks is unknown, because flags and defaults may set it. A Source tries the
// API and then the files, periodically, and seldom while only a restart of the kubelet could change the answer.
// Knowledge combines all readings: who sets CPU sets and memory nodes on this node, and how long a silence of the
// kubelet is harmless.
package kubelet
