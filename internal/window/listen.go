package window

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"
)

// socketFile is the agent's socket in stateDir, for root's own commands and for the
// liveness probe of a pod.
const socketFile = "agent.sock"

// listenEvery is how often a busy address is tried again.
const listenEvery = 2 * time.Second

// Options say where the agent can be asked. All are needed.
type Options struct {
	// StateDir is where the socket lies. The caller holds its lock.
	StateDir string
	// Address is host:port, and File the file that names it.
	Address, File string
	// AwaitAddress says that a busy address is no error: it is tried until it is free.
	AwaitAddress bool
	Log          *slog.Logger
}

// Window is where the agent can be asked.
type Window struct {
	opts Options
	// socket is nil where it could not be made.
	socket net.Listener
	// address is nil while it is busy, and busy then says so.
	address net.Listener
	busy    error
}

// Open opens the agent's socket and address. A busy address is an error that names
// it, unless it is awaited. A socket that cannot be made is none.
func Open(ctx context.Context, o Options) (*Window, error) {
	w := &Window{opts: o}
	if w.address, w.busy = w.listen(ctx); w.busy != nil && !o.AwaitAddress {
		return nil, w.busy
	}
	var err error
	if w.socket, err = listenAtSocket(ctx, o.StateDir); err != nil {
		o.Log.Warn("commands can ask at the address only", "error", err)
	}
	return w, nil
}

// Close closes a Window that is not served.
func (w *Window) Close() error {
	var all error
	for _, l := range []net.Listener{w.socket, w.address} {
		if l != nil {
			all = errors.Join(all, l.Close())
		}
	}
	return all
}

// listen opens the address.
func (w *Window) listen(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", w.opts.Address)
	if err != nil {
		return nil, fmt.Errorf("%s: field listen: value %q: allowed: a free host:port: %w", w.opts.File, w.opts.Address, err)
	}
	return l, nil
}

// listenAtSocket opens the socket, in the place of one that a killed agent left: whoever
// holds the lock of stateDir is the only agent there.
func listenAtSocket(ctx context.Context, stateDir string) (net.Listener, error) {
	name := filepath.Join(stateDir, socketFile)
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("socket of an earlier agent: %w", err)
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "unix", name)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", name, err)
	}
	if err := os.Chmod(name, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("socket: %w", err), l.Close())
	}
	return l, nil
}

// await returns the listener of the address, as soon as that is free; nil when ctx ends
// before. It reports what each try comes to.
func (w *Window) await(ctx context.Context, tried func(address string, busy error)) net.Listener {
	l, err := w.address, w.busy
	if err != nil {
		w.opts.Log.Warn("address is busy; it is tried again until it is free", "error", err)
	}
	for {
		if err == nil {
			tried(l.Addr().String(), nil)
			return l
		}
		tried("", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(listenEvery):
		}
		if l, err = w.listen(ctx); err == nil {
			w.opts.Log.Info("address is free now", "listen", l.Addr().String())
		}
	}
}
