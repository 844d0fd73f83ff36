// Package apply makes changes on the host and takes them back. Nothing else has a
// driver write to what is not Berth's own. Of a target it knows the driver only:
// what a file, a group or a unit is, is known there (see Driver and Kind).
//
// A change goes through fixed steps, and a crash between any two of them
// leaves what a later Restore brings back exactly:
//
//  1. read the value in force; it must be the one the change was planned from
//  2. the first time: journal it as the original, on disk (Begin)
//  3. journal the value about to be written (Intend)
//  4. have the driver write, to what exists
//  5. have it read back: success is the kernel's effective value, not the return code
//
// Another writer may do step 4: the container runtime writes what it was asked to when it
// makes or updates containers. Record does steps 2 and 3 for that beforehand, in one
// batch, Adopt does them afterwards for a group that was made with Berth's value.
//
// If the journal does not take the record of step 2 or 3, nothing is written.
// The one exception is the way back: the journaled original is written even
// when its intent cannot be recorded, because the host is then as it was found.
//
// A write may have a side effect on the host, such as threads that lose the affinity which
// they gave themselves. The driver has what it costs journaled before the write (Note) and
// gives it back after it (GiveBack), see SideEffects.
//
// Parts of a target may outlive it with what they were given, as threads do that left their
// group: they are put back before its entry is forgotten (Survivor).
//
// Where the host does not take an original to the letter, or has changed it itself, the
// driver says what is as good now (Attainer), and that counts as the original.
//
// A container runtime with the systemd driver leaves Berth's answers with systemd, which
// writes them again at every daemon-reload. While an agent runs it notices; a Restore
// with Options.Records, which is for after it, takes them out of systemd's records as well
// (Recorder).
//
// Restore is a compare-and-swap against the journal. The original standing is
// done, a value of Berth's own is replaced by the original, anything else is
// another writer's: reported, kept in the journal, and not overwritten. The
// writes of one Restore are sorted like those of any plan (plan.Order). An
// entry is forgotten after its original was read back, so that an interrupted
// Restore can be repeated until the journal is empty.
//
// Changes of one call depend on each other only as plan.Needs says: when one
// fails, those that the kernel may refuse without it are skipped (ErrSkipped),
// the others are made.
package apply
