// Package offline is the capability isolate in the agent: cores of their own for offline
// work, and who goes first on a CPU. It measures what the online side does, has package isolate
// decide where the boundary is, and hands the cores on to place, which gives each group its
// CPUs. It writes nothing itself.
//
// The cores stand ready before there is offline work: place gives them to the first container
// in the very answer that makes it. While offline work has more than it is guaranteed, the
// loop of the agent has the load looked at between two rounds (Turn), and a look that moves
// the boundary makes the next round due at once. An agent that starts begins with the
// guarantee, and one that ends desires no boundary in a last round (End).
//
// Files: work.go is the whole, ceiling.go the quota in place of cores, reserve.go what idle
// offline work leaves free without cores, precedence.go who goes
// first on a CPU; package cookies has offline threads share a core scheduling cookie. overlap.go
// looks at what the kernel made of it, support.go at what it has, system.go at what runs outside of
// pods and workloads. report.go and reader.go are what
// users see.
package offline
