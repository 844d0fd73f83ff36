package cri

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// messageLimit is the largest message of the runtime, in bytes: the same as the kubelet's.
	messageLimit = 16 << 20
	// requestLimit is the timeout of a request.
	requestLimit = 5 * time.Second
	// statusLimit is the timeout of the status of one container, for which the runtime asks its shim. lateLimit is the
	// timeout after a failure, and atOnce the number of parallel requests. A runtime with a busy disk is slow, and a
	// shim that hangs must not delay every list.
	statusLimit = requestLimit
	lateLimit   = time.Second
	atOnce      = 8
	// dialLimit is the timeout of a try to connect, and longestWait the longest time between two tries.
	dialLimit   = 2 * time.Second
	longestWait = 2 * time.Second
)

// Groups finds the group of a container; *cgroup.Host implements it.
type Groups interface {
	RuntimeGroup(cgroupsPath string, pid int) (string, error)
}

// Client is a client of one runtime. It connects at its first use and again after the connection was lost. It is safe
// for concurrent use.
type Client struct {
	conn    *grpc.ClientConn
	service runtime.RuntimeServiceClient
	groups  Groups

	mu    sync.Mutex
	known map[string]place // by ID of the container or sandbox
	late  map[string]bool  // IDs whose last status request failed
}

// place contains the properties that do not change while a container runs.
type place struct {
	pid  int
	path string
}

// Open returns a Client of the runtime at an endpoint: the absolute path of a Unix socket, with or without the prefix
// unix://. It sends no request. The error is ErrEndpoint.
func Open(endpoint string, groups Groups) (*Client, error) {
	socket := strings.TrimPrefix(endpoint, "unix://")
	if !path.IsAbs(socket) || strings.ContainsAny(socket, "?#%\x00") {
		return nil, fmt.Errorf("%w %q: must be the absolute path of a socket, like unix:///run/containerd/containerd.sock", ErrEndpoint, endpoint)
	}
	waits := backoffUpTo(longestWait)
	waits.MinConnectTimeout = dialLimit
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the socket's mode controls access
		grpc.WithConnectParams(waits),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageLimit), grpc.MaxCallSendMsgSize(messageLimit)),
	)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrEndpoint, endpoint, err)
	}
	return &Client{conn: conn, service: runtime.NewRuntimeServiceClient(conn), groups: groups, known: map[string]place{}, late: map[string]bool{}}, nil
}

// backoffUpTo returns the waits between tries to connect.
func backoffUpTo(longest time.Duration) grpc.ConnectParams {
	var p grpc.ConnectParams
	p.Backoff.BaseDelay = 50 * time.Millisecond
	p.Backoff.Multiplier = 2
	p.Backoff.MaxDelay = longest
	return p
}

// Close ends the connection.
func (c *Client) Close() error {
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("close container runtime: %w", err)
	}
	return nil
}

// Runtime is the name and the version that a runtime reports.
type Runtime struct {
	Name, Version string
}

// Runtime asks the runtime for its name and version. The errors are ErrAway and ErrAnswer.
func (c *Client) Runtime(ctx context.Context) (Runtime, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	answer, err := c.service.Version(ctx, &runtime.VersionRequest{})
	if err != nil {
		return Runtime{}, failed("version", err)
	}
	return Runtime{Name: answer.GetRuntimeName(), Version: answer.GetRuntimeVersion()}, nil
}

// failed converts the error of a request.
func failed(what string, err error) error {
	class := ErrAnswer
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		class = ErrAway
	}
	return fmt.Errorf("container runtime: %s: %w: %w", what, class, err)
}
