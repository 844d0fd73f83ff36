// Package mems is what is told of a running group whose memory nodes are to be narrowed: what the write
// that an agent once made cost, beside what the agent of today does, and which laws that keeps. A live
// test of package agent measures it, `vm mems` prints it.
//
// The times are those of an emulated machine: they compare the arms with each other, and say nothing of
// a real one.
package mems
