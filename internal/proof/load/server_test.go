package load

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/linux/kernel"
)

func testServer(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestBurnUsesWhatWasAsked(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := kernel.ThreadCPUTime()
	if err != nil {
		t.Fatal(err)
	}
	if err := Burn(5 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	after, _ := kernel.ThreadCPUTime()
	if used := after - before; used < 5*time.Millisecond {
		t.Errorf("Burn(5ms) used %s", used)
	}
}

func TestRequestsAreServedAndRecorded(t *testing.T) {
	g := Generator{Address: testServer(t, newHandler(2, &procsWatch{})), Work: 200 * time.Microsecond, Connections: 4}
	arrivals, err := Pattern{Seed: 3, Rate: 50, Batch: 5}.Arrivals(400 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	samples, err := g.Run(t.Context(), arrivals)
	if err != nil {
		t.Fatal(err)
	}
	if len(samples) != len(arrivals) || Failures(samples) != 0 {
		t.Fatalf("%d samples of %d arrivals, %d failed", len(samples), len(arrivals), Failures(samples))
	}
	for i, s := range samples {
		if s.Intended != arrivals[i] || s.Latency < g.Work {
			t.Errorf("sample %d: %+v, intended %s", i, s, arrivals[i])
		}
	}
}

// TestLatencyCountsFromTheIntendedTime delays the server at the first request. In an open loop the requests behind it
// must include the wait.
func TestLatencyCountsFromTheIntendedTime(t *testing.T) {
	const stall = 200 * time.Millisecond
	address := testServer(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(stall) }))
	g := Generator{Address: address, Connections: 1}
	samples, err := g.Run(t.Context(), []time.Duration{0, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	slowest := Sorted(samples)[2]
	if slowest < 3*stall {
		t.Errorf("the third request in line shows %s, want at least %s", slowest, 3*stall)
	}
}

func TestFailedRequestsAreSamples(t *testing.T) {
	bad := Generator{Address: testServer(t, http.NotFoundHandler())}
	samples, err := bad.Run(t.Context(), []time.Duration{0})
	if err != nil || samples[0].Status != http.StatusNotFound || samples[0].OK() {
		t.Errorf("not found: %+v, %v", samples, err)
	}
	gone := Generator{Address: "127.0.0.1:1", Drain: time.Second}
	samples, err = gone.Run(t.Context(), []time.Duration{0, 0})
	if err != nil || Failures(samples) != 2 || samples[0].Latency <= 0 {
		t.Errorf("no server: %+v, %v", samples, err)
	}
}

func TestGeneratorRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		g        Generator
		arrivals []time.Duration
		want     error
	}{
		"another host": {Generator{Address: "192.0.2.1:80"}, nil, ErrBadLoad},
		"a name":       {Generator{Address: "localhost:80"}, nil, ErrBadLoad},
		"out of order": {Generator{Address: "127.0.0.1:80"}, []time.Duration{2, 1}, ErrBadLoad},
		"too heavy":    {Generator{Address: "127.0.0.1:80", Work: 2 * MaxWork}, nil, ErrTooMuch},
	} {
		if _, err := c.g.Run(t.Context(), c.arrivals); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestGeneratorStopsWithItsContext(t *testing.T) {
	address := testServer(t, newHandler(1, &procsWatch{}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Generator{Address: address}).Run(ctx, []time.Duration{time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("Run with an ended context: %v", err)
	}
}

func TestHandlerRefusesBadWork(t *testing.T) {
	for _, query := range []string{"", "us=x", "us=-1", "us=1000001", "us=99999999999999999999"} {
		answer := httptest.NewRecorder()
		newHandler(1, &procsWatch{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/work?"+query, http.NoBody))
		if answer.Code != http.StatusBadRequest {
			t.Errorf("%q: status %d", query, answer.Code)
		}
	}
}

func TestServeRefusesOtherAddresses(t *testing.T) {
	err := Serve(t.Context(), ServerConfig{Address: "0.0.0.0:0", Workers: 1, CPUs: 1}, func(string) { t.Error("it listens") })
	if !errors.Is(err, ErrBadLoad) {
		t.Errorf("Serve on every address: %v", err)
	}
	if err := Serve(t.Context(), ServerConfig{}, nil); !errors.Is(err, ErrBadLoad) {
		t.Errorf("Serve without workers: %v", err)
	}
}

func TestWriteCSV(t *testing.T) {
	var out bytes.Buffer
	if err := WriteCSV(&out, []Sample{{1, 20, 204}, {3, 40, 0}}); err != nil {
		t.Fatal(err)
	}
	if want := "intended_ns,latency_ns,status\n1,20,204\n3,40,0\n"; out.String() != want {
		t.Errorf("CSV %q, want %q", out.String(), want)
	}
}

func TestParseQuota(t *testing.T) {
	for content, want := range map[string]int64{"max 100000\n": -1, "-1\n": -1, "50000 100000\n": 50000, "50000\n": 50000} {
		if got, err := parseQuota(content); err != nil || got != want {
			t.Errorf("parseQuota(%q) = %d, %v, want %d", content, got, err, want)
		}
	}
	for _, content := range []string{"", "\n", "many 100000"} {
		if _, err := parseQuota(content); err == nil {
			t.Errorf("parseQuota(%q) succeeds", content)
		}
	}
}

func TestAbuserRefuses(t *testing.T) {
	for _, a := range []Abuser{
		{Mode: Always},
		{Mode: Always, Threads: maxThreads + 1},
		{Mode: "sometimes", Threads: 1},
		{Mode: Always, Calls: "fork", Threads: 1},
		{Mode: OnOff, Threads: 1, OnFor: time.Second},
	} {
		if err := a.Run(t.Context()); !errors.Is(err, ErrBadLoad) {
			t.Errorf("%+v: %v", a, err)
		}
	}
	missing := Abuser{Mode: WhileRaised, Threads: 1, QuotaFile: filepath.Join(t.TempDir(), "none")}
	if err := missing.Run(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing quota file: %v", err)
	}
}

// TestAbuserEndsWhenItsQuotaFileBreaks also shows that follow reads the file.
func TestAbuserEndsWhenItsQuotaFileBreaks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpu.max")
	if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := Abuser{Mode: WhileRaised, Threads: 2, QuotaFile: file, Above: 1}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a broken quota file: %v", err)
	}
}
