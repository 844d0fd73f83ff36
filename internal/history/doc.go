// Package history keeps what workloads had and used, a sample a second: limit, quota, use, credit
// and throttling of each, and the use of the node. The last quarter of an hour is in memory, and
// where there is a directory a day or so is on disk.
//
// The agent's loop hands over moments that it has anyway (Recorder), and never waits: a goroutine
// of its own takes them into a History. The ring of that keeps whole numbers as differences, in
// minutes: what stays as it was costs two bytes a minute, and a use that is another one each second
// two bytes a sample. It is bounded twice. There are at most so many series, where a workload has
// eight: the newest ones are refused. And its closed minutes have at most so many bytes: beyond
// that the oldest go early.
//
// A closed minute is appended to a file of the archive as a block with a checksum. Files are bounded
// in time and bytes, and the oldest go. A block that was not written whole, since the agent was killed
// or the disk was full, is cut off; a file that is damaged is renamed, and what is before the damage
// stays. Where nothing can be written, history on disk stops and all else goes on. Nothing is synced:
// after a power cut some minutes are missing.
//
// Files: column.go is one series as bytes, minute.go a minute of all, ring.go the last of them,
// block.go a minute on disk, archive.go the files; fold.go joins samples for who asks.
package history
