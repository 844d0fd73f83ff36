package agent

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/cri"
	"github.com/berth-project/berth/internal/nri"
)

func (m *machine) readyz() (int, string) {
	answer := httptest.NewRecorder()
	m.controls.readyz(answer, httptest.NewRequestWithContext(m.t.Context(), http.MethodGet, "/readyz", http.NoBody))
	return answer.Code, answer.Body.String()
}

// An agent of a cluster is ready once the runtime reports events; the API server may
// be away.
func TestReadyOnceTheRuntimeTells(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		if code, text := m.readyz(); code != http.StatusOK {
			t.Fatalf("without Kubernetes: %d %s", code, text)
		}
		m.joins()
		c := m.controls
		plugin, err := nri.New(nri.Options{Socket: "/nobody", Handler: c, Groups: c.host, Log: c.opts.Log})
		if err != nil {
			t.Fatal(err)
		}
		client, err := cri.Open("unix:///nobody", c.host)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c.mu.Lock()
		c.around.plugin = plugin
		c.around.config.NRISocket, c.around.config.RuntimeEndpoint = "/nobody", "unix:///nobody"
		c.mu.Unlock()
		wants := func(step string, code int, parts ...string) {
			t.Helper()
			time.Sleep(answerEvery + time.Millisecond) // the answer of before is old
			got, text := m.readyz()
			for _, part := range parts {
				if got != code || !strings.Contains(text, part) {
					t.Errorf("%s: %d %s", step, got, text)
				}
			}
		}
		time.Sleep(time.Minute)
		wants("no NRI", http.StatusServiceUnavailable, "over NRI at /nobody: away")

		c.mu.Lock()
		c.around.plugin, c.around.cri = nil, client
		c.mu.Unlock()
		wants("no list yet", http.StatusServiceUnavailable, "list at unix:///nobody")
		c.takeListing(cri.Listing{}, errors.New("away"))
		wants("no list", http.StatusServiceUnavailable, "list at unix:///nobody")
		c.takeListing(cri.Listing{}, nil)
		wants("a list", http.StatusOK, "ok")

		c.mu.Lock()
		c.around.plugin = plugin
		c.mu.Unlock()
		wants("a list instead of NRI", http.StatusOK, "ok")
	})
}
