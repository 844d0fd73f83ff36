// Package fleet shows the nodes of a cluster to a user, with the user's rights only: there is no server of Berth in
// between.
//
// A Cluster lists nodes, NodeTopologies, pods and Leases once and then watches them. Package simulate computes from
// them what is free and why pods wait.
//
// The agent of a node serves the node's page. It listens on the loopback address of the node and requires a token with
// the role berth-viewer. So the user's computer serves on its own loopback address and passes each request on. It uses
// the API server's port-forward to the agent's pod, and a token of the account berth-viewer that the user requested. A
// user without a right reads the API server's answer, which names the right. On the page of a cluster, the pages of all
// nodes have one origin. There only the agent's data is passed on, and the page comes from this program.
//
// Each connection is a session of its own, as with kubectl port-forward: a stream for the bytes and a stream for an
// error. The container runtime ends both when the agent ends.
package fleet
