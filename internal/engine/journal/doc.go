// Package journal records the state of the host before Berth changed it, so that Berth can restore every original
// value, also after a crash.
//
// Each line of the file stateDir/journal is one JSON object: the checksum (CRC-32C, Castagnoli) of a record, and the
// record. The first record is the header, with the version of the format and the boot id. The other records are:
//
//	original  the value found before the first write to a target, with its driver,
//	          identity, lifetime, owner, workload and reason; on disk before Begin
//	          returns (fsync; for a new file, fsync of the directory too).
//	intent    the value about to be written, with the owner and the identity if they
//	          changed. It is appended without fsync: it survives kill -9 of the agent,
//	          while a power loss resets the target anyway. The record of a target that
//	          outlives a boot is fsynced.
//	rebase    a new original that the workload's own spec confirmed; fsynced.
//	threads   the affinities that threads of the group gave themselves, before a write
//	          that makes some kernels forget them; appended without fsync, since no
//	          thread survives a power loss.
//	forget    the original is in effect again; appended without fsync.
//
// Record journals changes that the container runtime is about to make, many at a time: the same lines, in one write and
// with one fsync.
//
// A crash can happen between an intent and its write. So an entry remembers two values of Berth's own: the last intent
// and the value before it, and whether the owner had written the value before it. A restore compares the host with
// them. If the host has one of these two values, Berth restores the original. If the host has the original, nothing is
// left to do. Any other value belongs to another writer. Forget records are therefore only a convenience: if one is
// lost, the next check finds the original in effect.
//
// Reading tolerates exactly the damage that a crash can cause. A last line that is cut off, or whose checksum is wrong
// because its pages reached the disk out of order, is dropped and reported (Torn). Anything else is damage:
//
//   - such a line before the end;
//   - a first line that is complete but no header, since the header is on disk before the file has its name;
//   - a line with the right checksum that does not fit its position.
//
// Open then refuses the file and names the line, while Load and Salvage still return every entry that can be read.
// Entries of another boot are dropped, since no cgroup survives a reboot, and damage that a power loss did to their
// file does not matter. Entries of a persistent target are retained: what a power loss did to the lines behind them is
// reported, but Open does not refuse the file.
//
// An entry is for a place (plan.Place), whichever driver wrote there, and names that driver. The plan.Kinds that the
// journal is opened with define what its values mean.
//
// The format is version 2. Any other version is ErrVersion; no release wrote version 1.
//
// The journal reserves space ahead (fallocate with FALLOC_FL_KEEP_SIZE). Before it accepts an original or an intent,
// the file's allocation must cover that record. For every entry, it must also cover one write back to its original and
// one forget record. So a full disk refuses new changes but never the way back. Where the file system cannot reserve
// (EOPNOTSUPP), Berth still tries the way back, and package apply writes an original even if its record fails.
//
// Open rewrites the file without history, and Tidy does so when the file has grown by more than 1 MiB: a new file,
// fsync, rename, fsync of the directory. Appending a record never rewrites the file, because it happens between two
// writes to the host and must not wait for the disk. A rewrite that fails leaves the old file in use. A damaged file
// gets a second name right before a new file replaces it. Until there is room for the new file, nothing of the damaged
// file is cut off.
//
// Writers exclude each other by flock(2) on stateDir/lock, which contains the writer's process id. The kernel releases
// the lock of a killed writer. Load never locks.
package journal
