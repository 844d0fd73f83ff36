package window

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

// TestMain fails when a test leaves a goroutine behind: every one is joined.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errWrong = errors.New("wrong")

// agent is one that says what a test sets.
type agent struct {
	health, wrong error
	missing       string
	status        string
	asked         int
	listens       chan string
}

func (a *agent) answers() Answers {
	return Answers{
		Healthy: func() error { return a.health },
		Ready: func() (string, error) {
			a.asked++
			return a.missing, a.wrong
		},
		Status: func() ([]byte, error) {
			a.asked++
			return []byte(a.status), a.wrong
		},
		Metrics: prometheus.NewRegistry(),
		Listens: func(address string, busy error) {
			if busy != nil {
				address = "busy"
			}
			a.listens <- address
		},
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// get asks a handler for a path.
func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	return answer.Code, strings.TrimSpace(answer.Body.String())
}

func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		agent agent
		path  string
		code  int
		text  string
	}{
		"healthy":    {agent{}, "/healthz", http.StatusOK, "ok"},
		"hangs":      {agent{health: errWrong}, "/healthz", http.StatusServiceUnavailable, "wrong"},
		"ready":      {agent{}, "/readyz", http.StatusOK, "ok"},
		"not yet":    {agent{missing: "first pass"}, "/readyz", http.StatusServiceUnavailable, "first pass"},
		"never":      {agent{wrong: errWrong}, "/readyz", http.StatusServiceUnavailable, "wrong"},
		"status":     {agent{status: "{}"}, "/api/v1/status", http.StatusOK, "{}"},
		"no status":  {agent{wrong: errWrong}, "/api/v1/status", http.StatusInternalServerError, "wrong"},
		"metrics":    {agent{}, "/metrics", http.StatusOK, ""},
		"other path": {agent{}, "/", http.StatusNotFound, "404 page not found"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &Window{opts: Options{Log: quiet()}}
			if code, text := get(t, w.handler(test.agent.answers()), test.path); code != test.code || text != test.text {
				t.Errorf("%d %q, want %d %q", code, text, test.code, test.text)
			}
		})
	}
}

// However often a client asks, the agent's mutex is taken a few times a second; its health
// needs none and is never old.
func TestAnswersAreMadeNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agent{missing: "first", status: "first"}
		h := (&Window{opts: Options{Log: quiet()}}).handler(a.answers())
		for _, path := range []string{"/readyz", "/api/v1/status"} {
			a.asked, a.missing, a.status = 0, "first", "first"
			for range 100 {
				if _, text := get(t, h, path); text != "first" {
					t.Errorf("%s: another answer within an instant: %q", path, text)
				}
				a.missing, a.status = "second", "second"
			}
			if a.asked != 1 {
				t.Errorf("%s: the agent was asked %d times", path, a.asked)
			}
			time.Sleep(answerEvery + time.Millisecond)
			if _, text := get(t, h, path); text != "second" {
				t.Errorf("%s: the answer of before: %q", path, text)
			}
		}
		if code, _ := get(t, h, "/healthz"); code != http.StatusOK {
			t.Errorf("health: %d", code)
		}
		a.health = errWrong
		if code, _ := get(t, h, "/healthz"); code != http.StatusServiceUnavailable {
			t.Errorf("health, at once: %d", code)
		}
	})
}

// busy takes an address until the function that it returns is called.
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

// An awaited address is served once it is free, and the socket from the beginning, in the
// place of one that a killed agent left.
func TestAwaitsBusyAddress(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, socketFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	address, free := busy(t)
	w, err := Open(t.Context(), Options{StateDir: dir, Address: address, File: "agent.yaml", AwaitAddress: true, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, socketFile)); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("socket %v: %v", info, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	a := &agent{status: "{}", listens: make(chan string)}
	go func() { done <- w.Serve(ctx, a.answers()) }()
	if got := <-a.listens; got != "busy" {
		t.Errorf("listens at %s", got)
	}
	if err := CheckHealth(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if text, err := Status(t.Context(), dir, ""); string(text) != "{}" || err != nil {
		t.Errorf("status over the socket: %q, %v", text, err)
	}
	free()
	for got := "busy"; got != address; {
		got = <-a.listens
	}
	if text, err := Status(t.Context(), t.TempDir(), address); string(text) != "{}" || err != nil {
		t.Errorf("status at the address: %q, %v", text, err)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := CheckHealth(t.Context(), dir); err == nil {
		t.Error("health of an agent that has ended")
	}
}

// A busy address that is not awaited is an error that says where to change it.
func TestBusyAddressIsNamed(t *testing.T) {
	address, _ := busy(t)
	_, err := Open(t.Context(), Options{StateDir: t.TempDir(), Address: address, File: "agent.yaml", Log: quiet()})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), `agent.yaml: field listen: value "`+address+`"`) {
		t.Errorf("error %v", err)
	}
}

// A Window that is never served closes what it opened, and works without a socket.
func TestClose(t *testing.T) {
	var log strings.Builder
	o := Options{StateDir: filepath.Join(t.TempDir(), "gone"), Address: "127.0.0.1:0", File: "agent.yaml"}
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	w, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "commands can ask at the address only") {
		t.Errorf("log %q", log.String())
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// What the agent says is wrong with it is in the client's error.
func TestErrorsNameWhatIsWrong(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no pass for 12s", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	_, err := Status(t.Context(), t.TempDir(), server.Listener.Addr().String())
	if !errors.Is(err, ErrAnswer) || !strings.Contains(err.Error(), "no pass for 12s") {
		t.Errorf("error %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}
