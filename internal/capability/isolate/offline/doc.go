// Package offline is the capability isolate in the agent: dedicated cores for offline work, and precedence on a CPU. It
// measures the use of the online side, has package isolate decide the boundary, and passes the cores to place, which
// gives each group its CPUs. It writes nothing itself.
//
// The cores are ready before there is offline work: place gives them to the first container in the very answer that
// makes it. While offline work has more than its guarantee, the agent's loop checks the load between two rounds (Turn).
// A check that moves the boundary makes the next round due at once. A starting agent begins with the guarantee, and an
// ending agent desires no boundary in a last round (End).
//
// Files: work.go has the type, ceiling.go the quota in place of cores, reserve.go the CPUs that idle offline work
// leaves free without cores, and precedence.go the precedence on a CPU. Package cookies makes offline threads share a
// core scheduling cookie. overlap.go checks the result in the kernel, support.go the kernel's mechanisms, and system.go
// the processes outside pods and workloads. report.go and reader.go are what users see.
package offline
