package nri

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"
	"go.uber.org/goleak"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/test/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long is how long a test waits for an expected answer, and the limit of handlers that must not be late.
const long = 5 * time.Minute

// runtimeEnd is the runtime's end of a connection.
type runtimeEnd struct {
	mux        multiplex.Mux
	server     *ttrpc.Server
	client     *ttrpc.Client
	registered chan *api.RegisterPluginRequest
	plugin     api.PluginService
	served     sync.WaitGroup
}

func (r *runtimeEnd) RegisterPlugin(_ context.Context, req *api.RegisterPluginRequest) (*api.Empty, error) {
	r.registered <- req
	return &api.Empty{}, nil
}

func (r *runtimeEnd) UpdateContainers(context.Context, *api.UpdateContainersRequest) (*api.UpdateContainersResponse, error) {
	return nil, errors.New("no caller may ask for that")
}

func (r *runtimeEnd) close() {
	r.client.Close()
	r.server.Close()
	r.mux.Close()
	r.served.Wait()
}

// accept accepts one connection of a plugin and waits for its registration.
func accept(t *testing.T, l net.Listener) *runtimeEnd {
	t.Helper()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	r := &runtimeEnd{mux: multiplex.Multiplex(conn, multiplex.WithBlockedRead()), registered: make(chan *api.RegisterPluginRequest, 1)}
	plugin, err := r.mux.Open(multiplex.PluginServiceConn)
	if err != nil {
		t.Fatal(err)
	}
	r.client = ttrpc.NewClient(plugin)
	r.plugin = api.NewPluginClient(r.client)
	if r.server, err = ttrpc.NewServer(); err != nil {
		t.Fatal(err)
	}
	own, err := r.mux.Listen(multiplex.RuntimeServiceConn)
	if err != nil {
		t.Fatal(err)
	}
	api.RegisterRuntimeService(r.server, r)
	r.served.Go(func() { _ = r.server.Serve(t.Context(), own) })
	r.mux.Unblock()
	t.Cleanup(r.close)
	select {
	case req := <-r.registered:
		if req.GetPluginName() != "berth" || req.GetPluginIdx() != DefaultIndex {
			t.Fatalf("registered as %s-%s", req.GetPluginIdx(), req.GetPluginName())
		}
	case <-time.After(long):
		t.Fatal("no registration")
	}
	return r
}

// greet configures and synchronizes a plugin with a new runtime.
func (r *runtimeEnd) greet(t *testing.T) api.EventMask {
	t.Helper()
	answer, err := r.plugin.Configure(t.Context(), &api.ConfigureRequest{RuntimeName: "containerd", RuntimeVersion: "v2.4.2", NRIVersion: "v0.12.3"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.plugin.Synchronize(t.Context(), &api.SynchronizeRequest{}); err != nil {
		t.Fatal(err)
	}
	return api.EventMask(answer.GetEvents())
}

// script is a Handler of a test. It records the events, and fails the test if it is called concurrently.
type script struct {
	t      *testing.T
	answer func(context.Context, Event) (Reply, error)

	busy   sync.Mutex
	mu     sync.Mutex
	events []Event
}

func (s *script) Handle(ctx context.Context, e Event) (Reply, error) {
	if !s.busy.TryLock() {
		s.t.Error("handler called while it was busy")
		return Reply{}, nil
	}
	defer s.busy.Unlock()
	s.mu.Lock()
	s.events = append(s.events, e)
	s.mu.Unlock()
	if s.answer == nil {
		return Reply{}, nil
	}
	return s.answer(ctx, e)
}

// kinds returns the kinds of the events so far, without the first Synchronize.
func (s *script) kinds() []Kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kinds []Kind
	for i, e := range s.events {
		if i > 0 || e.Kind != Synchronize {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// last returns the last event of a kind.
func (s *script) last(k Kind) (Event, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range slices.Backward(s.events) {
		if e.Kind == k {
			return e, true
		}
	}
	return Event{}, false
}

// waits is an Observer that records its values.
type waits struct {
	mu     sync.Mutex
	values []float64
}

func (w *waits) Observe(value float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.values = append(w.values, value)
}

func (w *waits) all() []float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.values)
}

// paths resolves groups without a host.
type paths struct{}

func (paths) RuntimeGroup(cgroupsPath string, _ int) (string, error) {
	return cgroup.RuntimePath(cgroupsPath)
}

// bed is a running Plugin with the socket that it connects to.
type bed struct {
	plugin   *Plugin
	handler  *script
	listener net.Listener
	socket   string
}

// run starts a Plugin with its own socket.
func run(t *testing.T, answer func(context.Context, Event) (Reply, error), change ...func(*Options)) *bed {
	t.Helper()
	b := &bed{handler: &script{t: t, answer: answer}, socket: filepath.Join(t.TempDir(), "nri.sock")}
	b.listen(t)
	o := Options{Socket: b.socket, Handler: b.handler, Groups: paths{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Limit: long}
	for _, c := range change {
		c(&o)
	}
	plugin, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	b.plugin = plugin
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- plugin.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(long):
			t.Error("Run does not end")
		}
	})
	return b
}

func (b *bed) listen(t *testing.T) {
	t.Helper()
	l, err := net.Listen("unix", b.socket)
	if err != nil {
		t.Fatal(err)
	}
	b.listener = l
	t.Cleanup(func() { l.Close() })
}

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	err := patience.Until(t.Context(), 2*time.Millisecond, func() string {
		if ok() {
			return ""
		}
		return what
	})
	if err != nil {
		t.Fatal(err)
	}
}
