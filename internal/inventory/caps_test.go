package inventory_test

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/workload"
)

// TestAgentAppliesCaps has pods that never met the scheduler: their names of a node stand
// in their specs, and they have no placement.
func TestAgentAppliesCaps(t *testing.T) {
	for name, test := range map[string]struct {
		rules string
		want  map[string]string // by pod: why it has no exclusive CPUs, "" where it has
	}{
		"no rules":          {`{}`, map[string]string{"a": "", "b": "", "below": ""}},
		"a cap":             {`{"maxPinnedCPUsPerNamespace": 2}`, map[string]string{"a": "", "b": "namespace ns has 2 of the 2 pinned CPUs"}},
		"a cap below all":   {`{"maxPinnedCPUsPerNamespace": 1}`, map[string]string{"a": "more pinned CPUs than the 1", "static": ""}},
		"another namespace": {`{"namespaces": ["other"]}`, map[string]string{"a": "namespace ns is not allowed", "static": ""}},
		"whole requests":    {`{"requestBelowLimit": "deny"}`, map[string]string{"a": "", "below": "must request as many CPUs"}},
	} {
		t.Run(name, func(t *testing.T) {
			config, problems := v1alpha1.DecodeAgentConfig([]byte(`{"cluster": {"enabled": true, "pinning": ` + test.rules + `}}`))
			if err := problems.Err(); err != nil {
				t.Fatal(err)
			}
			n := inventory.New(host{map[string]cpuset.Set{}}, workload.AdministratorOf("agent.yaml", config))
			n.Facts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
			handle(t, n, nri.Event{Kind: nri.Synchronize})
			s := snapshot()
			for i, uid := range []string{"a", "b", "below", "static"} {
				if _, there := test.want[uid]; !there {
					continue
				}
				p := pinnedPod(uid, "")
				p.Bound, p.Static = time.Unix(int64(i), 0), uid == "static"
				if uid == "below" {
					p.Scheduled, p.Containers[0].CPURequest = 100, 100
				}
				s.Pods = append(s.Pods, p)
			}
			n.Take(s)
			got := map[string]string{}
			for _, p := range s.Pods {
				if a := start(t, n, p); a.Reply.Adjust.CPUs.IsEmpty() {
					got[p.UID] = "nothing was said"
				}
			}
			for _, event := range n.Events() {
				if event.Reason == v1alpha1.EventPlacementRefused {
					got[event.PodUID] = event.Text
				}
			}
			for uid, want := range test.want {
				if (got[uid] == "") != (want == "") || !strings.Contains(got[uid], want) {
					t.Errorf("%s: %q, want %q", uid, got[uid], want)
				}
			}
		})
	}
}
