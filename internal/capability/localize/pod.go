package localize

import (
	"os"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/localize/locality"
)

// pod is a pod, or a workload of a host without Kubernetes, with groups that opted in.
type pod struct {
	uid    string
	groups []*group
	// results are the results of passes that ended since the last report to the pod.
	results []locality.Result
	ended   time.Duration // when the first of these passes ended
	podState
	// invalid is the problem of its annotation that was reported.
	invalid string
	// since is when it entered its phase, seen when a container of it last ran.
	since time.Time
	seen  time.Duration
}

// podState is what is remembered of a pod.
type podState struct {
	v1alpha1.MemoryLocalityStatus
	// Reported is what its last event said.
	Reported locality.Reported `json:"reported"`
}

// podOf returns the pod with a UID, in the state that an earlier agent left.
func (s *Groups) podOf(uid string) *pod {
	p := s.pods[uid]
	if p == nil {
		p = &pod{uid: uid, since: s.opts.Now(), podState: s.saved.Pods[uid]}
		s.pods[uid] = p
	}
	return p
}

// enter moves the pod to a phase, and writes the phase to its annotation.
func (s *Groups) enter(p *pod, phase v1alpha1.MemoryLocalityPhase) {
	if p.Phase == phase && phase == v1alpha1.MemoryLocalityInProgress {
		return
	}
	p.Phase, p.since = phase, s.opts.Now()
	s.decision.Annotations = append(s.decision.Annotations, capability.Annotation{
		PodUID: p.uid, Key: v1alpha1.AnnotationMemoryLocalityStatus,
		Value: p.Encode(),
	})
	s.opts.Changed()
}

// settleMost is how long results wait for decisions about the other containers of the pod: a container that crashes
// again and again never gets one.
const settleMost = time.Minute

// conclude reports the passes of a pod once none is under way and the kernel has counted what they moved.
func (s *Groups) conclude(p *pod) {
	settled := true
	for _, g := range p.groups {
		if g.pass != nil {
			return
		}
		settled = settled && (g.problem != nil || g.settled && g.counted == 0)
	}
	if len(p.results) > 0 {
		if settled || s.now-p.ended >= settleMost {
			s.summarise(p)
		}
	} else if p.Phase == v1alpha1.MemoryLocalityInProgress && settled {
		s.enter(p, v1alpha1.MemoryLocalityPhaseCompleted) // it was canceled, or an agent did not see its end
	}
}

// summarise reports how the passes of a pod ended.
func (s *Groups) summarise(p *pod) {
	var all, remote int64
	for _, g := range p.groups {
		if !g.local.IsEmpty() { // without a local node no memory is remote
			remote += g.at.Remote(g.local)
		}
		all += g.at.Movable.Sum()
	}
	sum := locality.Summary{Results: p.results, Ratio: locality.Ratio(all, remote), RestPages: remote / int64(os.Getpagesize())}
	p.results = nil
	said := locality.Reported{Text: p.groups[0].policy.Text, Outcome: sum.Outcome(), Ratio: sum.Ratio}
	if said.Differs(p.Reported) {
		p.Reported = said
		s.report(p, sum.Reason(), sum.Text(), said.Outcome == locality.Failed)
	}
	p.LastResult = &v1alpha1.MemoryLocalityResult{
		CompletedTime: s.opts.Now().UTC().Truncate(time.Second), Result: string(said.Outcome),
		CompletedTimeLocalityRatio: sum.Ratio, CompletedTimeRemotePages: sum.RestPages,
	}
	s.enter(p, sum.Phase())
}
