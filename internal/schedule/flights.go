package schedule

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// flights knows the pods between Reserve and what the API server shows of them,
// by UID: an unbound pod does not say where CPUs are held for it. The zero value
// is ready for use, and safe for concurrent use.
type flights struct {
	mu       sync.Mutex
	reserved map[types.UID]string
	ghosts   map[types.UID][]string
}

// reserve notes the node on which CPUs are held for a pod, "" for none.
func (f *flights) reserve(uid types.UID, node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if node == "" {
		delete(f.reserved, uid)
		return
	}
	if f.reserved == nil {
		f.reserved = map[types.UID]string{}
	}
	f.reserved[uid] = node
}

// at returns the node on which CPUs are reserved for a pod, "" for none.
func (f *flights) at(uid types.UID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reserved[uid]
}

// haunt notes a ghost of a pod.
func (f *flights) haunt(uid types.UID, node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ghosts == nil {
		f.ghosts = map[types.UID][]string{}
	}
	f.ghosts[uid] = append(f.ghosts[uid], node)
}

// lay forgets the ghosts of a pod and returns their nodes.
func (f *flights) lay(uid types.UID) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	nodes := f.ghosts[uid]
	delete(f.ghosts, uid)
	return nodes
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
