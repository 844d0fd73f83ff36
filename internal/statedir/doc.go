// Package statedir is what the agent keeps in its state directory beside the journal, so
// that its next process goes on where it ended: values as JSON files that are replaced by
// rename, the identity of the agent, what the cluster said last, and what the container
// runtime was answered.
//
// A file that is replaced is on disk then. The answers to the container runtime are only appended
// most of the time: they survive kill -9 in the page cache, and the containers that they name do not
// outlive a power cut either. Each file may be deleted at any time; ARCHITECTURE.md lists what is
// lost then.
//
// The package takes no lock. Whoever holds the lock of the journal is the only writer of
// the directory.
package statedir
