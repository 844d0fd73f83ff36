package alloc_test

import (
	"testing"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/test/recorded"
)

// TestRecordedMachines fills every recorded machine with random pods.
func TestRecordedMachines(t *testing.T) {
	for name, top := range recorded.Machines(t) {
		t.Run(name, func(t *testing.T) {
			m := compile(t, top)
			var scratch alloc.Scratch
			for seed := range 5 {
				d := newDice(uint64(seed))
				s := state{machine: m}
				placed := 0
				for range 2 * m.Pinnable().Size() {
					free := m.Pinnable().Difference(s.taken.CPUs()).Size()
					s.request = drawRequest(d, max(1, free/4))
					a, no := m.Allocate(&scratch, &s.taken, s.request)
					if no.Code != alloc.Placed {
						continue
					}
					placed++
					if checkAnswer(t, s, &a); !a.Exact && len(top.Nodes) <= 8 {
						t.Errorf("%+v: not exact", *s.request)
					}
					s.holds = append(s.holds, a.Holding())
					m.Hold(&s.taken, a.Holding())
				}
				if placed == 0 {
					t.Error("nothing placed")
				}
			}
		})
	}
}

// TestEverySizeFits asks every empty recorded machine for every number of CPUs.
func TestEverySizeFits(t *testing.T) {
	for name, top := range recorded.Machines(t) {
		m := compile(t, top)
		var scratch alloc.Scratch
		all := m.Pinnable().Size()
		for n := 1; n <= all+1; n++ {
			s := state{machine: m, request: &alloc.Request{Wants: []alloc.Want{{CPUs: n}}, EfficiencyCores: true}}
			a, no := m.Allocate(&scratch, &s.taken, s.request)
			if (no.Code == alloc.Placed) != (n <= all) {
				t.Errorf("%s: %d of %d CPUs: %s", name, n, all, no)
			}
			if no.Code == alloc.Placed {
				checkAnswer(t, s, &a)
			}
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	core := func(id int) topology.Core {
		c := topology.Core{ID: topology.CoreID(id)}
		c.CPUs = c.CPUs.Add(id)
		return c
	}
	sound := func() *topology.Topology {
		return &topology.Topology{
			Cores:   []topology.Core{core(0), core(1)},
			Nodes:   []topology.Node{{Distances: []int{10}}},
			L3:      []topology.L3{{}},
			Sockets: []topology.Socket{{}},
		}
	}
	if _, err := alloc.Compile(sound()); err != nil {
		t.Fatal(err)
	}
	for name, lie := range map[string]func(*topology.Topology){
		"CPU twice":     func(t *topology.Topology) { t.Cores[1].CPUs = t.Cores[0].CPUs },
		"empty core":    func(t *topology.Topology) { t.Cores[1].CPUs = t.Offline },
		"no node":       func(t *topology.Topology) { t.Cores[1].Node = 7 },
		"no L3":         func(t *topology.Topology) { t.Cores[1].L3 = 7 },
		"no socket":     func(t *topology.Topology) { t.Cores[1].Socket = 7 },
		"distances":     func(t *topology.Topology) { t.Nodes[0].Distances = nil },
		"many nodes":    func(t *topology.Topology) { t.Nodes = make([]topology.Node, 2000) },
		"65 nodes":      func(t *topology.Topology) { *t = *(shape{1, 65, 1, 1, 1}).topology() },
		"many L3s":      func(t *topology.Topology) { t.L3 = make([]topology.L3, 2000) },
		"many packages": func(t *topology.Topology) { t.Sockets = make([]topology.Socket, 2000) },
	} {
		top := sound()
		lie(top)
		if _, err := alloc.Compile(top); err == nil {
			t.Errorf("%s: compiled", name)
		}
	}
	if _, err := alloc.Compile(nil); err == nil {
		t.Error("nil: compiled")
	}
}
