// Package mems reports on narrowing the memory nodes of a running group. It compares the cost of the single write that
// agents once made with the current agent, and checks laws that must hold. A live test of package agent measures it,
// and `vm mems` prints the report.
//
// The times come from an emulated machine. They compare the arms with each other, and say nothing about a real machine.
package mems
