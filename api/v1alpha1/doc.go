// Package v1alpha1 holds what users write and what they read, and nothing else:
// the keys on a pod or a standalone Workload, the Workload document, the agent's
// file, the scheduler's args, their defaults, their ranges and the strict way
// they are read; the Placement that Berth writes on a pod and the NodeTopology
// that it keeps on the API server.
//
// Reading is done in three passes, so that one run names every problem and not
// only the first. Pass one turns the text into a tree and refuses duplicate
// keys. Pass two walks the tree beside the Go type: a key the type does not
// have, or a value of the wrong kind, becomes a FieldError and is cut out of
// the tree. Pass three decodes what is left and checks ranges and
// combinations; it stays silent about fields that pass two already named. A
// Placement is read by programs of other versions than the one that wrote it:
// there, and only there, pass two cuts unknown keys out without a word.
//
// Nothing here reads a file, a clock or the host, and all functions may be
// called concurrently.
package v1alpha1
