package schedule

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/capability/place/placement"
)

// PreScore skips Score for pods that share their CPUs: this plugin does not choose their node.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if cy := p.cycleOf(state, pod); cy == nil || cy.ask == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score returns how well the CPUs that the pod would get on the node suit it, by placement.Score. NormalizeScore maps
// that to the framework's range.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	cy := p.cycleOf(state, pod)
	if cy == nil || info.Node() == nil {
		return 0, fwk.AsStatus(fmt.Errorf("score pod %s/%s: %w", pod.Namespace, pod.Name, errNoCycle))
	}
	n := p.core.nodes.at(info)
	if n == nil || cy.ask == nil {
		return 0, nil
	}
	// A node that refuses the pod by now, because its topology has just gone, comes last; Reserve reports why if no
	// other node is left.
	v := view{info: info, cy: cy}
	if cy.nominated.Load() {
		if with, some := p.withNominated(v); some {
			if r := p.core.answers.resultOf(n, with); r.status == nil {
				return r.score, nil
			}
		}
	}
	r := n.recall(cy.moment(info), cy)
	if r == nil {
		r = p.core.answers.resultOf(n, v)
	}
	if r.status != nil {
		return 0, nil
	}
	return r.score, nil
}

// ScoreExtensions returns the plugin itself.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore maps the scores to the framework's range. It preserves the order, and the best node stays strictly
// first.
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	plain := make([]int64, len(scores))
	for i := range scores {
		plain[i] = scores[i].Score
	}
	placement.Normalize(plain)
	for i := range scores {
		scores[i].Score = plain[i]
	}
	return nil
}
