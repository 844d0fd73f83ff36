package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/capability"
)

// TestMain fails if a test leaves a goroutine behind, because every goroutine must be joined.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errWrong = errors.New("wrong")

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// host is an observed host; each view contains the number of its look.
type host struct {
	looks atomic.Int64
	wrong atomic.Bool
}

func (h *host) look() (*view.View, error) {
	if h.wrong.Load() {
		return nil, errWrong
	}
	v := view.Of(view.Facts{At: time.Now()})
	v.LoadSeconds = float64(h.looks.Add(1))
	v.Workloads = []view.Workload{{Name: "a"}}
	return v, nil
}

// viewer reads from a handler until the test ends it.
type viewer struct {
	lines chan string
	code  int
	end   context.CancelFunc
	gone  chan struct{}
}

// Header, WriteHeader, Write, Flush and SetWriteDeadline make viewer a response writer.
func (v *viewer) Header() http.Header                { return http.Header{} }
func (v *viewer) WriteHeader(code int)               { v.code = code }
func (v *viewer) Flush()                             {}
func (v *viewer) SetWriteDeadline(_ time.Time) error { return nil }
func (v *viewer) Write(text []byte) (int, error) {
	v.lines <- string(text)
	return len(text), nil
}

// watch requests a stream from a handler.
func watch(t *testing.T, h http.Handler) *viewer {
	t.Helper()
	return watchAt(t, h, window.StreamPath)
}

// watchAt requests a stream in the form that a path names.
func watchAt(t *testing.T, h http.Handler, path string) *viewer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	v := &viewer{lines: make(chan string, 1000), code: http.StatusOK, end: cancel, gone: make(chan struct{})}
	go func() {
		defer close(v.gone)
		h.ServeHTTP(v, httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody))
	}()
	return v
}

// leave ends a viewer and waits until the handler has noticed.
func (v *viewer) leave() {
	v.end()
	<-v.gone
}

// TestStream checks that a stream is a view followed by the changes once a second, made once for all viewers.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		node := NewNode(h.look, quiet()).Handler()
		viewers := []*viewer{watch(t, node), watch(t, node)}
		time.Sleep(300 * time.Millisecond)
		viewers = append(viewers, watch(t, node)) // between two lines
		time.Sleep(2500 * time.Millisecond)
		if looks := h.looks.Load(); looks != 3 {
			t.Errorf("%d looks in 2.8 s, want 3", looks)
		}
		for i, v := range viewers {
			v.leave()
			var first view.View
			if err := json.Unmarshal([]byte(<-v.lines), &first); err != nil || first.Format != view.Format || first.LoadSeconds != 1 || len(first.Workloads) != 1 {
				t.Errorf("viewer %d: first line %+v: %v", i, first, err)
			}
			for number := range 2 {
				var d view.Delta
				if err := json.Unmarshal([]byte(<-v.lines), &d); err != nil || d.Set["loadSeconds"] != float64(number+2) || d.Workloads != nil {
					t.Errorf("viewer %d: line %d %+v: %v", i, number, d, err)
				}
			}
			if len(v.lines) != 0 {
				t.Errorf("viewer %d: %d lines more", i, len(v.lines))
			}
		}
		time.Sleep(time.Minute)
		if looks := h.looks.Load(); looks != 3 {
			t.Errorf("%d looks while no one looked", looks-3)
		}
	})
}

