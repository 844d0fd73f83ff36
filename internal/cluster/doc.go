// Package cluster is the agent's side of a Kubernetes cluster: what the API
// server, and the kubelet in its stead, say about this node, and what the agent
// reports them.
//
// # What comes in
//
// Snapshot returns one immutable value with all of it: the pods of the node, the
// ConfigMaps of internal/strategy, the node's labels and what it has to give.
// Changed says when there is a new one. A reader holds no lock and waits
// for no writer, and no code here waits for a reader.
//
// Pods come from a watch of those with this node's name. Where the API server
// does not answer for some seconds, or has not answered yet, the kubelet's own
// list of pods takes its place, for as long as that lasts. Of a pod in both the
// newer one counts. A pod that the kubelet does not know stays for a while,
// because the kubelet may not have heard of it yet. Static pods without a mirror
// on the API server are taken from the kubelet at all times. Static pods have the
// UID that the kubelet and the runtime know them by, which is not that of their
// mirror.
//
// # What goes out
//
// Publish, Event and Annotate put something on a list and return at once. What
// cannot be delivered is tried again, at growing distances and with few requests
// a second, until something newer takes its place. Writes carry the UID of their
// object, so that they never meet another one of the same name.
//
// The Lease of the node says that its agent lives. There is one agent on a node:
// one that finds the Lease in the hands of another, who renews it, writes nothing
// and says so.
//
// client-go's recorders are not used: with 500 events and no API server, tools/record
// took 1.9 MiB and tools/events 8.6 MiB of resident memory, and both drop an event
// after twelve tries. Its leaderelection is not used although it takes 0.4 MiB only:
// giving a Lease back renews it, which keeps the scheduler binding to a node without
// an agent, and an elector that missed its deadline ends.
//
// # Who looks
//
// Review asks whose a bearer token is and what it may see, with a client of its own: requests
// of those who look take no turn of the agent's.
//
// # Rights
//
// The shipped rights are in deploy/agent/rbac.yaml, and SECURITY.md says what
// each is for. That an agent writes for its own node only is not in the rights
// but in an admission policy, which compares the node in the agent's token with
// the object.
package cluster
