// Package statedir is what the agent keeps in its state directory beside the journal, so
// that its next process goes on where it ended: values as JSON files that are replaced by
// rename, the identity of the agent, what the cluster said last, and what the container
// runtime was answered.
//
// No file is fsynced: each survives kill -9 in the page cache, and the groups and containers
// that it names do not outlive a power loss either. Each may be deleted at any time;
// ARCHITECTURE.md lists what is lost then.
//
// The package takes no lock. Whoever holds the lock of the journal is the only writer of
// the directory.
package statedir
