// Package history stores what workloads had and used, a sample a second: limit, quota, use, credit and throttling of
// each workload, and the use of the node. The last 15 minutes are in memory. With a directory, about a day is also on
// disk.
//
// The agent's loop hands over moments that it has anyway (Recorder), and never waits: a separate goroutine adds them to
// a History. Its ring stores integers as differences, in minutes. A constant series costs two bytes a minute, a use
// that changes each second two bytes a sample. The ring has two bounds. The number of series is limited, with eight
// series for each workload: the newest are refused. The size of the closed minutes is limited too: beyond it the oldest
// go early.
//
// A closed minute is appended to a file of the archive as a block with a checksum. Files are bounded in time and bytes,
// and the oldest are removed. A block that was not written whole, because the agent was killed or the disk was full, is
// cut off. A damaged file is renamed, and the part before the damage stays. If nothing can be written, history on disk
// stops and the agent goes on. Nothing is synced: after a power cut some minutes are missing.
//
// Files: column.go is one series as bytes, minute.go a minute of all series, ring.go the minutes in memory, block.go a
// minute on disk, archive.go the files; fold.go joins samples for readers.
package history
