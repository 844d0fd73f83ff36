package workload

import (
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
)

// Move is what a pod is asked to have instead of its CPUs, by the annotation berth.dev/move.
type Move struct {
	// Text is the annotation.
	Text string
	// From are the CPUs of all containers together, To as many others; some may be in both.
	From, To cpuset.Set
	// Withdrawn says that it is not to begin any more, Refused that the agent did not begin it.
	Withdrawn, Refused bool
}

// Asked says whether there is a move that was not answered yet. None may be nil.
func (m *Move) Asked() bool { return m != nil && !m.Refused }

// Between says whether CPUs are what a pod may have on the way: those from before, the new
// ones, or some of both.
func (m *Move) Between(cpus cpuset.Set) bool {
	return cpus.Size() == m.To.Size() && cpus.IsSubsetOf(m.From.Union(m.To))
}

// movable reads the key that lets the pod be moved, and the move that is asked for. A value
// that is none opts in to nothing, and is no reason to withhold the CPUs of the pod.
func (r *pinReader) movable() {
	if problem, wrong := movableSlip(r.pod.Annotations); wrong {
		r.out.Unknown = append(r.out.Unknown, problem)
	}
	// The devices of claims are where they are, and so are the cores that are lent.
	r.out.Movable = r.pod.Annotations[v1alpha1.AnnotationMovable] == v1alpha1.Movable && !r.pod.Claims && !r.out.StaticBurst
	text := r.pod.Annotations[v1alpha1.AnnotationMove]
	if text == "" || strings.HasPrefix(r.pod.UID, UIDPrefix) { // nobody asks on a host without Kubernetes
		return
	}
	asked, problems := v1alpha1.DecodeMove(text)
	if len(problems) > 0 {
		r.doubt(v1alpha1.AnnotationMove, text, "left out: berth repack writes it")
		return
	}
	from, _ := cpuset.Parse(asked.From)
	to, _ := cpuset.Parse(asked.To)
	r.out.Move = &Move{Text: text, From: from, To: to, Withdrawn: asked.Withdrawn, Refused: asked.Refused != ""}
}

func (r *pinReader) doubt(key, value, allowed string) {
	r.out.Unknown = append(r.out.Unknown, v1alpha1.FieldError{Field: fieldOf(key), Value: v1alpha1.Show(value), Allowed: allowed})
}
