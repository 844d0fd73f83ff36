// Package offline is the capability isolate in the agent: cores of their own for offline
// work, and who goes first on a CPU. It measures what the online side does, has package
// isolate decide where the boundary is, and hands the cores on to place, which gives each
// group its CPUs. It writes nothing itself.
//
// Files: work.go is the whole, precedence.go who goes first on a CPU, support.go what the kernel
// has, report.go and reader.go are what users see.
package offline
