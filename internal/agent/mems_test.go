package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/kubelet"
	"github.com/berth-project/berth/internal/nri"
)

// A kubelet with a static memory manager sets the memory nodes of Guaranteed pods. Berth sets
// none then, and does not take the kubelet's for those of another owner of CPU sets.
func TestKubeletOwnsMemoryNodes(t *testing.T) {
	for _, c := range []struct {
		policy string
		owned  bool
	}{{"", false}, {"None", false}, {"Static", true}} {
		t.Run("policy "+c.policy, func(t *testing.T) {
			in(t, func(t *testing.T, m *machine) {
				m.boot()
				m.end()
				_, event := m.overtaken("podx/c")
				m.controls.takeKubelet(kubelet.Config{CPUManagerPolicy: "none", MemoryManagerPolicy: c.policy}, true, nil)
				e := event(nri.Create, "p", "podp/c")
				if c.owned {
					e.Container.Resources.Mems = e.Container.Resources.Mems.Add(0) // the kubelet's
				}
				got := m.answers(e).Adjust
				if got.CPUs.IsEmpty() || got.Mems.IsEmpty() != c.owned {
					t.Errorf("answer %+v", got)
				}
				wants, _ := m.controls.inventory.Desired()
				for _, w := range wants {
					if w.Pinned && w.Mems.IsEmpty() != c.owned {
						t.Errorf("wants %+v", w)
					}
				}
				said := m.controls.machine.said()
				var after hardware
				after.recall(said)
				if got := after.kubelet.MemoryManagerPolicy; got != c.policy {
					t.Errorf("the next agent takes the policy for %q", got)
				}
				var status v1alpha1.NodeTopologyStatus
				m.controls.addConditions(&status, m.controls.inventory.Snapshot())
				for _, one := range status.Conditions {
					if one.Type == v1alpha1.ConditionPinnable && (one.Status != "True" || (one.Message != "") != c.owned) {
						t.Errorf("condition %+v", one)
					}
				}
				if err := m.controls.stop(); err != nil {
					t.Error(err)
				}
				m.closeJournal()
			})
		})
	}
}

// Where the kubelet cannot be asked, its files say what its memory manager runs with.
func TestMemoryManagerOfFiles(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmemoryManagerPolicy: None\n"
	for name, c := range map[string]struct{ state, want string }{
		"the configuration":            {want: "None"},
		"what it was started with":     {state: `{"policyName":"Static","machineState":{},"checksum":1}`, want: "Static"},
		"a state that cannot be read":  {state: `{`, want: ""},
		"a state that names no policy": {state: `{}`, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"config.yaml": head, "cpu_manager_state": `{"policyName":"none","defaultCpuSet":"","checksum":1}`}
			if c.state != "" {
				files["memory_manager_state"] = c.state
			}
			for file, text := range files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := &surroundings{config: v1alpha1.ClusterConfig{KubeletDir: dir}}
			got, whole, err := s.readKubelet(t.Context())
			if c.want == "" {
				if err == nil {
					t.Errorf("%+v, want an error", got)
				}
				return
			}
			if err != nil || !whole || got.MemoryManagerPolicy != c.want || got.CPUManagerPolicy != "none" {
				t.Errorf("%+v, whole %t, %v", got, whole, err)
			}
		})
	}
}
