package agent

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/node/kubelet"
)

// kubelet returns what the next agent remembers of the kubelet, or nil.
func (m *machine) kubelet() *kubelet.Said {
	m.t.Helper()
	var said *kubelet.Said
	if err := m.controls.built.pins.State().Decode("kubelet", &said); err != nil {
		m.t.Error(err)
	}
	return said
}

// A bind mount keeps showing a file that the kubelet has replaced. The agent ends, so that its next container mounts
// the new file. Under the static policy the kubelet replaces its state with every pod, and the agent does not depend on
// it.
func TestReplacedKubeletFileEndsTheAgent(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		last string
		ends bool
	}{
		"the state":         {"cpu_manager_state", "none", true},
		"the configuration": {"config.yaml", "none", true},
		"the static policy": {"cpu_manager_state", "static", false},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, m *machine) {
				m.boot()
				m.write("kubelet/config.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n")
				m.write("kubelet/cpu_manager_state", `{"policyName":"none","defaultCpuSet":""}`)
				file, err := os.Open(m.path("kubelet/" + test.file))
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				if err := errors.Join(os.Remove(file.Name()), os.Symlink("/proc/self/fd/"+strconv.Itoa(int(file.Fd())), file.Name())); err != nil {
					t.Fatal(err)
				}
				c := m.controls
				if err := c.takeKubelet(kubelet.Reading{Config: kubelet.Config{CPUManagerPolicy: test.last}, Whole: true}); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				if err := (kubelet.Source{Dir: m.path("kubelet")}).Watch(ctx, c.takeKubelet); errors.Is(err, kubelet.ErrReplaced) != test.ends {
					t.Errorf("error %v", err)
				}
				c.mu.Lock() // The loop continues.
				defer c.mu.Unlock()
				if said := m.kubelet(); said == nil || said.CPUManagerPolicy != test.last {
					t.Errorf("it said %+v, want the last policy, %q", said, test.last)
				}
			})
		})
	}
}
