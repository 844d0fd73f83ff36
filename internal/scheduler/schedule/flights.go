package schedule

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/placement"
)

// flights tracks the pods between Reserve and what the API server shows of them, by UID: an unbound pod does not name
// the node that holds CPUs for it. The zero value is ready for use, and safe for concurrent use.
type flights struct {
	mu       sync.Mutex
	reserved map[types.UID]flight
	// ambiguous has an entry for each node and placement. mu guards their until.
	ambiguous map[types.UID][]*ambiguousBind
}

// flight is the node that holds CPUs for a pod; the zero flight holds none.
type flight struct {
	node string
	// annotation is the text in the binding, and placed its decoded form, so that the bound pod's need not be decoded.
	annotation string
	placed     v1alpha1.Placement
}

// reads decodes a placement annotation.
func (f flight) reads(annotation string) v1alpha1.Placement {
	if annotation != "" && annotation == f.annotation {
		return f.placed
	}
	return placement.Believed(annotation)
}

// reserve records where CPUs are held for a pod.
func (f *flights) reserve(uid types.UID, to flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reserved == nil {
		f.reserved = map[types.UID]flight{}
	}
	f.reserved[uid] = to
}

// end ends the reservation of a pod, and returns its flight.
func (f *flights) end(uid types.UID) flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	ended := f.reserved[uid]
	delete(f.reserved, uid)
	return ended
}

// at returns the node on which CPUs are reserved for a pod, "" for none.
func (f *flights) at(uid types.UID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reserved[uid].node
}

// addAmbiguous adds an ambiguous bind of a pod, and reports whether it is new. A second failure on the same node with
// the same CPUs and memory only extends the first bind.
func (f *flights) addAmbiguous(b *ambiguousBind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, old := range f.ambiguous[b.uid] {
		if old.node == b.node && old.held.Equal(&b.held) {
			if b.until.After(old.until) {
				old.until = b.until
			}
			return false
		}
	}
	if f.ambiguous == nil {
		f.ambiguous = map[types.UID][]*ambiguousBind{}
	}
	f.ambiguous[b.uid] = append(f.ambiguous[b.uid], b)
	return true
}

// settle removes and returns the ambiguous binds of a pod.
func (f *flights) settle(uid types.UID) []*ambiguousBind {
	f.mu.Lock()
	defer f.mu.Unlock()
	settled := f.ambiguous[uid]
	delete(f.ambiguous, uid)
	return settled
}

// settleDue removes and returns the binds that had expired when the API server was asked, and leaves the others.
func (f *flights) settleDue(uid types.UID, asked time.Time) []*ambiguousBind {
	f.mu.Lock()
	defer f.mu.Unlock()
	var settled, left []*ambiguousBind
	for _, b := range f.ambiguous[uid] {
		if asked.After(b.until) {
			settled = append(settled, b)
		} else {
			left = append(left, b)
		}
	}
	if len(left) == 0 {
		delete(f.ambiguous, uid)
	} else {
		f.ambiguous[uid] = left
	}
	return settled
}

// ends returns until when an ambiguous bind may go through, false if it was removed.
func (f *flights) ends(b *ambiguousBind) (time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return b.until, slices.Contains(f.ambiguous[b.uid], b)
}

// isAmbiguous reports whether a binding of the pod may have gone through unseen.
func (f *flights) isAmbiguous(uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ambiguous[uid]) > 0
}

// size returns how many pods are reserved, and how many have ambiguous binds.
func (f *flights) size() (reserved, ambiguous int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.reserved), len(f.ambiguous)
}
