// Package wire is what the host and the program in the guest say to each other: over one
// connection one request and one answer, each a JSON value. Closing the connection early
// ends the command.
package wire

// Port is where the program in the guest listens.
const Port = 10777

// Request is one command.
type Request struct {
	// Token proves that the request comes from who started the machine: other users of the
	// host reach the port too.
	Token string
	Argv  []string
	Stdin []byte
}

// Answer is how the command ended.
type Answer struct {
	Stdout, Stderr []byte
	// Code is the exit code, and 128 plus the signal if one ended the command.
	Code int
	// Failure says why the command could not run at all.
	Failure string
}
