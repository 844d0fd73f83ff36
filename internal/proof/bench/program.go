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
	"time"

	"github.com/berth-project/berth/internal/linux/process"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/unit"
)

// begin waits for a byte of input and then becomes a program, which may open as many files as allowed.
const begin = `read _; ulimit -n "$(ulimit -Hn)" && exec "$@" </dev/null`

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
	Argv    []string
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
	s.Address = p.Address
	accepts := func() (bool, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.Address)
		if err != nil {
			return false, nil //nolint:nilerr // The program does not listen yet.
		}
		return true, conn.Close()
	}
	if err := await(ctx, time.Now().Add(startTimeout), accepts, s.Alive); err != nil {
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
	stop := context.AfterFunc(ctx, func() { _ = p.Signal(syscall.SIGTERM) })
	defer stop()
	attached := group.Attach(p.PID())
	if err := errors.Join(p.Wait(), attached, ctx.Err()); err != nil {
		return "", fmt.Errorf("%w: %s: %w: %s", ErrChild, argv[0], err, &said)
	}
	return said.String(), nil
}

// Command runs a command of Berth to its end, and returns what it printed on standard output.
func Command(ctx context.Context, args ...string) (string, error) {
	var said, errs bytes.Buffer
	cmd := exec.Command(self, args...) // Not CommandContext: the signal below ends it in order.
	cmd.Args[0], cmd.Stdout, cmd.Stderr = "berth", &said, &errs
	p, err := process.Start(cmd, syscall.SIGTERM)
	if err != nil {
		return "", fmt.Errorf("%w: berth %s: %w", ErrChild, strings.Join(args, " "), err)
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Signal(syscall.SIGTERM) })
	defer stop()
	if err := errors.Join(p.Wait(), ctx.Err()); err != nil {
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

// LoadPath sends the arrivals to the stage's server, as GET requests for a path with an Accept-Encoding.
func (s *Stage) LoadPath(ctx context.Context, path, encoding string, arrivals []time.Duration) (Outcome, error) {
	return s.meter.Load(ctx, load.Generator{Address: s.Address, Path: path, Encoding: encoding}, arrivals)
}
