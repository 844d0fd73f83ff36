package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// doors are where the agent can be asked.
type doors struct {
	// socket is nil where it could not be made.
	socket net.Listener
	// address is nil while it is busy, and busy then says so. again tries it again.
	address net.Listener
	busy    error
	again   func(context.Context) (net.Listener, error)
}

// openDoors opens the agent's socket and address. A busy address is an error that names
// it, before anything on the host was touched. In a cluster it is none: the port is one
// of the host's, any program may have it, and an agent that ended for that would leave
// the pods of the node alone.
func (o *Options) openDoors(ctx context.Context) (doors, error) {
	file, address := o.ConfigFile, o.Config.Listen
	d := doors{again: func(ctx context.Context) (net.Listener, error) { return listen(ctx, file, address) }}
	if d.address, d.busy = d.again(ctx); d.busy != nil && !*o.Config.Cluster.Enabled {
		return doors{}, d.busy
	}
	var err error
	if d.socket, err = listenAtSocket(ctx, o.Config.StateDir); err != nil {
		o.Log.Warn("commands can ask at the address only", "error", err)
	}
	return d, nil
}

// close closes what is open.
func (d doors) close() error {
	var all error
	for _, l := range []net.Listener{d.socket, d.address} {
		if l != nil {
			all = errors.Join(all, l.Close())
		}
	}
	return all
}

// listen opens the address that a file names.
func listen(ctx context.Context, file, address string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: field listen: value %q: allowed: a free host:port: %w", file, address, err)
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
// before.
func (c *controller) await(ctx context.Context, d doors) net.Listener {
	l, err := d.address, d.busy
	if err != nil {
		c.opts.Log.Warn("address is busy; it is tried again until it is free", "error", err)
	}
	for {
		c.mu.Lock()
		if c.unheard = err; err == nil {
			c.listening = l.Addr().String()
		}
		c.mu.Unlock()
		if err == nil {
			return l
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(listenEvery):
		}
		if l, err = d.again(ctx); err == nil {
			c.opts.Log.Info("address is free now", "listen", l.Addr().String())
		}
	}
}
