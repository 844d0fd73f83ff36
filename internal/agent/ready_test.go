package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/containers"
	"github.com/berth-project/berth/internal/node/observed"
)

// unready returns what the agent still waits for, "" when it is ready.
func (m *machine) unready() string {
	missing, err := m.controls.unready()
	if err != nil {
		return err.Error()
	}
	return missing
}

// An agent in a cluster is ready once the runtime reports events, even while the API server is away.
func TestReadyOnceTheRuntimeTells(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		if text := m.unready(); text != "" {
			t.Fatalf("without Kubernetes: %s", text)
		}
		m.joins()
		c := m.controls
		for socket, want := range map[string]string{"/nobody": "over NRI at /nobody: away", v1alpha1.NoNRI: ""} {
			runtime, err := containers.New(containers.Options{NRISocket: socket, Handler: c, Groups: c.host, Log: c.opts.Log})
			if err != nil {
				t.Fatal(err)
			}
			c.mu.Lock()
			c.cluster.connected.runtime = runtime
			c.mu.Unlock()
			time.Sleep(time.Minute)
			if text := m.unready(); !strings.Contains(text, want) || want == "" && text != "" {
				t.Errorf("NRI at %s: %s", socket, text)
			}
		}
	})
}

// The agent reports a runtime that has not listed its containers for a minute. The loop notices it without a call from
// the runtime.
func TestSilentRuntimeIsReported(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.makes()
		m.joins()
		m.begin()
		for _, lasting := range []bool{false, true} {
			m.controls.mu.Lock()
			o := m.controls.inventory.Obstacle()
			m.controls.mu.Unlock()
			if o.Reason != observed.Starting || o.Lasting != lasting {
				t.Errorf("obstacle %+v, want it to be lasting: %v", o, lasting)
			}
			time.Sleep(observed.BriefFor + time.Second)
		}
	})
}
