// Package tuner applies a plan of package tune to a host, and undoes it. It writes through apply, with its own journal
// in stateDir/tune. Therefore it works beside an agent, whose journal is in stateDir.
//
// # An apply
//
//  1. lock stateDir/tune; finish what an apply that died left (settle)
//  2. read the present values; a value that is as desired is not written
//  3. record profile, settings and deadline in stateDir/tune/applied, on disk
//  4. start a separate process that watches the deadline (Keep)
//  5. journal the originals of all settings, in one write and with one sync
//  6. write in the order of the plan and read each value back; the first failure undoes all. A limit of
//     real-time threads comes first where it is tighter than before. Otherwise it comes last, after the
//     record of the trial
//
// # The deadline
//
// An apply is undone unless Commit comes before the deadline. The deadline is a moment of CLOCK_BOOTTIME, which
// continues in suspend and which no program can set. A waiting process enforces it: a systemd service, or a detached
// child without systemd. Every Open, by a command or an agent, enforces it too. A record whose writer died is undone at
// once, whatever its deadline: its phase is "applying", and no process holds the lock. For a measurement (Order.Held)
// the phase is "applying" until the undo, because the applied profile ends with the measuring process.
//
// # Undo
//
// An undo restores values by compare-and-swap, as apply.Restore does, from the last phase to the first. A governor is
// restored before the preference that depends on it. The undo tries again while one value fails and another was
// restored, because the kernel may accept the first only after the second. Slices are restored last once more, because
// every change of a partition resets them. A limit of real-time threads is restored first, before any disk access,
// where that tightens it, and otherwise last. A value that another program wrote since the apply is reported and stays
// in the journal, and the phase of the record is then "undoing".
//
// # Boot arguments
//
// Boot arguments are in files, which outlive a boot, as do their journal entries. An apply gives them to the next boot
// only, by a separate boot entry (OnTrial). A commit in that boot writes the files of all boots and removes the entry
// (Permanent). An Open after that boot without a commit only removes the entry (Over). After a commit that dies, the
// next Open undoes the whole profile. A commit that fails leaves the trial as it was.
//
// # After a boot
//
// Runtime settings end with the boot, and the journal drops their entries. The record retains only a committed profile,
// as it was at its commit. An apply that is undone, except by a rollback, leaves this record unchanged.
//
// Early in the next boot, before its units start, systemd gets their lists (Ahead). An apply (Order.Again) sets all
// settings once the units run.
package tuner
