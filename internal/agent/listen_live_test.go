package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/test/patience"
)

// busy occupies an address until free is called.
func busy(t *testing.T) (address string, free func()) {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String(), func() { _ = l.Close() }
}

// runs starts the agent on a machine of files.
func (m *machine) runs(file string) (stop func() error) {
	m.t.Helper()
	if os.Geteuid() != 0 {
		m.t.Skip("the agent runs as root only; the VM runs it: make test")
	}
	m.write("etc/agent.yaml", file)
	cfg, err := manifest.LoadConfig(m.path("etc/agent.yaml"))
	if err != nil {
		m.t.Fatal(err)
	}
	root, err := hostfs.Open(m.dir)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = root.Close() })
	ctx, cancel := context.WithCancel(m.t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{
			ConfigFile: m.path("etc/agent.yaml"), Config: cfg, Version: "test", Root: root,
			Clock: func() time.Duration { return time.Hour + time.Since(m.start) }, Now: time.Now,
			Log: slog.New(slog.NewTextHandler(io.Discard, nil)), mover: m.mover,
		})
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// get requests a path over the network and address, TCP or the agent's socket.
func get(t *testing.T, network, address, path string) (int, string) {
	t.Helper()
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		},
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

// becomes waits until a path returns a code and a text.
func becomes(t *testing.T, network, address, path string, code int, part string) {
	t.Helper()
	var got int
	var text string
	err := patience.Until(t.Context(), 50*time.Millisecond, func() string {
		if got, text = get(t, network, address, path); got == code && strings.Contains(text, part) {
			return ""
		}
		return fmt.Sprintf("%s at %s: %d, want %d %s", path, address, got, code, part)
	})
	if err != nil {
		t.Errorf("%v: %s", err, text)
	}
}

// In a cluster another program may have the agent's port. The agent works nevertheless, is healthy, reports why it is
// not ready, and listens on the port once it is free.
func TestBusyAddressInCluster(t *testing.T) {
	m := newMachine(t)
	address, free := busy(t)
	m.write("etc/kubeconfig", `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
`)
	stop := m.runs("stateDir: state\nlisten: " + address + "\ncluster: {enabled: true, nodeName: node, kubeconfig: " + m.path("etc/kubeconfig") +
		", kubeletDir: " + m.path("kubelet") + ", nriSocket: " + m.path("nri.sock") + "}\n")
	socket := m.path("etc/state/agent.sock")
	becomes(t, "unix", socket, "/healthz", http.StatusOK, "ok")
	becomes(t, "unix", socket, "/readyz", http.StatusServiceUnavailable, "field listen: value \""+address+"\"")
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket %v: %v", info, err)
	}
	if problems := viewed(t, m.path("etc/state")).Problems; len(problems) != 1 || !strings.Contains(problems[0], address) {
		t.Errorf("problems %q", problems)
	}
	free()
	becomes(t, "tcp", address, "/healthz", http.StatusOK, "ok")
	becomes(t, "tcp", address, "/readyz", http.StatusServiceUnavailable, "NRI") // the next reason
	for _, path := range []string{"/", "/api/v1/view", "/metrics"} {
		becomes(t, "tcp", address, path, http.StatusUnauthorized, "bearer token")
		becomes(t, "unix", socket, path, http.StatusOK, "")
	}
	if problems := viewed(t, m.path("etc/state")).Problems; len(problems) > 0 {
		t.Errorf("problems %q", problems)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// Without Kubernetes the agent does not start, and the error names the address.
func TestBusyAddressWithoutCluster(t *testing.T) {
	m := newMachine(t)
	address, _ := busy(t)
	err := m.runs("workloadDir: workloads\nstateDir: state\nlisten: " + address + "\n")()
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "field listen: value \""+address+"\"") {
		t.Errorf("error %v", err)
	}
}

// The agent waits for its mover when it ends. No mover may work beside the next agent.
func TestStopJoinsTheMover(t *testing.T) {
	m := newMachine(t)
	fake := &moves{ended: make(chan struct{})}
	m.mover = fake
	stop := m.runs("workloadDir: workloads\nstateDir: state\nlisten: 127.0.0.1:0\n")
	becomes(t, "unix", m.path("etc/state/agent.sock"), "/healthz", http.StatusOK, "ok")
	select {
	case <-fake.ended:
		t.Error("the mover ended before the agent")
	default:
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	select {
	case <-fake.ended:
	default:
		t.Error("the agent ended before its mover")
	}
}

// viewed returns the view that the agent of stateDir serves over its socket.
func viewed(t *testing.T, stateDir string) (v view.View) {
	t.Helper()
	text, err := window.View(t.Context(), stateDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
