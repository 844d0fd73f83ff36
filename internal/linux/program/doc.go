// Package program finds the processes of a group that size themselves by the group's quota while they run: a Go program
// by GOMAXPROCS, a Java virtual machine by its processors. A change of the quota changes these as well.
//
// A Go program's file says with which Go it was built, and which defaults of GODEBUG its module chose
// (debug/buildinfo). Since Go 1.25 GOMAXPROCS follows the quota, unless a module of an earlier version, or the user,
// decides otherwise. A Java virtual machine has libjvm.so mapped, under any name of its launcher.
//
// The files belong to the owner of the group, who may have made them to attack their reader. So every read is bounded,
// and sections of a file, which may be compressed, are not read. The caller does not wait for a file system that never
// answers. Only berth explain reads these files, when a user runs it; the agent does not.
package program
