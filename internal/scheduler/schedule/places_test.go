package schedule

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// A lookup by NodeInfo finds the same node as a lookup by name, also after nodes were added and removed.
func TestPlaces(t *testing.T) {
	core := &core{}
	info := func(name string) fwk.NodeInfo {
		node := &v1.Node{}
		node.Name = name
		return &fakeNode{node: node}
	}
	check := func(when string, list []fwk.NodeInfo) {
		t.Helper()
		for _, one := range list {
			if got, want := core.nodes.at(one), core.nodes.find(one.Node().Name); got != want {
				t.Errorf("%s: node %s is another one", when, one.Node().Name)
			}
		}
	}
	list := []fwk.NodeInfo{info("unknown")}
	for i := range 1000 {
		name := fmt.Sprint("n", i)
		core.nodes.findOrAdd(name)
		list = append(list, info(name))
	}
	check("without a table", list)
	core.nodes.placesOf(list)
	check("with a table", list)
	check("a clone", []fwk.NodeInfo{info("n7"), info("unknown")})
	before := core.nodes.places.Load()
	if core.nodes.placesOf(list); core.nodes.places.Load() != before {
		t.Error("the same list makes another table")
	}
	core.nodes.remove(core.nodes.find("n7"))
	core.nodes.findOrAdd("unknown")
	check("after changes", list)
	core.nodes.findOrAdd("n7")
	core.nodes.placesOf(list)
	check("with a new table", list)
	core.nodes.placesOf(list[1:500])
	check("of a part", list)
	core.nodes.places.Store(nil)
	check("cleared", list)
	core.nodes.placesOf(nil)
}
