// Package tuner brings a plan of package tune about on a host, and takes it back. It writes
// through apply, with a journal of its own in stateDir/tune, so that it works beside an agent,
// which has that of stateDir.
//
// # An apply
//
//  1. lock stateDir/tune; finish what an apply that died left (Settle)
//  2. read what stands; what stands as desired already is not written
//  3. record profile, settings and deadline in stateDir/tune/applied, on disk
//  4. have a process of its own watch the deadline (Keep)
//  5. journal the originals of all, in one write and with one sync
//  6. write in the order of the plan, each read back; the first failure undoes all. A limit of
//     real-time threads comes first where it is tighter than before, and else last, after the
//     record of the trial
//
// # The deadline
//
// An apply is undone unless Commit comes before the deadline. That is a moment of
// CLOCK_BOOTTIME, which goes on in suspend and which no program can set. A process that waits
// keeps it: a service of systemd, where that runs, or a detached child; and so does every Open,
// which is every command and every agent. A record whose writer died is undone at once, whatever its deadline: it says
// "applying", and nobody holds the lock. For a measurement (Order.Held) it says so until the
// undo: what is measured ends with the process that measures.
//
// # Undo
//
// An undo puts back by compare-and-swap, as apply.Restore does, from the last phase to the
// first; a governor goes back before the preference that it decides about. While a value fails
// and another one went back, the undo tries again, since the kernel may take the one only after
// the other. Slices come last
// once more, because every change of a partition resets them. A limit of real-time threads goes
// back first where that tightens it, before the disk is asked for anything, and else last. A value that another program
// wrote meanwhile is reported and kept in the journal, and the record then says "undoing".
//
// # Boot arguments
//
// They are in files, which outlive a boot, as do their entries in the journal. An apply has the
// next boot alone take them, by an entry of its own (OnTrial); a commit in that boot writes the files
// of all boots and takes the entry away (Permanent); and an Open after that boot without a commit
// takes the entry away alone (Over). A commit that dies is undone with the whole profile by the next
// Open, a commit that fails leaves the trial as it was.
//
// # After a boot
//
// Runtime settings end with the boot, and the journal drops their entries. Of the record
// stays what was committed: the profile as it was then. An apply that is undone, but for a
// rollback, leaves it as it was.
package tuner
