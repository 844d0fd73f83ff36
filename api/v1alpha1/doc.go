// Package v1alpha1 has what users write and read, and nothing else. Users write the keys on a pod or a standalone
// Workload, the Workload document, the agent's file and the scheduler's args. The package has their defaults, their
// ranges and their strict decoding. Berth writes the Placement on a pod, and the NodeTopology on the API server.
//
// Decoding has three passes, so that one run names every problem and not only the first. Pass one parses the text into
// a tree and refuses duplicate keys. Pass two walks the tree along the Go type: an unknown key, or a value of the wrong
// kind, becomes a FieldError and is removed from the tree. Pass three decodes the remaining tree and checks ranges and
// combinations; it skips fields that pass two already named. Programs of other versions may read a Placement or a Move:
// for these two, pass two removes unknown keys without a report.
//
// No function here reads a file, a clock or the host, and all functions may be called concurrently.
package v1alpha1
