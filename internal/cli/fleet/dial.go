package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// dialer opens connections to ports of pods.
type dialer struct {
	config *rest.Config
	base   *url.URL
}

// newDialer returns a dialer with the rights of a configuration.
func newDialer(cfg *rest.Config) (dialer, error) {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return dialer{}, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	return dialer{config: cfg, base: base}, nil
}

// dial opens a connection. Its errors name the target. If the API server forbids it, dial returns that error. The end
// of ctx ends the attempt: it closes a WebSocket that has no answer yet, but SPDY without a WebSocket waits for the API
// server. An open connection does not end with ctx.
func (d dialer) dial(ctx context.Context, to target) (net.Conn, error) {
	way, err := d.way(ctx, d.base.JoinPath("api/v1/namespaces", namespace, "pods", to.pod, "portforward"))
	if err != nil {
		return nil, &forwardError{to, err}
	}
	session, _, err := way.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		if failed := (*httpstream.UpgradeFailureError)(nil); errors.As(err, &failed) {
			err = failed.Cause // UpgradeFailureError does not unwrap to it
		}
		return nil, &forwardError{to, err}
	}
	c, err := newConn(session, to)
	if err != nil {
		return nil, errors.Join(&forwardError{to, err}, session.Close())
	}
	return c, nil
}

// way returns the dialer of kubectl port-forward: a WebSocket, or SPDY where a proxy or the server does not support
// one. Its attempts end with ctx.
func (d dialer) way(ctx context.Context, to *url.URL) (httpstream.Dialer, error) {
	config := rest.CopyConfig(d.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return attempts{ctx, next} })
	socket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(to, config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", to, err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", to, err)
	}
	plain := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, to)
	return portforward.NewFallbackDialerForStreaming(socket, plain, noSocket), nil
}

// attempts sends the requests of the dialers, which have no context, with one.
type attempts struct {
	ctx  context.Context //nolint:containedctx // it lives as long as one call of dial
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper. A WebSocket needs the trace: its dialer uses the context only until it sends
// the request.
func (a attempts) RoundTrip(r *http.Request) (*http.Response, error) {
	keep := func() bool { return true }
	defer func() { keep() }()
	ctx := httptrace.WithClientTrace(a.ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		keep = context.AfterFunc(a.ctx, func() { _ = got.Conn.Close() })
	}})
	return a.next.RoundTrip(r.WithContext(ctx)) //nolint:wrapcheck // dial wraps it
}

// noSocket reports whether the WebSocket itself failed. If a right is missing, a connection without a WebSocket would
// fail too, and the first answer names the missing right.
func noSocket(err error) bool {
	var failed *httpstream.UpgradeFailureError
	return errors.As(err, &failed) && !apierrors.IsForbidden(failed.Cause) || httpstream.IsHTTPSProxyError(err)
}

// maxMessage bounds the length of an error's text.
const maxMessage = 1 << 20

// conn is a connection to a port: the only pair of streams of a session. It has no deadlines.
type conn struct {
	httpstream.Stream // the bytes of the port
	to                target
	session           httpstream.Connection
	failure           httpstream.Stream
}

// newConn opens the streams of a session.
func newConn(session httpstream.Connection, to target) (*conn, error) {
	header := http.Header{}
	header.Set(v1.PortHeader, to.port)
	header.Set(v1.PortForwardRequestIDHeader, strconv.Itoa(0))
	header.Set(v1.StreamType, v1.StreamTypeError)
	failure, err := session.CreateStream(header)
	if err != nil {
		return nil, fmt.Errorf("stream of errors: %w", err)
	}
	if err := failure.Close(); err != nil { // this side writes nothing
		return nil, fmt.Errorf("stream of errors: %w", err)
	}
	header.Set(v1.StreamType, v1.StreamTypeData)
	data, err := session.CreateStream(header)
	if err != nil {
		return nil, fmt.Errorf("stream of port %s: %w", to.port, err)
	}
	return &conn{Stream: data, to: to, session: session, failure: failure}, nil
}

// Read implements net.Conn. At the end of the data it reads from the other stream whether there was an error.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Stream.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err //nolint:wrapcheck // a net.Conn's
	}
	text, failed := io.ReadAll(io.LimitReader(c.failure, maxMessage))
	if failed != nil || len(text) > 0 {
		return n, &forwardError{c.to, errors.Join(fmt.Errorf("%w: %s", ErrAnswer, oneLine(string(text))), failed)}
	}
	return n, io.EOF
}

// Close implements net.Conn.
func (c *conn) Close() error {
	if err := c.session.Close(); err != nil {
		return &forwardError{c.to, err}
	}
	return nil
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline implements net.Conn; there are none.
func (c *conn) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline implements net.Conn; there are none.
func (c *conn) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline implements net.Conn; there are none.
func (c *conn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
