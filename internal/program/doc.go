// Package program is what the processes of a group run, as far as that sizes itself by the
// group's quota while it runs: a Go program by GOMAXPROCS, a Java virtual machine by its
// processors. A quota that moves changes these with it.
//
// A Go program says in its own file with which Go it was built, and which defaults of GODEBUG
// its module chose (debug/buildinfo); since Go 1.25 GOMAXPROCS follows the quota, unless a
// module of an earlier version, or the user, decides otherwise. A virtual machine has libjvm.so
// mapped, whatever its launcher is called.
//
// The files are those of whoever owns the group, and perhaps made to be read by this: so much of
// each is read and not more, sections of the file, which may be compressed, are not looked at,
// and whoever asks does not wait for a file system that never answers. Only berth explain asks,
// when a user runs it: the agent reads none of this.
package program
