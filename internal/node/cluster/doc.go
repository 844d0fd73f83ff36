// Package cluster is the agent's side of a Kubernetes cluster: what the API server or the kubelet says about this node,
// and what the agent reports.
//
// # What comes in
//
// Snapshot returns one immutable value: the pods of the node, the ConfigMaps of internal/intent/strategy, and the node's
// labels and allocatable CPU. Changed signals a new snapshot. A reader holds no lock and waits for no writer, and no
// code here waits for a reader.
//
// Pods come from a watch of the pods with this node's name. While the API server has not answered yet, or has been
// silent for some seconds, the kubelet's own list of pods replaces the watch. If a pod is in both lists, the newer
// version is used. A pod that the kubelet does not list remains for a while, because the kubelet may not have heard of
// it yet. Static pods without a mirror on the API server always come from the kubelet. Static pods have the UID that
// the kubelet and the runtime use, which differs from the UID of their mirror.
//
// # What goes out
//
// Publish, Event and Annotate queue a write and return at once. A write that fails is retried, at growing intervals and
// with few requests a second, until a newer write replaces it. Writes carry the UID of their object, so that they never
// change another object of the same name.
//
// The Lease of the node shows that its agent is alive. There is one agent on a node. An agent that finds the Lease held
// and renewed by another agent writes nothing and reports that.
//
// client-go's recorders are not used: with 500 events and no API server, tools/record took 1.9 MiB and tools/events 8.6
// MiB of resident memory. Both also drop an event after twelve tries. client-go's leaderelection takes only 0.4 MiB but
// is not used either: it renews a Lease to release it, so the scheduler continues to bind pods to a node without an
// agent. An elector that missed its deadline also ends.
//
// # Who looks
//
// Review asks who owns a bearer token and what that user may see. It has a client of its own, so that these requests do
// not delay the agent's.
//
// # Rights
//
// The shipped rights are in deploy/agent/rbac.yaml, and SECURITY.md explains each of them. An admission policy, not
// these rights, restricts an agent to objects of its own node: it compares the node in the agent's token with the
// object.
package cluster
