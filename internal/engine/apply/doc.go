// Package apply makes changes on the host and restores the originals. Only this package makes a driver write to
// anything that is not Berth's own. It knows only the driver of a target; the driver knows what a file, a group or a
// unit is (see Driver and Kind).
//
// A change goes through fixed steps, and after a crash between any two of them a later Restore restores the exact
// original:
//
//  1. read the value in effect; it must be the value that the change was planned from
//  2. the first time: journal it as the original, on disk (Begin)
//  3. journal the value about to be written (Intend)
//  4. have the driver write, only to what exists
//  5. have the driver read back: success is the kernel's effective value, not the return code
//
// Another writer may do step 4: the container runtime writes what Berth asked for when it creates or updates
// containers. Record does steps 2 and 3 for that beforehand, in one batch; Adopt does them afterwards for a group that
// was created with Berth's value.
//
// If the journal does not accept the record of step 2 or 3, nothing is written. The one exception is the way back: the
// journaled original is written even when its intent cannot be recorded, because the host is then as Berth found it.
//
// A write may have a side effect on the host: for example, threads lose the affinity that they gave themselves. The
// driver journals what the write may cost before the write (Note) and gives it back after the write (GiveBack), see
// SideEffects.
//
// Parts of a target may outlive it with the values that they were given, as threads do that left their group. The
// driver restores these parts before the entry of the target is forgotten (Survivor).
//
// The host may not accept an original exactly, or may have changed it itself. The driver then names the value that is
// now equivalent (Attainer), and that value is treated as the original.
//
// A container runtime with the systemd driver records Berth's answers with systemd, which writes them again at every
// daemon-reload. A running agent notices that. A Restore with Options.Records, which is for the time after the agent,
// also removes them from systemd's records (Recorder).
//
// Restore is a compare-and-swap against the journal. If the original is in effect, the entry is done. Restore replaces
// a value of Berth's own by the original. Any other value is another writer's: Restore reports it, retains the entry,
// and does not overwrite the value. The writes of one Restore are sorted like those of any plan (plan.Order). An entry
// is forgotten after its original was read back, so that an interrupted Restore can be repeated until the journal is
// empty.
//
// Changes of one call depend on each other only as plan.Needs defines. When one change fails, the changes that need it
// are skipped (ErrSkipped); all other changes are made.
package apply
