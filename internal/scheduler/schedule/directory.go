package schedule

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"
)

// directory knows the nodes by name. Filter finds the nodes of its snapshot in places, without a lock. Lookups by name
// serve changes and clones of NodeInfos. The zero value is ready for use.
type directory struct {
	// usage is for nodes that are added.
	usage *usage
	// hiders is where the nodes register while they hide CPUs.
	hiders *hiding
	// sums has what the bound pods of each node request, also of nodes that have no entry in nodes.
	sums sums
	// places has the nodes of a snapshot, which it holds in memory.
	places atomic.Pointer[placeTable]
	// version changes whenever a name refers to another node.
	version atomic.Uint64

	mu    sync.RWMutex
	nodes map[string]*node
}

// find returns what is known about a node, nil for nothing.
func (d *directory) find(name string) *node {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.nodes[name]
}

// findOrAdd returns what is known about a node, and adds the node if it is unknown.
func (d *directory) findOrAdd(name string) *node {
	if n := d.find(name); n != nil {
		return n
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.nodes[name]; n != nil {
		return n // another goroutine added it
	}
	n := &node{name: name, usage: d.usage, hiders: d.hiders}
	d.version.Add(1)
	if d.nodes == nil {
		d.nodes = map[string]*node{}
	}
	d.nodes[name] = n
	return n
}

// remove forgets a node if its name still refers to it.
func (d *directory) remove(n *node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.version.Add(1)
	if d.nodes[n.name] == n {
		delete(d.nodes, n.name)
	}
}

// all returns the current nodes, in no order.
func (d *directory) all() []*node {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Collect(maps.Values(d.nodes))
}

// lock returns a node with its lock held, and adds the node if it is unknown. The caller must unlock it.
func (d *directory) lock(name string) *node {
	for {
		n := d.findOrAdd(name)
		n.mu.Lock()
		if !n.gone {
			return n
		}
		n.mu.Unlock() // it was forgotten since: find its successor
	}
}

// forget drops a node if nothing is known of it any more.
func (d *directory) forget(n *node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.machine == nil && n.access.empty() && len(n.records) == 0 && len(n.ambiguous) == 0 {
		d.remove(n)
		n.gone = true
		n.weigh()
	}
}

// at returns what is known about the node of a NodeInfo, nil for nothing.
func (d *directory) at(info fwk.NodeInfo) *node {
	if t := d.places.Load(); t != nil && t.version == d.version.Load() {
		if n, found := t.find(info); found {
			return n
		}
	}
	return d.find(info.Node().Name)
}

// knows reports whether the CPUs of a node are known.
func (d *directory) knows(name string) bool {
	n := d.find(name)
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.machine != nil
}
