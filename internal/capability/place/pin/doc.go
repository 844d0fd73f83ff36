// Package pin maintains the CPU sets of this node as package place decides them. It is the capability place in the
// agent.
//
// Sets answers the container runtime, from memory and the journal, and decides in each round the desired state of the
// groups. Sets writes nothing before enough is known: the CPUs of the machine, the pods of the node, and whether the
// kubelet itself sets CPU sets. What the runtime writes because of an answer is journaled first. A container that is about to start may be on CPUs that another container got in the
// meantime: it leaves them before it runs.
//
// The agent may be unable to write its own group. Sets then removes that group from the desired state, and the agent's
// threads leave the CPUs of other containers by themselves (package self).
//
// Files: sets.go has the type and a round of decisions; answer.go answers the runtime; conditions.go, report.go
// and reader.go are what users see.
package pin
