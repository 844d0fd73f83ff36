package workload

import (
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Move is a request to give a pod other CPUs, from the annotation berth.dev/move.
type Move struct {
	// Text is the value of the annotation.
	Text string
	// From are the CPUs of all containers together, To the same number of new CPUs; the sets may overlap.
	From, To cpuset.Set
	// Withdrawn means that the move must not begin any more. Refused means that the agent did not begin it.
	Withdrawn, Refused bool
}

// Asked reports whether there is a move that the agent did not refuse. m may be nil.
func (m *Move) Asked() bool { return m != nil && !m.Refused }

// Between reports whether a pod may have these CPUs during the move: old CPUs, new CPUs, or some of both.
func (m *Move) Between(cpus cpuset.Set) bool {
	return cpus.Size() == m.To.Size() && cpus.IsSubsetOf(m.From.Union(m.To))
}

// movable reads the annotation that permits moves, and the requested move. An invalid value permits nothing, and the
// pod still gets its CPUs.
func (r *pinReader) movable() {
	if problem, wrong := movableSlip(r.pod.Annotations); wrong {
		r.out.Unknown = append(r.out.Unknown, problem)
	}
	// Devices of claims do not move, nor do lent cores.
	r.out.Change.Movable = r.pod.Annotations[v1alpha1.AnnotationMovable] == v1alpha1.Movable && !r.pod.Claims && !r.out.StaticBurst
	text := r.pod.Annotations[v1alpha1.AnnotationMove]
	if text == "" || strings.HasPrefix(r.pod.UID, UIDPrefix) { // no one requests moves without Kubernetes
		return
	}
	asked, problems := v1alpha1.DecodeMove(text)
	if len(problems) > 0 {
		r.doubt(v1alpha1.AnnotationMove, text, "left out: berth repack writes it")
		return
	}
	from, _ := cpuset.Parse(asked.From)
	to, _ := cpuset.Parse(asked.To)
	r.out.Change.Move = &Move{Text: text, From: from, To: to, Withdrawn: asked.Withdrawn, Refused: asked.Refused != ""}
}

func (r *pinReader) doubt(key, value, allowed string) {
	r.out.Unknown = append(r.out.Unknown, v1alpha1.FieldError{Field: fieldOf(key), Value: v1alpha1.Show(value), Allowed: allowed})
}
