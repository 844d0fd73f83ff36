// Package wire is the protocol between the host and the program in the guest: one request and one answer per
// connection, each a JSON value. Closing the connection early ends the command.
package wire

// Port is the port on which the program in the guest listens.
const Port = 10777

// Request is one command.
type Request struct {
	// Token proves that the request comes from the process that started the machine, because other users of the host
	// can also reach the port.
	Token string
	Argv  []string
	Stdin []byte
}

// Answer is the outcome of the command.
type Answer struct {
	Stdout, Stderr []byte
	// Code is the exit code, or 128 plus the signal that ended the command.
	Code int
	// Failure is the reason why the command could not run.
	Failure string
}
