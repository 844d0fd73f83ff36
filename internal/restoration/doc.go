// Package restoration has the agents of a cluster put back everything that they changed on their
// nodes, as before Berth is removed, and waits until they have.
//
// It sets the key state of the ConfigMap berth-config, which every agent watches, and reads in each
// NodeTopology how far its agent is: the reason of the condition Pinnable is Restoring, and Restored
// in the end. An agent lives as long as its Lease is seen to change, by the caller's clock alone: those of nodes differ.
// It is waited for, also before it publishes a NodeTopology. What an absent one changed stays on its node.
//
// Restored may also be left of an earlier restoration: an agent writes its status once in 10 s. So
// the state is not set before no agent that lives says so.
package restoration
