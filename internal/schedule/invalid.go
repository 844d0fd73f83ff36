package schedule

import (
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/api/v1alpha1"
)

// reasonInvalidPolicy is the reason of the event about a value that cannot be.
const reasonInvalidPolicy = "InvalidPolicy"

// told remembers what was said about a pod, so that it is said once for each
// generation of its spec. The zero value is ready for use.
type told struct {
	mu   sync.Mutex
	pods map[types.UID]int64
}

// first says whether nothing was said yet about this generation, and notes that
// now it is.
func (t *told) first(uid types.UID, generation int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if said, found := t.pods[uid]; found && said == generation {
		return false
	}
	if t.pods == nil {
		t.pods = map[types.UID]int64{}
	}
	t.pods[uid] = generation
	return true
}

func (t *told) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pods, uid)
}

// tellInvalid emits the event about a pod that is scheduled like any other,
// because what it says about its CPUs cannot be read.
func (p *Plugin) tellInvalid(pod *v1.Pod, problems v1alpha1.FieldErrors) {
	if !p.core.invalid.first(pod.UID, pod.Generation) {
		return
	}
	lines := make([]string, len(problems))
	for i, problem := range problems {
		lines[i] = problem.Error()
	}
	p.core.meters.invalid()
	p.handle.EventRecorder().Eventf(pod, nil, v1.EventTypeWarning, reasonInvalidPolicy, "Scheduling",
		"no CPUs are pinned for this pod: %s", strings.Join(lines, "; "))
}
