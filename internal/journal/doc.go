// Package journal records what the host looked like before Berth changed it,
// so that every original value can be put back, also after a crash.
//
// The file stateDir/journal holds one JSON object a line: the checksum
// (CRC-32C, Castagnoli) of a record and the record. The first record is the
// header, with the version of the format and the boot id. The others are:
//
//	original  the value found before the first write to a target, with its driver
//	          and identity, its lifetime, owner, workload and reason; on disk
//	          (fsync, and the directory's too for a new file) before Begin returns
//	intent    the value about to be written, with the owner and the identity if they are
//	          others by now; appended without fsync, which is
//	          enough to survive kill -9 of the agent, while a power loss resets
//	          the target anyway; fsynced for a target that outlives a boot
//	rebase    a new original, which the workload's own spec confirmed; fsynced
//	threads   the affinities that threads of the group gave themselves, before a write
//	          that makes some kernels forget them; appended without fsync, since no
//	          thread survives a power loss
//	forget    the original stands again; appended without fsync
//
// Changes that the container runtime is about to make, many at a time, are recorded
// by Record: the same lines, in one write and with one fsync.
//
// A crash can hit between an intent and its write, so an entry remembers two
// values of Berth's own: the one intended last and the one that stood before
// it, and whether the owner had written the latter. Whoever restores compares: the host at one of these two is Berth's to
// put back, the host at the original is done, anything else is another writer's.
// That also makes forget records a convenience: lose one, and the next look
// finds the original standing.
//
// Reading forgives exactly what a crash can do. A last line that is cut off, or
// whose checksum is wrong because its pages reached the disk out of order, is
// dropped and reported (Torn). Anything else is damage: such a line before the
// end, a first line that is complete and no header, since the header is on disk
// before the file has its name, and a line with the right checksum that does not
// fit where it stands. Open refuses the file then, naming the line, while Load
// and Salvage still hand out every entry that can be read. Entries of another
// boot are dropped, since no cgroup survives a reboot, and with them whatever
// a power loss did to their file. Those of a persistent target are kept: what a power
// loss did to the lines behind them is reported, and refuses nothing.
//
// An entry is for a place (plan.Place), whichever driver wrote there; the entry says
// which one did. What its values mean is said by the plan.Kinds that the journal is
// opened with.
//
// The format is version 2. A journal of version 1, which knew files of control groups
// only, is read and rewritten when it is opened. A newer one is ErrVersion.
//
// Space is reserved ahead (fallocate with FALLOC_FL_KEEP_SIZE): before an
// original or an intent is taken, the file's allocation must cover it and,
// for every entry, one write back to its original and one forget record. So a
// full disk refuses new changes but never the way back. Where the file system
// cannot reserve (EOPNOTSUPP), the way back is tried all the same, and package
// apply writes an original even if its record fails.
//
// The file is rewritten without history when it is opened, and by Tidy when it
// has grown by more than 1 MiB: a new file, fsync, rename, fsync of the
// directory. Appending a record never does that, because it is done between two
// writes to the host and must not wait for the disk. A rewrite that fails
// leaves the old file in use.
// A damaged file gets a second name right before a new one takes its place. Until
// there is room for that, nothing of it is cut off.
//
// Writers exclude each other by flock(2) on stateDir/lock, which holds the
// writer's process id; a killed writer's lock is gone with it. Load never locks.
package journal
