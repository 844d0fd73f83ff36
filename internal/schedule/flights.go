package schedule

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/placement"
)

// flights knows the pods between Reserve and what the API server shows of them,
// by UID: an unbound pod does not say where CPUs are held for it. The zero value
// is ready for use, and safe for concurrent use.
type flights struct {
	mu       sync.Mutex
	reserved map[types.UID]flight
	// ghosts has one for each node and set of CPUs; mu guards their until.
	ghosts map[types.UID][]*ghost
}

// flight is where CPUs are held for a pod; without a node it is none.
type flight struct {
	node string
	// annotation is what the binding says, and placed the same before it was
	// written, so that the bound pod's need not be read.
	annotation string
	placed     v1alpha1.Placement
}

// reads returns what an annotation says.
func (f flight) reads(annotation string) v1alpha1.Placement {
	if annotation != "" && annotation == f.annotation {
		return f.placed
	}
	return placement.Believed(annotation)
}

// reserve notes where CPUs are held for a pod.
func (f *flights) reserve(uid types.UID, to flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reserved == nil {
		f.reserved = map[types.UID]flight{}
	}
	f.reserved[uid] = to
}

// end notes that no CPUs are held for a pod any more, and returns its flight.
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

// haunt notes a ghost of a pod, and says whether it is a new one: a pod that
// failed in the same place before makes the ghost that it has there last longer.
func (f *flights) haunt(g *ghost) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, old := range f.ghosts[g.uid] {
		if old.node == g.node && sameHeld(&old.held, &g.held) {
			if g.until.After(old.until) {
				old.until = g.until
			}
			return false
		}
	}
	if f.ghosts == nil {
		f.ghosts = map[types.UID][]*ghost{}
	}
	f.ghosts[g.uid] = append(f.ghosts[g.uid], g)
	return true
}

// lay forgets the ghosts of a pod and returns them.
func (f *flights) lay(uid types.UID) []*ghost {
	f.mu.Lock()
	defer f.mu.Unlock()
	laid := f.ghosts[uid]
	delete(f.ghosts, uid)
	return laid
}

// layDue does so for the ghosts whose bindings ended before the API server was
// asked, and leaves the others.
func (f *flights) layDue(uid types.UID, asked time.Time) []*ghost {
	f.mu.Lock()
	defer f.mu.Unlock()
	var laid, left []*ghost
	for _, g := range f.ghosts[uid] {
		if asked.After(g.until) {
			laid = append(laid, g)
		} else {
			left = append(left, g)
		}
	}
	if len(left) == 0 {
		delete(f.ghosts, uid)
	} else {
		f.ghosts[uid] = left
	}
	return laid
}

// ends returns until when a ghost may be bound, false for one that is laid.
func (f *flights) ends(g *ghost) (time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return g.until, slices.Contains(f.ghosts[g.uid], g)
}

// haunted says whether a binding of the pod may have gone through unseen.
func (f *flights) haunted(uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ghosts[uid]) > 0
}

// size returns how many pods are on their way, and how many have ghosts.
func (f *flights) size() (reserved, ghosts int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.reserved), len(f.ghosts)
}
