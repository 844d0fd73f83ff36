// Package restoration has the agents of a cluster put back everything that they changed on their
// nodes, as before Berth is removed, and waits until they have.
//
// It sets the key state of the ConfigMap berth-config, which every agent watches, and reads in each
// NodeTopology how far its agent is: the reason of the condition Pinnable is Restoring, and Restored
// in the end. An agent lives as long as it renews its Lease. One that does is waited for, also before it
// publishes a NodeTopology. One that does not is not: what it changed stays on its node.
//
// Restored may also be left of an earlier restoration: an agent writes its status once in 10 s. So
// the state is not set before no agent that lives says so.
package restoration
