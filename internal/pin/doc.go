// Package pin keeps the CPU sets of this node where place decides them. It is the
// capability place in the agent; who gets which CPUs is decided by package place.
//
// Sets answers the container runtime, from memory and the journal, and decides in each round
// what is desired of the groups: the inventory has pods and containers, and asks place.
// Nothing is written before enough is known: the CPUs of the machine, the pods of the node,
// whether the kubelet sets CPU sets itself. What the runtime writes because of an answer is
// in the journal before. A container that would start on CPUs which another one was given
// meanwhile leaves them before it runs.
//
// The agent's own group may be one that cannot be written. Sets then takes it out of what is
// desired, and its threads leave the CPUs of others by themselves (package self).
//
// Files: sets.go is the whole, with a round of decisions; answer.go answers the runtime;
// machine.go has what the host and its kubelet say; topology.go, report.go and reader.go are
// what users see.
package pin
