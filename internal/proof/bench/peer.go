package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// PeerGroup is replaced in the command of a peer by the group of the measured server.
const PeerGroup = "{cgroup}"

// PeerOptions describes another agent, which runs for one arm. Without a command there is none.
type PeerOptions struct {
	// Command is a program and its arguments. No shell interprets them.
	Command []string
	// Settle is how long the peer runs before its arm is measured.
	Settle time.Duration
}

// PeerControl is a running peer.
type PeerControl struct{ child *Child }

// Start starts the peer and waits for Settle; group is the server's group. It fails if the peer ends in that time.
func (o PeerOptions) Start(ctx context.Context, group string) (*PeerControl, error) {
	args := make([]string, len(o.Command))
	for i, arg := range o.Command {
		args[i] = strings.ReplaceAll(arg, PeerGroup, group)
	}
	child, err := startCommand("peer "+args[0], exec.Command(args[0], args[1:]...)) // Not CommandContext: Stop ends it in order.
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(o.Settle):
	case <-child.process.Done():
	case <-ctx.Done():
	}
	if err := errors.Join(ctx.Err(), child.Alive()); err != nil {
		return nil, fmt.Errorf("peer settles: %w", errors.Join(err, child.Stop()))
	}
	return &PeerControl{child}, nil
}

// Writes implements Control: it does not count the peer's writes. It fails once the peer has ended, so that no arm
// without its peer counts.
func (p *PeerControl) Writes() (int, error) { return 0, p.child.Alive() }

// Stop implements Control.
func (p *PeerControl) Stop() error { return p.child.Stop() }
