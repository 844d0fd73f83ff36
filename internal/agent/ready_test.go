package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/cri"
	"github.com/berth-project/berth/internal/nri"
)

// unready is what is missing or wrong until the agent is ready.
func (m *machine) unready() string {
	missing, err := m.controls.unready()
	if err != nil {
		return err.Error()
	}
	return missing
}

// An agent of a cluster is ready once the runtime reports events; the API server may
// be away.
func TestReadyOnceTheRuntimeTells(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		if text := m.unready(); text != "" {
			t.Fatalf("without Kubernetes: %s", text)
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
		wants := func(step, part string) {
			t.Helper()
			if text := m.unready(); !strings.Contains(text, part) || part == "" && text != "" {
				t.Errorf("%s: %s", step, text)
			}
		}
		time.Sleep(time.Minute)
		wants("no NRI", "over NRI at /nobody: away")

		c.mu.Lock()
		c.around.plugin, c.around.cri = nil, client
		c.mu.Unlock()
		wants("no list yet", "list at unix:///nobody")
		c.takeListing(cri.Listing{}, errors.New("away"))
		wants("no list", "list at unix:///nobody")
		c.takeListing(cri.Listing{}, nil)
		wants("a list", "")

		c.mu.Lock()
		c.around.plugin = plugin
		c.mu.Unlock()
		wants("a list instead of NRI", "")
	})
}
