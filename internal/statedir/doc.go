// Package statedir is what the agent keeps in its state directory beside the journal, so
// that its next process goes on where it ended: values as JSON files that are replaced by
// rename, the identity of the agent, what the cluster said last, and what the container
// runtime was answered.
//
// Only the identity is on disk once it is written. All other files survive kill -9, in the page cache,
// and are not waited for: what they say is of this boot, which a power cut ends. Each file may be
// deleted at any time; ARCHITECTURE.md lists what is lost then.
//
// The package takes no lock. Whoever holds the lock of the journal is the only writer of
// the directory.
package statedir
