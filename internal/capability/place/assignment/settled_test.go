package assignment_test

import (
	"testing"

	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// CPU sets are neither written nor restored before everything they depend on is known: the machine and, in a cluster,
// the pods, the containers and the owner of CPU sets.
func TestSettled(t *testing.T) {
	n := newNode(host{map[string]cpuset.Set{}}, workload.Administrator{})
	unknown := observed.Obstacle{Reason: observed.KubeletUnknown, Message: "it was not asked yet"}
	for _, step := range []struct {
		what           string
		do             func()
		alone, cluster bool
	}{
		{"nothing", func() {}, false, false},
		{"the machine", func() { n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"}) }, true, false},
		{"the containers", func() { handle(t, n, nri.Event{Kind: nri.Synchronize}) }, true, false},
		{"the pods", func() { n.Take(snapshot()) }, true, true},
		{"a silent kubelet", func() { n.Kubelet(unknown, "") }, true, false},
		{"a kubelet that owns CPU sets", func() { n.Kubelet(observed.Obstacle{Reason: "KubeletCPUManager", Message: "it sets them"}, "") }, true, true},
	} {
		step.do()
		if alone, cluster := n.Settled(false), n.Settled(true); alone != step.alone || cluster != step.cluster {
			t.Errorf("with %s: settled alone %v, in a cluster %v; want %v, %v", step.what, alone, cluster, step.alone, step.cluster)
		}
	}
}
