package agent

import (
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/node/nri"
)

// A kubelet with a static memory manager sets the memory nodes of Guaranteed pods. Berth then sets none, and does not
// mistake the kubelet's memory nodes for another owner's CPU sets.
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
				config := kubelet.Config{CPUManagerPolicy: "none", MemoryManagerPolicy: c.policy}
				if err := m.controls.takeKubelet(kubelet.Reading{Config: config, Whole: true}); err != nil {
					t.Fatal(err)
				}
				e := event(nri.Create, "p", "podp/c")
				if c.owned {
					e.Container.Resources.Mems = e.Container.Resources.Mems.Add(0) // the kubelet's
				}
				got := m.answers(e).Adjust
				if got.CPUs.IsEmpty() || got.Mems.IsEmpty() != c.owned {
					t.Errorf("answer %+v", got)
				}
				wants, _ := m.controls.assignment.Desired(nil)
				for _, w := range wants {
					if w.Pinned && w.Mems.IsEmpty() != c.owned {
						t.Errorf("wants %+v", w)
					}
				}
				var after kubelet.Knowledge
				after.Recall(m.kubelet())
				if got := after.Config.MemoryManagerPolicy; got != c.policy {
					t.Errorf("the next agent takes the policy for %q", got)
				}
				var status v1alpha1.NodeTopologyStatus
				m.controls.built.pins.AddConditions(&status)
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
