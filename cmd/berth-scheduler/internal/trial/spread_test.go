package trial

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/scheduler/schedule"
)

// rivals is a cluster whose node n-001 is fuller than the others by two CPUs of a pod. The others have ordinary pods,
// so that the scores of amounts are for n-001 too.
func rivals(t *testing.T, nodes ...*v1.Node) (*storm, *byHand) {
	s := &storm{cluster: newCluster(t)}
	for _, n := range nodes {
		s.addMachine(n.Name, small())
		s.addNode(n)
	}
	scheduler := s.build(t.Context(), configFrom(t, sideBySide), registry())
	b := &byHand{Scheduler: scheduler, f: scheduler.Profiles[schedulerName], t: t}
	b.known()
	for _, n := range nodes {
		p := ordinary("load-of-"+n.Name, 8000, 0)
		if n.Name == "n-001" {
			p = pinned("filler", 2, 2)
		}
		uid(p, p.Name)
		state, _ := b.cycle(p)
		b.bind(s, state, p, n.Name)
	}
	return s, b
}

// favorite returns the node with the most points of Berth and the node with the most points of all plugins, and how the
// pod's cycle went on. The name is empty if several nodes have the most points.
func (b *byHand) favorite(p *v1.Pod) (state fwk.CycleState, own, all string) {
	b.t.Helper()
	nodes := b.snapshot()
	state, status := b.cycle(p)
	for _, n := range nodes {
		if status.IsSuccess() {
			status = b.f.RunFilterPlugins(b.t.Context(), state, p, n)
		}
	}
	if status.IsSuccess() {
		status = b.f.RunPreScorePlugins(b.t.Context(), state, p, nodes)
	}
	if !status.IsSuccess() {
		b.t.Fatal(status)
	}
	scores, status := b.f.RunScorePlugins(b.t.Context(), state, p, nodes)
	if !status.IsSuccess() {
		b.t.Fatal(status)
	}
	var ownMost, allMost int64
	raise := func(most *int64, who *string, score int64, name string) {
		switch {
		case score > *most:
			*most, *who = score, name
		case score == *most:
			*who = ""
		}
	}
	for _, n := range scores {
		raise(&allMost, &all, n.TotalScore, n.Name)
		for _, one := range n.Scores {
			if one.Name == schedule.Name {
				raise(&ownMost, &own, one.Score, n.Name)
			}
		}
	}
	b.t.Logf("%s: Berth is for %q, all are for %q: %v", p.Name, own, all, scores)
	return state, own, all
}

// TestReplicasSpread checks that replicas that would like to spread go to different nodes with the weights that Berth
// ships. Berth alone would pack each next replica into a node that has one.
func TestReplicasSpread(t *testing.T) {
	s, b := rivals(t, node("n-000", small().cpus()), node("n-001", small().cpus()))
	for i, want := range []struct{ own, all string }{{"n-001", "n-001"}, {"n-001", "n-000"}} {
		p := uid(pinned(name("replica", i), 2, 2), name("replica", i))
		p.Labels = map[string]string{"app": "spread"}
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: v1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
		state, own, all := b.favorite(p)
		if own != want.own || all != want.all {
			t.Errorf("%s goes to node %q, by Berth alone to %q; want %q and %q", p.Name, all, own, want.all, want.own)
		}
		b.bind(s, state, p, want.all)
	}
}

// TestTaintedNodeComesLast checks that a taint with PreferNoSchedule keeps a pod off a fuller node. Berth alone would
// choose this node, and a pod that tolerates the taint goes there.
func TestTaintedNodeComesLast(t *testing.T) {
	fuller := node("n-001", small().cpus())
	fuller.Spec.Taints = []v1.Taint{{Key: "example.com/old", Effect: v1.TaintEffectPreferNoSchedule}}
	_, b := rivals(t, node("n-000", small().cpus()), fuller)
	if _, own, all := b.favorite(uid(pinned("plain", 2, 2), "plain")); own != "n-001" || all != "n-000" {
		t.Errorf("a pod without a toleration goes to node %q, by Berth alone to %q", all, own)
	}
	p := uid(pinned("tolerates", 2, 2), "tolerates")
	p.Spec.Tolerations = []v1.Toleration{{Key: "example.com/old", Operator: v1.TolerationOpExists}}
	if _, own, all := b.favorite(p); own != "n-001" || all != "n-001" {
		t.Errorf("a pod that tolerates the taint goes to node %q, by Berth alone to %q", all, own)
	}
}
