// Package statedir manages the files in the agent's state directory beside the journal, so that its next process can
// continue. They are values as JSON files that are replaced by rename, the identity of the agent, the last state of the
// cluster, and the answers to the container runtime.
//
// Only a write of the identity waits for the disk. All other files survive kill -9, in the page cache: their contents
// are of this boot, which a power cut ends. Each file may be deleted at any time; docs/state.md lists what is lost
// then.
//
// The package takes no lock. The holder of the journal's lock is the only writer of the directory.
package statedir
