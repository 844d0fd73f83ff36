package assignment_test

import (
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// BestEffort pods without a class, such as kube-proxy, are offline only where an administrator enables it, and never in
// kube-system. The node guard ignores the use of offline groups.
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

// A pod is offline from the very snapshot that says so.
func TestOfflineWithTheSnapshot(t *testing.T) {
	p := plainPod("batch")
	p.BestEffort = true
	n := open(t)
	handle(t, n, nri.Event{Kind: nri.RunPod, Pod: nri.Pod{ID: "box", UID: p.UID, Namespace: p.Namespace, Name: p.Name, CgroupPath: "box"}})
	n.SetOffline(capability.Offline{Cores: []cpuset.Set{set("6-7"), set("4-5")}, Size: 1, Low: 1})
	n.Take(snapshot(p))
	if n.HasOffline() {
		t.Error("it is offline without an opt-in")
	}
	s := snapshot(p)
	s.ConfigMaps = strategy.Maps{strategy.BerthConfig: {strategy.KeyThreshold: `{"clusterStrategy": {"enable": true}}`}}
	n.Take(s)
	if got := n.Offline(); got != set("6-7") {
		t.Errorf("offline work has %q", got)
	}
	asked := n.Policies.Observed()
	if threshold, source := asked.Threshold, asked.ThresholdSource; threshold.Enable == nil || !*threshold.Enable || source == "" {
		t.Errorf("threshold %+v of %q", threshold, source)
	}
	labelled := plainPod("labelled")
	labelled.Labels = map[string]string{v1alpha1.LabelQoSClass: "BE"}
	n = open(t)
	handle(t, n, nri.Event{Kind: nri.RunPod, Pod: nri.Pod{ID: "box", UID: labelled.UID, Namespace: "ns", Name: "labelled", CgroupPath: "box"}})
	n.Take(snapshot(labelled))
	if !n.HasOffline() {
		t.Error("a labelled pod is online")
	}
}
