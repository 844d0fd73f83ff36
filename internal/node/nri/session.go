package nri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/nri/pkg/version"
	"github.com/containerd/ttrpc"
	"golang.org/x/sync/errgroup"
)

const (
	// firstWait and lastWait bound the time between two connections. Containers that start in between start without
	// Berth, so lastWait is short.
	firstWait = 50 * time.Millisecond
	lastWait  = 2 * time.Second
	// settled is how long a connection must last before the waits start from firstWait again.
	settled = 10 * time.Second

	// registerWithin bounds the registration. A runtime registers plugins one by one, and may wait for containers to
	// stop before it finishes with a plugin.
	registerWithin = time.Minute
)

// stayConnected connects, and connects again when a connection ends, until ctx ends.
func (p *Plugin) stayConnected(ctx context.Context) error {
	wait := firstWait
	for {
		start := time.Now()
		err := p.connect(ctx)
		if ctx.Err() != nil {
			err = nil // the caller requested the end
		}
		p.note(func(s *Status) { s.State, s.Err = Away, err })
		if time.Since(start) >= settled {
			wait = firstWait
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = min(2*wait, lastWait)
	}
}

// connect makes one connection and returns why it ended.
func (p *Plugin) connect(ctx context.Context) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", p.opts.Socket)
	if err != nil {
		return fmt.Errorf("connect to NRI: %w", err)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	mux := multiplex.Multiplex(conn)
	defer mux.Close()
	listener, err := mux.Listen(multiplex.PluginServiceConn)
	if err != nil {
		return fmt.Errorf("listen to NRI: %w", err)
	}
	server, err := ttrpc.NewServer()
	if err != nil {
		return fmt.Errorf("listen to NRI: %w", err)
	}
	api.RegisterPluginService(server, newService(p, ctx, end))
	side, err := mux.Open(multiplex.RuntimeServiceConn)
	if err != nil {
		return fmt.Errorf("open NRI: %w", err)
	}
	client := ttrpc.NewClient(side, ttrpc.WithOnClose(func() { end(ErrClosed) }))

	var group errgroup.Group
	group.Go(func() error {
		end(p.serve(ctx, server, listener))
		return nil
	})
	if err := p.register(ctx, client); err != nil {
		end(err)
	}
	<-ctx.Done()
	_ = client.Close() // nothing is lost with a connection that has ended
	_ = server.Close()
	_ = mux.Close()
	_ = group.Wait()
	return context.Cause(ctx) //nolint:wrapcheck // its own
}

// serve answers requests until the server is closed.
func (p *Plugin) serve(ctx context.Context, server *ttrpc.Server, listener net.Listener) error {
	if err := server.Serve(ctx, listener); err != nil && !errors.Is(err, ttrpc.ErrServerClosed) {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return ErrClosed
}

// register sends the plugin's name to the runtime, which then configures the plugin.
func (p *Plugin) register(ctx context.Context, client *ttrpc.Client) error {
	ctx, cancel := context.WithTimeout(ctx, registerWithin)
	defer cancel()
	_, err := api.NewRuntimeClient(client).RegisterPlugin(ctx, &api.RegisterPluginRequest{
		PluginName: p.opts.Name,
		PluginIdx:  p.opts.Index,
		NRIVersion: version.GetFromBuildInfo(),
	})
	if err != nil {
		return fmt.Errorf("register with NRI: %w", err)
	}
	return nil
}
