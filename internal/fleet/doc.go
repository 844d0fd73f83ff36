// Package fleet shows the nodes of a cluster to a user of it, by the rights that the user has
// and no others: no server of Berth's own is in between.
//
// A Cluster lists nodes, NodeTopologies, pods and Leases once and then watches them. Package
// simulate makes of them what is free and why pods wait.
//
// The page of a node is its agent's. The agent listens on the loopback address of the node and
// wants a token with the role berth-viewer. So the user's computer serves on its own loopback
// address, and passes each request on: through the API server's port-forward to the pod of the
// agent, with a token of the account berth-viewer that the user asked for. Who lacks a right
// reads the API server's answer, which names it. On the page of a cluster, where the pages of all
// nodes have one origin, only the agent's data is passed on, and the page is of this program.
//
// A connection is a session of its own, made as kubectl port-forward makes it: a stream for the
// bytes and one for an error. The container runtime ends both when the agent does.
package fleet
