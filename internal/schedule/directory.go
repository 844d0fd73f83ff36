package schedule

import (
	"maps"
	"sync"
	"sync/atomic"
)

// directory knows the nodes by name. Filter looks into it for every node of a
// cluster from many goroutines at once, so that finding one takes no lock,
// except for those that came lately. The zero value is ready for use.
type directory struct {
	// tenants is for the nodes that become known.
	tenants *tenants

	settled atomic.Pointer[map[string]*node]

	mu sync.RWMutex
	// fresh are nodes that are not in settled.
	fresh map[string]*node
}

// find returns what is known about a node, nil for nothing.
func (d *directory) find(name string) *node {
	if settled := d.settled.Load(); settled != nil {
		if n := (*settled)[name]; n != nil {
			return n
		}
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if n := d.copied()[name]; n != nil { // it settled meanwhile
		return n
	}
	return d.fresh[name]
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
	n := &node{name: name, tenants: d.tenants}
	if d.fresh == nil {
		d.fresh = map[string]*node{}
	}
	d.fresh[name] = n
	if len(d.fresh) > len(settled)/4 {
		settled = maps.Clone(settled)
		if settled == nil {
			settled = map[string]*node{}
		}
		maps.Copy(settled, d.fresh)
		d.settled.Store(&settled)
		d.fresh = nil
	}
	return n
}

// copied returns the settled nodes; nobody may change them. The caller holds mu.
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
