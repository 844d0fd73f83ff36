package kubelet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	kubeletConfig = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nreservedSystemCPUs: 0-1\n"
	kubeletState  = `{"policyName":"none","defaultCpuSet":"","checksum":1}`
)

// kubeletDir makes the kubelet's root directory with some files.
func kubeletDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestKubeletFiles checks that the kubelet's files are used if the agent may not ask it. With deploy/patch for
// Kubernetes 1.31 these are both files, with the patch for k3s and RKE2 only the state.
func TestKubeletFiles(t *testing.T) {
	for name, test := range map[string]struct {
		files    map[string]string
		policy   string
		reserved string
		whole    bool
		err      error
	}{
		"both":       {map[string]string{"config.yaml": kubeletConfig, "cpu_manager_state": kubeletState}, "none", "0-1", false, nil},
		"the state":  {map[string]string{"cpu_manager_state": kubeletState}, "none", "", false, nil},
		"the static": {map[string]string{"cpu_manager_state": `{"policyName":"static","defaultCpuSet":"0-3"}`}, "static", "", false, nil},
		"neither":    {nil, "", "", false, ErrNoState},
	} {
		t.Run(name, func(t *testing.T) {
			r := Source{Dir: kubeletDir(t, test.files)}.Read(t.Context())
			got := []string{r.Config.CPUManagerPolicy, r.Config.ReservedSystemCPUs.String(), strconv.FormatBool(r.Whole)}
			if diff := cmp.Diff([]string{test.policy, test.reserved, strconv.FormatBool(test.whole)}, got); diff != "" || !errors.Is(r.Err, test.err) {
				t.Errorf("error %v, policy, reserved, whole (-want +got):\n%s", r.Err, diff)
			}
		})
	}
}

// TestWatch checks that the configuration is read until the context ends, or until a reading is refused.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Source{Dir: kubeletDir(t, map[string]string{"cpu_manager_state": kubeletState})}
		ctx, cancel := context.WithTimeout(t.Context(), 3*readEvery-time.Second)
		defer cancel()
		readings := 0
		takes := func(err error) func(Reading) error {
			return func(r Reading) error {
				readings++
				if r.Config.CPUManagerPolicy != "none" || r.Err != nil {
					t.Errorf("read %+v", r)
				}
				return err
			}
		}
		if err := s.Watch(ctx, takes(nil)); err != nil || readings != 3 {
			t.Errorf("%d readings, error %v", readings, err)
		}
		if err := s.Watch(t.Context(), takes(io.EOF)); !errors.Is(err, io.EOF) || readings != 4 {
			t.Errorf("%d readings, error %v", readings, err)
		}
	})
}

// answering is a kubelet that counts the requests for its configuration.
type answering struct {
	asked atomic.Int64
	away  atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked.Add(1)
	if a.away.Load() {
		return nil, io.ErrUnexpectedEOF
	}
	const text = `{"kubeletconfig": {"cpuManagerPolicy": "none", "memoryManagerPolicy": "Static"}}`
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// watched is a kubelet that Watch reads until stop is called. It has a file in the place of its socket, where questions
// fail.
func watched(t *testing.T, oneNode bool) (server *answering, dir string, last func() Reading, stop func()) {
	t.Helper()
	server, dir = &answering{}, kubeletDir(t, map[string]string{"token": token})
	restart(t, dir)
	s := Source{
		Client: &Client{base: url.URL{Scheme: "https", Host: "kubelet"}, token: filepath.Join(dir, "token"), http: &http.Client{Transport: server}},
		Dir:    dir, OneNode: func() bool { return oneNode },
	}
	ctx, cancel := context.WithCancel(t.Context())
	var now atomic.Pointer[Reading]
	done := make(chan error, 1)
	go func() {
		done <- s.Watch(ctx, func(r Reading) error {
			now.Store(&r)
			return nil
		})
	}()
	return server, dir, func() Reading { return *now.Load() }, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// restart makes the file in the place of the socket again, as a kubelet does with the socket when it starts.
func restart(t *testing.T, dir string) {
	t.Helper()
	socket := filepath.Join(dir, resourcesSocket)
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, socket+".new", "")
	if err := os.Rename(socket+".new", socket); err != nil {
		t.Fatal(err)
	}
}

// TestWatchAtRest counts the requests to a kubelet that does not restart. A machine of one NUMA node needs no questions
// about devices and memory, and few about the configuration.
func TestWatchAtRest(t *testing.T) {
	for oneNode, want := range map[bool]int64{true: 60, false: 360} {
		synctest.Test(t, func(t *testing.T) {
			server, _, last, stop := watched(t, oneNode)
			time.Sleep(readEvery / 2)
			server.asked.Store(0)
			time.Sleep(time.Hour)
			if asked := server.asked.Load(); asked != want {
				t.Errorf("one node: %t: %d requests in an hour, want %d", oneNode, asked, want)
			}
			if r := last(); !r.Whole || (r.DevicesErr == nil) != oneNode || (r.MemoryErr == nil) != oneNode {
				t.Errorf("one node: %t: read %+v", oneNode, r)
			}
			stop()
		})
	}
}

// TestWatchNoticesRestart checks that a kubelet that restarted is asked soon, and a kubelet that does not answer again
// and again.
func TestWatchNoticesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, dir, last, stop := watched(t, true)
		asked := func(d time.Duration) int64 {
			before := server.asked.Load()
			time.Sleep(d)
			return server.asked.Load() - before
		}
		asked(readEvery / 2)
		for i := range 5 {
			restart(t, dir)
			if n := asked(readEvery); n != 1 {
				t.Errorf("restart %d: asked %d times, want once", i, n)
			}
		}
		server.away.Store(true)
		restart(t, dir)
		if n := asked(6 * readEvery); n != 6 || last().Err == nil {
			t.Errorf("asked %d times while it is away, want 6; read %+v", n, last())
		}
		server.away.Store(false)
		if n := asked(readEvery); n != 1 || !last().Whole {
			t.Errorf("asked %d times once it answers; read %+v", n, last())
		}
		if err := os.Remove(filepath.Join(dir, resourcesSocket)); err != nil {
			t.Fatal(err)
		}
		if n := asked(6 * readEvery); n != 6 {
			t.Errorf("asked %d times while a restart would not show, want 6", n)
		}
		stop()
	})
}

// TestMemoryManagerOfFiles checks that the files show the current policy of the memory manager if the kubelet cannot be
// asked.
func TestMemoryManagerOfFiles(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmemoryManagerPolicy: None\n"
	for name, c := range map[string]struct{ state, want string }{
		"the configuration":            {want: "None"},
		"what it was started with":     {state: `{"policyName":"Static","machineState":{},"checksum":1}`, want: "Static"},
		"a state that cannot be read":  {state: `{`, want: ""},
		"a state that names no policy": {state: `{}`, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"config.yaml": head, "cpu_manager_state": `{"policyName":"none","defaultCpuSet":"","checksum":1}`}
			if c.state != "" {
				files["memory_manager_state"] = c.state
			}
			got := Source{Dir: kubeletDir(t, files)}.Read(t.Context())
			if c.want == "" {
				if got.Err == nil {
					t.Errorf("%+v, want an error", got)
				}
				return
			}
			if got.Err != nil || got.Whole || got.Config.MemoryManagerPolicy != c.want || got.Config.CPUManagerPolicy != "none" {
				t.Errorf("%+v", got)
			}
		})
	}
}