// TestForms checks that each viewer gets changes in the form that it asks for, that the agent makes no form without
// viewers, and that a cluster has whole entries only.
func TestForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := uint64(0)
		n := NewNode(func() (*view.View, error) {
			second++
			return &view.View{Format: view.Format, Workloads: []view.Workload{{Name: "a", Quota: &capability.Quota{Periods: second}}}}, nil
		}, quiet())
		node := n.Handler()
		patches := watchAt(t, node, window.PatchesPath)
		time.Sleep(1500 * time.Millisecond)
		n.mu.Lock()
		if n.lines[whole] != nil || len(n.lines[patched]) != 1 {
			t.Errorf("lines without a reader: %q", n.lines)
		}
		n.mu.Unlock()
		old := watch(t, node)
		time.Sleep(time.Second)
		patches.leave()
		time.Sleep(time.Second)
		old.leave()
		for i, want := range []string{`"v":1`, `"patches":{"workloads":[{"name":"a","quota":{"periods":2}}]}}`, `{"periods":3}`} {
			if line := <-patches.lines; !strings.Contains(line, want) {
				t.Errorf("line %d with patches: %s, want %s", i, line, want)
			}
		}
		for i, want := range []string{`"v":1`, `"workloads":[{"name":"a","quota":{"limitCPUs":0,"nowCPUs":0`, `"periods":4,`} {
			if line := <-old.lines; !strings.Contains(line, want) || strings.Contains(line, "patches") {
				t.Errorf("line %d: %s, want %s", i, line, want)
			}
		}
		c := NewCluster(func() (*view.Cluster, error) {
			second++
			return &view.Cluster{Format: view.Format, Nodes: []view.Node{{Name: "n", CPUs: int(second)}}}, nil //nolint:gosec // it is small
		}, quiet())
		cluster := watchAt(t, c.Handler(), window.PatchesPath)
		time.Sleep(1500 * time.Millisecond)
		cluster.leave()
		<-cluster.lines
		if line := <-cluster.lines; !strings.Contains(line, `"nodes":[{"name":"n","cpus":`) {
			t.Errorf("line of a cluster: %s", line)
		}
	})
}

// TestCrowd checks that the viewer after the hundredth is refused until one leaves, and that all viewers get the same
// views.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		node := NewNode(h.look, quiet()).Handler()
		var all []*viewer
		for range mostViewers {
			all = append(all, watch(t, node))
		}
		synctest.Wait()
		late := watch(t, node)
		<-late.gone
		if text := <-late.lines; late.code != http.StatusServiceUnavailable || !strings.Contains(text, "100 pages are open") {
			t.Errorf("viewer 101: %d %s", late.code, text)
		}
		time.Sleep(1500 * time.Millisecond)
		all[0].leave()
		all[0] = watch(t, node)
		synctest.Wait()
		if again := all[0]; again.code != http.StatusOK || len(again.lines) != 1 {
			t.Errorf("viewer in the place of another: %d, %d lines", again.code, len(again.lines))
		}
		if looks := h.looks.Load(); looks != 2 {
			t.Errorf("%d looks, want 2", looks)
		}
		for _, v := range all {
			v.leave()
		}
	})
}

// TestViewIsMadeNowAndThen checks that views are made at most five times per second and encoded once, for streams and
// single requests alike.
func TestViewIsMadeNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		n := NewNode(h.look, quiet())
		node := n.Handler()
		v := watch(t, node)
		for range 999 {
			node.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, window.ViewPath, http.NoBody))
			time.Sleep(time.Millisecond)
		}
		if looks := h.looks.Load(); looks > 5 {
			t.Errorf("%d looks within a second", looks)
		}
		first, err := n.text()
		again, after := n.text()
		if err = errors.Join(err, after); err != nil || &first[0] != &again[0] {
			t.Errorf("encoded twice: %v", err)
		}
		v.leave()
	})
}

// TestViewIsForgotten checks that a node without viewers has no view in memory soon after the last request or stream. It
// makes at most five views a second all the same, also when streams begin and end all the time.
func TestViewIsForgotten(t *testing.T) {
	for name, ask := range map[string]func(*testing.T, http.Handler){
		"views": func(t *testing.T, node http.Handler) {
			t.Helper()
			node.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, window.ViewPath, http.NoBody))
		},
		"streams": func(t *testing.T, node http.Handler) {
			t.Helper()
			v := watch(t, node)
			synctest.Wait()
			v.leave()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &host{}
				n := NewNode(h.look, quiet())
				for range 100 {
					ask(t, n.Handler())
					time.Sleep(10 * time.Millisecond)
				}
				if looks := h.looks.Load(); looks > 5 {
					t.Errorf("%d looks within a second", looks)
				}
				v := watch(t, n.Handler())
				time.Sleep(2 * madeEvery) // its only view has become old
				v.leave()
				time.Sleep(2 * madeEvery)
				n.mu.Lock()
				if n.now != nil || n.shown != nil || n.lines[whole] != nil {
					t.Error("it has a view, although no program asked for a while")
				}
				n.mu.Unlock()
			})
		})
	}
}

