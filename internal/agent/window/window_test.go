package window

import (
	"context"
	"errors"
	"fmt"
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

// TestMain fails if a test leaves a goroutine behind, because every goroutine must be joined.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errWrong = errors.New("wrong")

// agent is an agent with the answers that a test sets.
type agent struct {
	health, wrong error
	missing       string
	view          string
	review        Review
	asked         int
	listens       chan error
}

func (a *agent) answers() Answers {
	return Answers{
		Healthy: func() error { return a.health },
		Ready: func() (string, error) {
			a.asked++
			return a.missing, a.wrong
		},
		Views:   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, a.view, " of ", r.URL.Path) }),
		Review:  a.review,
		Metrics: prometheus.NewRegistry(),
		Listens: func(busy error) { a.listens <- busy },
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// get requests a path from a handler.
func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	answer := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	request.Host = "localhost"
	h.ServeHTTP(answer, request)
	return answer.Code, strings.TrimSpace(answer.Body.String())
}

func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		agent agent
		path  string
		code  int
		text  string
	}{
		"healthy": {agent{}, "/healthz", http.StatusOK, "ok"},
		"hangs":   {agent{health: errWrong}, "/healthz", http.StatusServiceUnavailable, "wrong"},
		"ready":   {agent{}, "/readyz", http.StatusOK, "ok"},
		"not yet": {agent{missing: "first pass"}, "/readyz", http.StatusServiceUnavailable, "first pass"},
		"never":   {agent{wrong: errWrong}, "/readyz", http.StatusServiceUnavailable, "wrong"},
		"metrics": {agent{}, "/metrics", http.StatusOK, ""},
		"page":    {agent{view: "page"}, "/", http.StatusOK, "page of /"},
		"view":    {agent{view: "view"}, ViewPath, http.StatusOK, "view of /api/v1/view"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &Window{opts: Options{Log: quiet()}}
			open, own := w.handlers(test.agent.answers())
			if code, text := get(t, own, test.path); code != test.code || text != test.text {
				t.Errorf("at the socket: %d %q, want %d %q", code, text, test.code, test.text)
			}
			if code, text := get(t, open, test.path); code != test.code || text != test.text {
				t.Errorf("at the address: %d %q, want %d %q", code, text, test.code, test.text)
			}
		})
	}
}

// TestAnswersAreMadeNowAndThen checks that frequent requests acquire the agent's mutex only a few times per second. Its
// health needs no mutex and is always current.
func TestAnswersAreMadeNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agent{missing: "first"}
		_, h := (&Window{opts: Options{Log: quiet()}}).handlers(a.answers())
		for range 100 {
			if _, text := get(t, h, "/readyz"); text != "first" {
				t.Errorf("another answer within an instant: %q", text)
			}
			a.missing = "second"
		}
		if a.asked != 1 {
			t.Errorf("the agent was asked %d times", a.asked)
		}
		time.Sleep(answerEvery + time.Millisecond)
		if _, text := get(t, h, "/readyz"); text != "second" {
			t.Errorf("the answer of before: %q", text)
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

// TestAwaitsBusyAddress checks that an awaited address is served once it is free. The socket must work from the
// beginning, in place of one that a killed agent left.
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
	a := &agent{view: "{}", listens: make(chan error)}
	go func() { done <- w.Serve(ctx, a.answers()) }()
	if err := <-a.listens; !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listens: %v", err)
	}
	if err := CheckHealth(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if text, err := View(t.Context(), dir); string(text) != "{} of "+ViewPath || err != nil {
		t.Errorf("view over the socket: %q, %v", text, err)
	}
	if text, err := Past(t.Context(), dir, "shop/web-0/app", 900, 15); string(text) != "{} of "+PastPath || err != nil {
		t.Errorf("history over the socket: %q, %v", text, err)
	}
	free()
	for busy := errWrong; busy != nil; {
		busy = <-a.listens
	}
	if err := answers(t, address); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := CheckHealth(t.Context(), dir); err == nil {
		t.Error("health of an agent that has ended")
	}
}

// answers requests the health at an address.
func answers(t *testing.T, address string) error {
	t.Helper()
	defer http.DefaultClient.CloseIdleConnections()
	_, err := ask(t.Context(), http.DefaultClient, address, healthPath)
	return err
}

// TestBusyAddressIsNamed checks that a busy address that is not awaited is an error, which names the field that
// configures it.
func TestBusyAddressIsNamed(t *testing.T) {
	address, _ := busy(t)
	_, err := Open(t.Context(), Options{StateDir: t.TempDir(), Address: address, File: "agent.yaml", Log: quiet()})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), `agent.yaml: field listen: value "`+address+`"`) {
		t.Errorf("error %v", err)
	}
}

// TestQueries checks that queries have a separate address, which serves nothing else and has the same guard. A busy
// address is an error that names its field, and nothing stays open.
func TestQueries(t *testing.T) {
	taken, _ := busy(t)
	o := Options{StateDir: t.TempDir(), Address: "127.0.0.1:0", File: "agent.yaml", Queries: taken, Log: quiet()}
	if _, err := Open(t.Context(), o); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), `agent.yaml: field history.listen: value "`+taken+`"`) {
		t.Errorf("error %v", err)
	}
	o.Queries = "127.0.0.1:0"
	w, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	a := &agent{view: "{}", listens: make(chan error, 1)}
	answers := a.answers()
	answers.Queries = http.NotFoundHandler()
	go func() { done <- w.Serve(ctx, answers) }()
	for host, code := range map[string]int{"": http.StatusNotFound, "evil.example.com": http.StatusMisdirectedRequest} {
		for _, path := range []string{ViewPath, healthPath, "/metrics"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.queries.Addr().String()+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Host, r.Close = host, true
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if _ = answer.Body.Close(); answer.StatusCode != code {
				t.Errorf("%s of %q: %s, want %d", path, host, answer.Status, code)
			}
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := net.DialTimeout("tcp", w.queries.Addr().String(), time.Second); err == nil {
		t.Error("the address is open after the end")
	}
}

// TestClose checks that a Window which is never served closes what it opened, and that a Window works without a socket.
func TestClose(t *testing.T) {
	var log strings.Builder
	o := Options{StateDir: filepath.Join(t.TempDir(), "gone"), Address: "127.0.0.1:0", File: "agent.yaml"}
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	w, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "commands print what the agent saved last") {
		t.Errorf("log %q", log.String())
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// TestErrorsNameWhatIsWrong checks that the client's error contains the agent's explanation.
func TestErrorsNameWhatIsWrong(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no pass for 12s", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	_, err := ask(t.Context(), server.Client(), server.Listener.Addr().String(), healthPath)
	if !errors.Is(err, ErrAnswer) || !strings.Contains(err.Error(), "no pass for 12s") {
		t.Errorf("error %v", err)
	}
}
