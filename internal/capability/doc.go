// Package capability is the contract between the agent, the commands and whatever Berth
// can do for a workload, such as burst and place. The agent and the commands go by this
// contract and know no capability by name.
//
// A capability has two halves. In the agent a Capability gives an Outcome: what is true
// of each workload and of the node, and what has to be remembered. The agent puts all
// outcomes together into one JSON document, its checkpoint, and gives the remembered
// part back when it starts again. Where there are metrics, Measured gives their values.
//
// A command may run without an agent, or read the document of an agent of another
// version. It goes by the Info of each capability: the names of its owners and metrics,
// and a Reader that turns its part of the document into text for people.
//
// The keys of the document are a contract with users and with earlier versions. Each
// capability chooses its own keys; Sections.Add refuses one that two of them use.
package capability