// TestFarBehind checks that a viewer which is far behind gets the whole view again.
func TestFarBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		n := NewNode(h.look, quiet())
		err := n.enter(whole)
		_, seen, _, first := n.since(-1, whole)
		err = errors.Join(err, first)
		for range keptLines + 1 {
			time.Sleep(lineEvery)
			_, _, _, next := n.since(-1, whole)
			err = errors.Join(err, next)
		}
		if lines, _, _, _ := n.since(seen+1, whole); len(lines) != keptLines {
			t.Errorf("%d lines, want the last %d", len(lines), keptLines)
		}
		if lines, _, _, _ := n.since(seen, whole); len(lines) != 1 || !bytes.Contains(lines[0], []byte(`"v":1`)) || err != nil {
			t.Errorf("lines %q: %v", lines, err)
		}
	})
}

// TestNoView checks that each answer gives the reason if no view can be made, and that an open stream ends.
func TestNoView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		node := NewNode(h.look, quiet()).Handler()
		v := watch(t, node)
		synctest.Wait()
		h.wrong.Store(true)
		<-v.gone
		for _, path := range []string{window.ViewPath, window.StreamPath} {
			answer := httptest.NewRecorder()
			node.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
			if answer.Code != http.StatusInternalServerError || !strings.Contains(answer.Body.String(), "wrong") {
				t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
			}
		}
	})
}

// pipes is a listener whose connections end in the test.
type pipes struct {
	made chan net.Conn
	once sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	c, open := <-p.made
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.made) })
	return nil
}
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// TestSlowViewerIsDropped checks that a viewer which reads nothing for a while, and one that vanishes, are dropped and
// make room for others. A pipe buffers no byte, so the server waits for each.
func TestSlowViewerIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		n := NewNode(h.look, quiet())
		l := &pipes{made: make(chan net.Conn)}
		server := &http.Server{Handler: n.Handler(), ReadHeaderTimeout: time.Second}
		done := make(chan error, 1)
		go func() { done <- server.Serve(l) }()
		connect := func() net.Conn {
			here, there := net.Pipe()
			l.made <- there
			if _, err := io.WriteString(here, "GET "+window.StreamPath+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Error(err)
			}
			return here
		}
		viewers := func() int {
			synctest.Wait()
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.viewers
		}
		slow, gone := connect(), connect()
		if text, err := bufio.NewReader(gone).ReadString('\n'); !strings.Contains(text, "200 OK") || err != nil {
			t.Errorf("answer %q: %v", text, err)
		}
		if viewers() != 2 {
			t.Errorf("%d viewers, want 2", viewers())
		}
		_ = gone.Close()
		time.Sleep(lineEvery + time.Millisecond)
		if viewers() != 1 {
			t.Errorf("%d viewers after one vanished", viewers())
		}
		time.Sleep(patience)
		if viewers() != 0 {
			t.Errorf("%d viewers after one took nothing", viewers())
		}
		_ = slow.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
}

