package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"

	"github.com/berth-project/berth/internal/linux/process"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/unit"
)

// becomes is the shell's line that becomes a program, which may open as many files as allowed. begin waits for a byte of
// input first.
const (
	becomes = `ulimit -n "$(ulimit -Hn)" && exec "$@"`
	begin   = "read _; " + becomes + " </dev/null"
)

// ended waits for the end of a process, which it ends in order when ctx ends first.
func ended(ctx context.Context, p *process.Process) error {
	stop := context.AfterFunc(ctx, func() { _ = p.Signal(syscall.SIGTERM) })
	defer stop()
	return errors.Join(p.Wait(), ctx.Err())
}

// Needs returns an error that matches ErrMissing and names Debian's package if a program is not installed.
func Needs(program, pkg string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%w %s, of Debian's package %s: %w", ErrMissing, program, pkg, err)
	}
	return nil
}

// Program is a program of this machine that serves a local address.
type Program struct {
	// Name is a part of the group's name.
	Name    string
	Quota   unit.Micros
	Address string
	// Path and Encoding are those of the requests of Stage.Load, empty for the request server's.
	Path, Encoding string
	Argv           []string
}

// Open makes a stage with the program. The program starts after its move into the group, so that all its processes are
// there. Open returns once the address accepts connections.
func (p Program) Open(ctx context.Context, place Place) (*Stage, error) {
	s, err := openStage(place, p.Name, p.Quota, func() (*Child, error) {
		return startCommand(p.Argv[0], exec.Command("sh", append([]string{"-c", begin, "sh"}, p.Argv...)...))
	})
	if err != nil {
		return nil, err
	}
	s.Address, s.request = p.Address, load.Generator{Path: p.Path, Encoding: p.Encoding}
	accepts := func() (bool, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.Address)
		if err != nil {
			return false, nil //nolint:nilerr // The program does not listen yet.
		}
		return true, conn.Close()
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := Await(starting, accepts, s.Alive); err != nil {
		return nil, errors.Join(fmt.Errorf("wait for %s: %w", p.Argv[0], err), s.Close())
	}
	return s, nil
}

// Output runs a program of this machine in a group until it ends, and returns what it printed.
func Output(ctx context.Context, group *scratch.Group, argv ...string) (string, error) {
	var said bytes.Buffer
	p, err := limitless(&said, argv...)
	if err != nil {
		return "", err
	}
	attached := group.Attach(p.PID())
	if err := errors.Join(ended(ctx, p), attached); err != nil {
		return "", fmt.Errorf("%w: %s: %w: %s", ErrChild, argv[0], err, &said)
	}
	return said.String(), nil
}

// Command runs a command of Berth to its end, and returns what it printed on standard output.
func Command(ctx context.Context, args ...string) (string, error) {
	var said, errs bytes.Buffer
	cmd := exec.Command(self, args...) // Not CommandContext: ended ends it in order.
	cmd.Args[0], cmd.Stdout, cmd.Stderr = "berth", &said, &errs
	p, err := process.Start(cmd, syscall.SIGTERM)
	if err != nil {
		return "", fmt.Errorf("%w: berth %s: %w", ErrChild, strings.Join(args, " "), err)
	}
	if err := ended(ctx, p); err != nil {
		return said.String(), fmt.Errorf("%w: berth %s: %w: %s", ErrChild, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return said.String(), nil
}

// FreeAddress returns an address of this machine on which nothing listens.
func FreeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("free address: %w", err)
	}
	if err := l.Close(); err != nil {
		return "", fmt.Errorf("free address: %w", err)
	}
	return l.Addr().String(), nil
}
