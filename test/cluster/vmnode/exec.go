package vmnode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/berth-project/berth/test/cluster/vmnode/wire"
	"github.com/berth-project/berth/test/patience"
)

var (
	// ErrGuest reports that the guest did not answer: it is off, booting, or has no network.
	ErrGuest = errors.New("guest does not answer")
	// ErrCommand reports that a command in the guest ended with an exit code other than 0.
	ErrCommand = errors.New("command in the guest failed")
)

// Command is a command for [Node.Exec]: a program in the guest's PATH with arguments.
type Command struct {
	Argv  []string
	Stdin []byte
}

// Result is the outcome of a command.
type Result struct {
	Stdout, Stderr []byte
	Code           int // Exit code, or 128 plus the signal that ended it.
}

// Run runs a shell script in the guest and returns its standard output. For an exit code other than 0 the error is
// ErrCommand and contains the script's standard error. When ctx ends, so does the script, with everything in its
// process group.
func (n *Node) Run(ctx context.Context, script string) (string, error) {
	result, err := n.Exec(ctx, Command{Argv: []string{"/bin/sh", "-c", script}})
	if err != nil {
		return "", err
	}
	if result.Code != 0 {
		return string(result.Stdout), fmt.Errorf("%w: exit code %d of %q: %s", ErrCommand, result.Code, script, bytes.TrimSpace(result.Stderr))
	}
	return string(result.Stdout), nil
}

// Exec runs a command in the guest as root and waits for its end. Commands may run concurrently. The error is ErrGuest
// if the guest cannot be reached, and ErrCommand if the program does not exist; an exit code is no error.
func (n *Node) Exec(ctx context.Context, command Command) (Result, error) {
	answer, err := n.ask(ctx, wire.Request{Token: n.state.Token, Argv: command.Argv, Stdin: command.Stdin})
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrGuest, err)
	}
	if answer.Failure != "" {
		return Result{}, fmt.Errorf("%w: %q: %s", ErrCommand, command.Argv, answer.Failure)
	}
	return Result{Stdout: answer.Stdout, Stderr: answer.Stderr, Code: answer.Code}, nil
}

// ask sends one request over a separate connection.
func (n *Node) ask(ctx context.Context, request wire.Request) (wire.Answer, error) {
	var answer wire.Answer
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp4", net.JoinHostPort(n.state.IP, strconv.Itoa(wire.Port)))
	if err != nil {
		return answer, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return answer, errors.Join(context.Cause(ctx), err)
	}
	if err := json.NewDecoder(conn).Decode(&answer); err != nil {
		return answer, errors.Join(context.Cause(ctx), err)
	}
	return answer, nil
}

// pollEvery is the interval of poll.
const pollEvery = 200 * time.Millisecond

// poll calls ask until it returns nil, or until ctx or the machine ends. The error then contains the last error of ask
// and the end of the console.
func (n *Node) poll(ctx context.Context, what string, ask func(context.Context) error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		short, _, cancel := patience.WithLimit(ctx, 5*time.Second)
		err := ask(short)
		cancel()
		if err == nil {
			return nil
		}
		if !n.On() {
			return fmt.Errorf("%s: %w: %w\n%s", what, ErrOff, err, n.tails())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w\n%s", what, context.Cause(ctx), err, n.tails())
		case <-tick.C:
		}
	}
}