// TestPage checks that the pages are small and complete, and say what a browser may do with them. Files that the pages
// of a cluster and of a node share exist only once.
func TestPage(t *testing.T) {
	node := NewNode((&host{}).look, quiet()).Handler()
	cluster := NewCluster(func() (*view.Cluster, error) { return &view.Cluster{}, nil }, quiet()).Handler()
	for _, test := range []struct {
		page http.Handler
		dirs []string
	}{{node, []string{"page"}}, {cluster, []string{"page", "cluster"}}} {
		size, lines, files := 0, 0, map[string][]byte{}
		for _, dir := range test.dirs {
			maps.Copy(files, shown(t, dir))
		}
		for path, text := range files {
			size, lines = size+len(text), lines+bytes.Count(text, []byte("\n"))
			answer := httptest.NewRecorder()
			test.page.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
			if answer.Code != http.StatusOK || !bytes.Equal(answer.Body.Bytes(), text) || !strings.HasPrefix(answer.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'self';") {
				t.Errorf("%q: %s: %d, %v", test.dirs, path, answer.Code, answer.Header())
			}
		}
		if size > 300_000 || lines > 2500 || files["/"] == nil {
			t.Errorf("%q: the page has %d bytes and %d lines", test.dirs, size, lines)
		}
		for _, path := range []string{"/no", "/../doc.go", "/%2e%2e/doc.go", "/..%5c..%2fdoc.go", "/page/index.html", "/nodes/a/"} {
			answer := httptest.NewRecorder()
			test.page.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
			if answer.Code == http.StatusOK {
				t.Errorf("%q: %s: %s", test.dirs, path, answer.Body)
			}
		}
	}
	answer := httptest.NewRecorder()
	node.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/cluster.js", http.NoBody))
	if answer.Code != http.StatusNotFound {
		t.Errorf("a node has the page of a cluster: %d", answer.Code)
	}
}

// shown returns the files of a directory, by their paths on a page.
func shown(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := fs.WalkDir(files, dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		all[strings.TrimSuffix(strings.TrimPrefix(name, dir), "index.html")], err = fs.ReadFile(files, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestClusterStream checks that the stream of a cluster is a view followed by the changes, with nodes by name. A line
// per second reports that nothing changed.
func TestClusterStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		c := NewCluster(func() (*view.Cluster, error) {
			v := &view.Cluster{Format: view.Format, Server: "s", At: time.Now(), Nodes: []view.Node{{Name: "a", FreeCPUs: 4}}}
			if looks++; looks > 2 {
				v.Nodes = []view.Node{{Name: "a", FreeCPUs: 2}}
			}
			return v, nil
		}, quiet())
		v := watch(t, c.Handler())
		time.Sleep(2500 * time.Millisecond)
		v.leave()
		var first view.Cluster
		if err := json.Unmarshal([]byte(<-v.lines), &first); err != nil || first.Format != view.Format || first.Nodes[0].FreeCPUs != 4 {
			t.Errorf("first line %+v: %v", first, err)
		}
		for _, want := range []int{0, 1} { // nodes
			var d struct {
				Set   map[string]json.RawMessage `json:"set"`
				Nodes []view.Node                `json:"nodes"`
			}
			if err := json.Unmarshal([]byte(<-v.lines), &d); err != nil || len(d.Set) != 1 || d.Set["at"] == nil || len(d.Nodes) != want {
				t.Errorf("line %+v, want %d nodes: %v", d, want, err)
			}
		}
	})
}

// TestRecording checks that a recording is shown as it was made, without a truncated line, and that other files are
// refused by name.
func TestRecording(t *testing.T) {
	const first, next = `{"v":1,"cpus":[]}`, `{"set":{"at":"2026-11-23T00:00:00Z"}}`
	for name, test := range map[string]struct {
		text, lines string
		err         error
	}{
		"stream":        {first + "\n" + next + "\n", first + "\n" + next + "\n", nil},
		"two agents":    {first + "\n" + first + "\n", first + "\n" + first + "\n", nil},
		"for people":    {"{\n  \"v\": 1\n}\n", "{\"v\":1}\n", nil},
		"cut":           {first + "\n" + next[:20], first + "\n", nil},
		"empty":         {"", "", ErrNoRecording},
		"begins late":   {next, "", errNoView},
		"other version": {`{"v":2}`, "", errFormat},
		"other JSON":    {first + `{"a":1}`, "", errNeither},
		"a list":        {`[1]`, "", ErrNoRecording},
		"no JSON":       {"agent: running", "", ErrNoRecording},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ReadRecording(strings.NewReader(test.text))
			if !errors.Is(err, test.err) {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			answer := httptest.NewRecorder()
			r.handler(quiet()).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, window.StreamPath, http.NoBody))
			if answer.Body.String() != test.lines || answer.Header().Get("Berth-Recording") == "" || r.Frames != strings.Count(test.lines, "\n") {
				t.Errorf("%d frames, %v: %s", r.Frames, answer.Header(), answer.Body)
			}
		})
	}
}
