// Package capability is the contract between the agent, the commands and everything that Berth can do for a workload,
// such as burst and place. The agent and the commands use this contract and know no capability by name.
//
// A capability has two halves. In the agent a Capability returns an Outcome: the state of each workload and of the
// node. Rememberer returns what else must be remembered. The agent joins all of it into one JSON document, its
// checkpoint, and returns the remembered part after a restart. If there are metrics, Measured returns their values.
//
// A command may run without an agent, or read the document of an agent of another version. It uses the Info of each
// capability: the names of its owners and metrics, and a Reader that turns its part of the document into text for
// people.
//
// The keys of the document are a contract with users and with earlier versions. Each capability chooses its own keys;
// Sections.Add refuses a key that two of them use.
package capability
