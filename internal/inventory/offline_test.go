package inventory_test

import (
	"testing"

	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/strategy"
)

// TestBestEffortIsNotOffline says that BestEffort pods without a class, such as
// kube-proxy, are offline only where an administrator says so. The use of offline
// groups does not count for the node guard.
func TestBestEffortIsNotOffline(t *testing.T) {
	bestEffort := func(namespace, name string) *cluster.Pod {
		p := plainPod(name)
		p.Namespace, p.Key, p.BestEffort = namespace, namespace+"/"+name, true
		p.Containers[0].CPURequest, p.Containers[0].CPULimit, p.Scheduled = 0, 0, 0
		return p
	}
	s := snapshot(bestEffort("kube-system", "kube-proxy"), bestEffort("shop", "batch"))
	for text, want := range map[string]int{"": 0, `{"clusterStrategy": {"enable": true}}`: 1} {
		n := open(t)
		if text != "" {
			s.ConfigMaps = strategy.Maps{strategy.BerthConfig: {strategy.KeyThreshold: text}}
		} else {
			s.ConfigMaps = nil
		}
		n.Take(s)
		all, _ := n.Workloads()
		if len(all) != want {
			t.Errorf("with %q %d groups are offline, want %d: %+v", text, len(all), want, all)
		}
		for _, w := range all {
			if !w.Offline || w.Name != "shop/batch/main" {
				t.Errorf("with %q: %+v", text, w)
			}
		}
	}
}
