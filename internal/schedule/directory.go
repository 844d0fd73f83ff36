package schedule

import (
	"maps"
	"sync"
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"
)

// directory knows the nodes by name. Filter looks into it for every node of a
// cluster from many goroutines at once, so that finding one takes no lock,
// except for those that came lately. The zero value is ready for use.
type directory struct {
	// caps is for the nodes that become known.
	caps *caps
	// hiders is where they count themselves while they hide CPUs.
	hiders *hiders
	// places find the nodes of a snapshot.
	places places
	// version is another one whenever a name stands for another node.
	version atomic.Uint64

	settled atomic.Pointer[map[string]*node]

	mu sync.RWMutex
	// fresh are nodes that are not in settled.
	fresh map[string]*node
	// late counts the nodes found in fresh since the last time they settled.
	late atomic.Int64
}

// find returns what is known about a node, nil for nothing.
func (d *directory) find(name string) *node {
	if settled := d.settled.Load(); settled != nil {
		if n := (*settled)[name]; n != nil {
			return n
		}
	}
	n, many := d.findFresh(name)
	if many {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.settle()
	}
	return n
}

// findFresh looks with the lock, and says whether that happened so often that
// settling costs no more than it did.
func (d *directory) findFresh(name string) (n *node, many bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	settled := d.copied()
	if n := settled[name]; n != nil { // it settled meanwhile
		return n, false
	}
	if n = d.fresh[name]; n == nil {
		return nil, false
	}
	return n, d.late.Add(1) > int64(len(settled)+len(d.fresh))
}

// findOrAdd returns what is known about a node, and begins to know it.
func (d *directory) findOrAdd(name string) *node {
	if n := d.find(name); n != nil {
		return n
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	settled := d.copied()
	if n := settled[name]; n != nil { // it settled meanwhile
		return n
	}
	if n := d.fresh[name]; n != nil {
		return n
	}
	n := &node{name: name, caps: d.caps, hiders: d.hiders}
	d.version.Add(1)
	if d.fresh == nil {
		d.fresh = map[string]*node{}
	}
	d.fresh[name] = n
	if len(d.fresh) > len(settled)/4 {
		d.settle()
	}
	return n
}

// settle makes the fresh nodes ones that are found without the lock. The caller
// holds mu.
func (d *directory) settle() {
	if len(d.fresh) == 0 {
		return
	}
	settled := maps.Clone(d.copied())
	if settled == nil {
		settled = map[string]*node{}
	}
	maps.Copy(settled, d.fresh)
	d.settled.Store(&settled)
	d.fresh = nil
	d.late.Store(0)
}

// copied returns the settled nodes; callers do not change them. The caller holds mu.
func (d *directory) copied() map[string]*node {
	if settled := d.settled.Load(); settled != nil {
		return *settled
	}
	return nil
}

// remove forgets a node if it still is the one of its name.
func (d *directory) remove(n *node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.version.Add(1)
	if d.fresh[n.name] == n {
		delete(d.fresh, n.name)
	}
	if settled := d.copied(); settled[n.name] == n {
		settled = maps.Clone(settled)
		delete(settled, n.name)
		d.settled.Store(&settled)
	}
}

// all returns the nodes at this moment, in no order.
func (d *directory) all() []*node {
	d.mu.RLock()
	defer d.mu.RUnlock()
	settled := d.copied()
	nodes := make([]*node, 0, len(settled)+len(d.fresh))
	for _, n := range settled {
		nodes = append(nodes, n)
	}
	for _, n := range d.fresh {
		nodes = append(nodes, n)
	}
	return nodes
}

// lock returns a node with its lock held, and begins to know it. The caller
// must unlock it.
func (d *directory) lock(name string) *node {
	for {
		n := d.findOrAdd(name)
		n.mu.Lock()
		if !n.gone {
			return n
		}
		n.mu.Unlock() // forgotten since it was found: the next one is another
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
	if t := d.places.table.Load(); t != nil && t.version == d.version.Load() {
		if n, found := t.find(info); found {
			return n
		}
	}
	return d.find(info.Node().Name)
}

// knows says whether the CPUs of a node are known.
func (d *directory) knows(name string) bool {
	n := d.find(name)
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.machine != nil
}
