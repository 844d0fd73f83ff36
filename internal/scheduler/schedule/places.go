package schedule

import (
	"reflect"

	fwk "k8s.io/kube-scheduler/framework"
)

// placeTable finds what is known about the nodes of the scheduler's snapshot by their NodeInfos. A snapshot keeps the
// NodeInfo of a node while the node exists, and its list while no node comes or goes. So one table serves many cycles.
// A lookup in it touches one cache line; a lookup by name touches the node object, its name and that of the directory.
// With a map of the standard library instead, Filter takes a third longer. The table serves one list and one version of
// the directory, and never changes.
type placeTable struct {
	// list pins the NodeInfos: no other object gets the address of one while the table exists.
	list []fwk.NodeInfo
	// known is what is known about each node of the list, nil for nothing.
	known   []*node
	version uint64
	// slots is an open-addressing hash table: a node whose slot is occupied goes to the next free one. More than half
	// of the slots are empty.
	slots []place
	shift uint
}

type place struct {
	address uintptr
	node    *node // nil if nothing is known
}

// placesOf returns the table for the nodes of a snapshot, and makes it if needed. It is nil for an empty list.
func (d *directory) placesOf(list []fwk.NodeInfo) *placeTable {
	if len(list) == 0 {
		return nil
	}
	version := d.version.Load()
	t := d.places.Load()
	if t != nil && t.version == version && len(t.list) == len(list) && &t.list[0] == &list[0] {
		return t
	}
	t = newPlaceTable(list, d, version)
	d.places.Store(t)
	return t
}

func newPlaceTable(list []fwk.NodeInfo, d *directory, version uint64) *placeTable {
	t := &placeTable{list: list, known: make([]*node, len(list)), version: version, shift: 64}
	size := 1
	for size <= 2*len(list) {
		size, t.shift = 2*size, t.shift-1
	}
	t.slots = make([]place, size)
	for at, info := range list {
		address, where := addressOf(info), info.Node()
		if where != nil {
			t.known[at] = d.find(where.Name)
		}
		if address == 0 || where == nil {
			continue
		}
		i := t.first(address)
		for t.slots[i].address != 0 {
			i = (i + 1) & (size - 1)
		}
		t.slots[i] = place{address: address, node: t.known[at]}
	}
	return t
}

// first returns the slot where the search for an address begins.
func (t *placeTable) first(address uintptr) int {
	const golden = 0x9E3779B97F4A7C15 // spreads addresses that differ in some bits only
	return int(uint64(address) * golden >> t.shift)
}

// find returns what is known about a NodeInfo's node, false if the table does not have it.
func (t *placeTable) find(info fwk.NodeInfo) (*node, bool) {
	address := addressOf(info)
	if address == 0 {
		return nil, false
	}
	for i := t.first(address); ; i = (i + 1) & (len(t.slots) - 1) {
		switch t.slots[i].address {
		case address:
			return t.slots[i].node, true
		case 0:
			return nil, false
		}
	}
}

// addressOf identifies a NodeInfo; 0 means that it has no address.
func addressOf(info fwk.NodeInfo) uintptr {
	if v := reflect.ValueOf(info); v.Kind() == reflect.Pointer {
		return v.Pointer()
	}
	return 0
}
