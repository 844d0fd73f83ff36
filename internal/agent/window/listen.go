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

// socketFile is the agent's socket in stateDir, for root's own commands and for the liveness probe of a pod.
const socketFile = "agent.sock"

// listenEvery is the time between two tries of a busy address.
const listenEvery = 2 * time.Second

// Options describe where the agent listens. All fields except Hosts, Queries and the files of TLS are required.
type Options struct {
	// StateDir is the directory of the socket. The caller holds its lock.
	StateDir string
	// Address is host:port. File is the file that names it.
	Address, File string
	// CertFile and KeyFile are the certificate and key in PEM for the address, read again when they change; empty for
	// none.
	CertFile, KeyFile string
	// Hosts are further names of the address, beside loopback names and the address itself.
	Hosts []string
	// AwaitAddress retries a busy address until it is free, instead of an error.
	AwaitAddress bool
	// Queries is the loopback address, host:port, of Answers.Queries, from field history.listen of File; empty for
	// none. A busy address is an error.
	Queries string
	Log     *slog.Logger
}

// Window is a socket and the addresses at which the agent answers.
type Window struct {
	opts Options
	// keys are nil if the address serves without TLS.
	keys *keys
	// socket is nil if it could not be made.
	socket net.Listener
	// address is nil while it is busy; busy is then the error.
	address net.Listener
	busy    error
	// queries is nil if no queries are answered.
	queries net.Listener
}

// Open opens the agent's socket and addresses. Unusable files of TLS are an error, and so is a busy address, unless it
// is awaited. Without a socket Open only logs a warning.
func Open(ctx context.Context, o Options) (*Window, error) {
	w := &Window{opts: o}
	var err error
	if w.keys, err = readKeys(o); err != nil {
		return nil, err
	}
	if w.address, w.busy = w.listen(ctx); w.busy != nil && !o.AwaitAddress {
		return nil, w.busy
	}
	if o.Queries != "" {
		if w.queries, err = listenAt(ctx, o.File, "history.listen", o.Queries); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	if w.socket, err = listenAtSocket(ctx, o.StateDir); err != nil {
		o.Log.Warn("commands print what the agent saved last, and not what is true now", "error", err)
	}
	return w, nil
}

// Close closes a Window that is not served.
func (w *Window) Close() error {
	var all error
	for _, l := range []net.Listener{w.socket, w.address, w.queries} {
		if l != nil {
			all = errors.Join(all, l.Close())
		}
	}
	return all
}

// listen opens the address.
func (w *Window) listen(ctx context.Context) (net.Listener, error) {
	l, err := listenAt(ctx, w.opts.File, "listen", w.opts.Address)
	if err != nil {
		return nil, err
	}
	return w.keys.over(l), nil
}

// listenAt opens an address from a field of a file.
func listenAt(ctx context.Context, file, field, address string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: field %s: value %q: allowed: a free host:port: %w", file, field, address, err)
	}
	return l, nil
}

// listenAtSocket opens the socket, and replaces the socket of a killed agent: the holder of stateDir's lock is the only
// agent there.
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

// await returns the listener of the address once the address is free, or nil if ctx ends first. It calls tried after
// each try.
func (w *Window) await(ctx context.Context, tried func(busy error)) net.Listener {
	l, err := w.address, w.busy
	if err != nil {
		w.opts.Log.Warn("address is busy; it is tried again until it is free", "error", err)
	}
	for {
		if err == nil {
			tried(nil)
			return l
		}
		tried(err)
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
