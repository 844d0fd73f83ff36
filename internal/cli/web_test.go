package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/web"
	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/cli"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/journal"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// node returns what an agent serves for a host without any events.
func node() http.Handler {
	return web.NewNode(func() (*view.View, error) { return view.Of(view.Facts{At: time.Now()}), nil }, quiet()).Handler()
}

// agentFile writes an agent's file with a listen address.
func agentFile(t testing.TB, dir, listen string) string {
	t.Helper()
	name := filepath.Join(dir, "agent.yaml")
	if err := os.WriteFile(name, []byte("workloadDir: workloads\nstateDir: state\nlisten: "+listen+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// agentIn answers at the socket of an agent whose file is in dir, until the caller calls end or the test ends.
func agentIn(t testing.TB, dir string, views http.Handler) (end func()) {
	t.Helper()
	held, err := journal.Open(filepath.Join(dir, "state"), "boot", driver.Values())
	if err != nil {
		t.Fatal(err)
	}
	w, err := window.Open(t.Context(), window.Options{StateDir: filepath.Join(dir, "state"), Address: "127.0.0.1:0", Log: quiet()})
	if err != nil {
		t.Fatal(errors.Join(err, held.Close()))
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- w.Serve(ctx, window.Answers{Views: views, Metrics: prometheus.NewRegistry(), Listens: func(error) {}})
	}()
	end = sync.OnceFunc(func() {
		stop()
		if err := errors.Join(<-served, held.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return end
}

// A browser cannot send a token to an agent of a cluster, so berth web prints no link, whether the agent answers or
// not.
func TestWebLinkInCluster(t *testing.T) {
	name := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(name, []byte("stateDir: state\nlisten: 127.0.0.1:1\ncluster: {enabled: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, complaint bytes.Buffer
	code := cli.Run(t.Context(), []string{"web", "--config", name}, cli.Streams{Out: &out, Err: &complaint}, "test")
	if code != 1 || out.Len() > 0 || !strings.Contains(complaint.String(), "wants a bearer token") || !strings.Contains(complaint.String(), "sudo berth top") {
		t.Errorf("exit code %d, %q, %q", code, out.String(), complaint.String())
	}
}

// berth web prints the link to a page that exists, and otherwise the agent's reason.
func TestWebLink(t *testing.T) {
	const closed = "no such page"
	for name, test := range map[string]struct {
		handler http.Handler
		code    int
		says    string
	}{
		"page": {node(), 0, ""},
		"none": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, closed, http.StatusNotFound) }), 1, closed},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.handler)
			defer server.Close()
			address := server.Listener.Addr().String()
			var out, complaint bytes.Buffer
			code := cli.Run(t.Context(), []string{"web", "--config", agentFile(t, t.TempDir(), address)}, cli.Streams{Out: &out, Err: &complaint}, "test")
			if code != test.code || !strings.Contains(complaint.String(), test.says) || (out.String() == "http://"+address+"/\n") != (code == 0) {
				t.Errorf("exit code %d, %q, %q", code, out.String(), complaint.String())
			}
		})
	}
}

// berth web --replay shows what berth status --watch recorded until it was interrupted.
func TestRecordAndReplay(t *testing.T) {
	dir := t.TempDir()
	end := agentIn(t, dir, node())
	config := agentFile(t, dir, "127.0.0.1:1")
	lines := run(t, []string{"status", "--watch", "-o", "json", "--config", config}, 2)
	end()
	if !strings.Contains(lines[0], `"v":1`) || !strings.HasPrefix(lines[1], `{"set":{"at":`) {
		t.Fatalf("recorded %q", lines)
	}
	recording := filepath.Join(dir, "node.jsonl")
	if err := os.WriteFile(recording, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, []string{"web", "--replay", recording}, 1, func(link string) {
		for path, want := range map[string]string{"": "<!doctype html>", "api/v1/stream": lines[0]} {
			if text, err := get(t, link+path); err != nil || !strings.HasPrefix(text, want) {
				t.Errorf("%s: %.80q: %v", path, text, err)
			}
		}
	})
}

// With a kubeconfig, berth web shows the cluster until it is interrupted. The error names a missing right.
func TestWebOfCluster(t *testing.T) {
	run(t, []string{"web", "--kubeconfig", api(t, renewed(time.Now()))}, 1, func(link string) {
		for path, want := range map[string]string{"": `src="cluster.js"`, "api/v1/view": `"name":"node-a","cpus":8,"freeCPUs":2,"l3":2,"freeL3":1`, "nodes/node-a/": `src="main.js"`} {
			if text, err := get(t, link+path); err != nil || !strings.Contains(text, want) {
				t.Errorf("%s: %.200q: %v", path, text, err)
			}
		}
	})
	code, out := kubectl(t, "web", "--kubeconfig", api(t, renewed(time.Now()), "/api/v1/pods"))
	if code != 1 || !strings.Contains(out, "no page of the cluster: list pods of ") || !strings.Contains(out, `cannot list resource "pods"`) {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// get returns the content that a link leads to.
func get(t *testing.T, link string) (string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link, http.NoBody)
	if err != nil {
		return "", err
	}
	defer http.DefaultClient.CloseIdleConnections()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// run runs a command until it has printed count lines, passes each line to look, and interrupts it. The exit code must
// then be 0.
func run(t *testing.T, args []string, count int, look ...func(string)) []string {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan int, 1)
	var complaint bytes.Buffer
	go func() {
		ended <- cli.Run(ctx, args, cli.Streams{Out: in, Err: &complaint}, "test")
		_ = in.CloseWithError(errors.New("the command ended"))
	}()
	var lines []string
	for s := bufio.NewScanner(out); len(lines) < count && s.Scan(); lines = append(lines, s.Text()) {
		for _, l := range look {
			l(s.Text())
		}
	}
	interrupt()
	_ = out.Close()
	if code := <-ended; code != 0 || len(lines) < count {
		t.Errorf("berth %s: %d lines, exit code %d: %s", args[0], len(lines), code, complaint.String())
	}
	return lines
}
