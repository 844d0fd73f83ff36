// Package apply makes changes on the host and takes them back. It is the only
// writer of other people's groups.
//
// A change goes through fixed steps, and a crash between any two of them
// leaves what a later Restore brings back exactly:
//
//  1. read the value in force; it must be the one the change was planned from
//  2. the first time: journal it as the original, on disk (Begin)
//  3. journal the value about to be written (Intend)
//  4. write, in one write(2), to a file that exists
//  5. read back: success is the kernel's effective value, not the return code.
//     For CPUs and memory nodes that is a second file, because cgroup v2 takes any
//     list and silently uses another one
//
// Two others may do step 4. The CPUs of a systemd unit are set by systemd (Units),
// which would undo what is written behind its back. And the container runtime
// writes what it was told to when it makes or updates containers: Record does steps
// 2 and 3 for that beforehand, in one batch, Adopt does them afterwards for a group
// that was made with Berth's value.
//
// If the journal does not take the record of step 2 or 3, nothing is written.
// The one exception is the way back: the journaled original is written even
// when its intent cannot be recorded, because the host is then as it was found.
//
// A change of a group's CPUs has a side effect on some kernels: threads lose the affinity
// that they gave themselves, before Linux 6.2. It is journaled before the write
// (NoteThreads) and given back after it (RestoreThreads), within the CPUs that the group
// has then. Which kernel it is shows after the first write: one that keeps affinities is
// left to itself from then on.
//
// One original cannot be put back to the letter: on cgroup v2 the kernel does not let
// anybody empty cpuset.cpus or cpuset.mems while processes are in the group. Then the
// list of all that the machine can ever have is written, which has the same effect now
// and later, and counts as the original.
//
// A container runtime with the systemd driver leaves Berth's answers with systemd, which
// writes them again at every daemon-reload. While an agent runs it notices; a Restore
// with Properties, which is for after it, takes them out of systemd's records as well.
//
// Restore is a compare-and-swap against the journal. The original standing is
// done, a value of Berth's own is replaced by the original, anything else is
// somebody's hand: reported, kept in the journal, and not overwritten. The
// writes of one Restore are sorted like those of any plan (plan.Order). An
// entry is forgotten after its original was read back, so that an interrupted
// Restore can be repeated until the journal is empty.
//
// Changes of one call depend on each other only as plan.Needs says: when one
// fails, those that the kernel may refuse without it are skipped (ErrSkipped),
// the others are made.
package apply
