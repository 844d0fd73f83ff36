// Package restoration makes the agents of a cluster restore everything that they changed on their nodes, as before
// Berth is removed, and waits until they have.
//
// It sets the key state of the ConfigMap berth-config, which every agent watches. It reads the progress of each agent
// from its NodeTopology: the reason of the condition Pinnable is Restoring, and Restored at the end. An agent is alive
// as long as its Lease is seen to change, by the caller's clock alone: the clocks of nodes differ. Run also waits for a
// live agent that has not published a NodeTopology yet. What an absent agent changed remains on its node.
//
// Restored may also remain from an earlier restoration: an agent writes its status once in 10 s. So the state is set
// only once no live agent reports Restored.
package restoration
