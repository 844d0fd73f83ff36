package repack

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// machine has NUMA nodes of L3 domains of cores of two threads, numbered core by core.
func machine(t testing.TB, nodes, l3s, cores int) *alloc.Machine {
	t.Helper()
	top, cpu := &topology.Topology{}, 0
	for node := range nodes {
		var inNode cpuset.Set
		for l3 := range l3s {
			var inL3 cpuset.Set
			for range cores {
				own := cpuset.Set{}.Add(cpu).Add(cpu + 1)
				top.Cores = append(top.Cores, topology.Core{
					ID: topology.CoreID(cpu / 2), CPUs: own,
					Socket: topology.SocketID(node), Node: topology.NodeID(node), L3: topology.L3ID(node*l3s + l3),
				})
				inL3 = inL3.Union(own)
				cpu += 2
			}
			top.L3 = append(top.L3, topology.L3{ID: topology.L3ID(node*l3s + l3), CPUs: inL3})
			inNode = inNode.Union(inL3)
		}
		distances := make([]int, nodes)
		for other := range distances {
			distances[other] = 10 + 10*min(max(other-node, node-other), 1)
		}
		top.Nodes = append(top.Nodes, topology.Node{ID: topology.NodeID(node), CPUs: inNode, MemoryBytes: 8 << 30, Distances: distances})
		top.Sockets = append(top.Sockets, topology.Socket{ID: topology.SocketID(node), CPUs: inNode})
		top.Online = top.Online.Union(inNode)
	}
	m, err := alloc.Compile(top)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// asking returns what a pod asks for that wants that many CPUs.
func asking(t testing.TB, cpus int, annotations ...string) *placement.Ask {
	t.Helper()
	p := workload.Pod{
		Annotations: map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"}, Scheduled: int64(cpus) * 1000,
		Containers: []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: int64(cpus) * 1000, CPURequest: int64(cpus) * 1000}}},
	}
	for i := 0; i < len(annotations); i += 2 {
		p.Annotations[annotations[i]] = annotations[i+1]
	}
	pin, problems := workload.PinningOf(p)
	if len(problems) > 0 || !pin.Wanted {
		t.Fatal(problems)
	}
	ask := placement.AskOf(pin)
	return &ask
}

// add gives a pod CPUs of the node.
func (n *Node) add(name string, a *placement.Ask, held placement.Held, moves bool) {
	n.RequestedMilli += a.Pod.Scheduled
	if moves {
		n.Pods = append(n.Pods, Pod{Name: name, Ask: a, Held: held})
	} else {
		n.Fixed.Add(n.Machine, &held)
	}
}

// at is what a pod holds on these CPUs.
func (n *Node) at(t testing.TB, a *placement.Ask, cpus string) placement.Held {
	t.Helper()
	set, err := cpuset.Parse(cpus)
	if err != nil {
		t.Fatal(err)
	}
	d, no := placement.ConfirmTogether(&alloc.Scratch{}, placement.Node{Machine: n.Machine, AllocatableMilli: 1 << 40}, &placement.Occupancy{}, a, set)
	if !no.OK() {
		t.Fatal(no.Detail())
	}
	return d.Held(a)
}

func newNode(m *alloc.Machine) *Node {
	return &Node{Node: placement.Node{Machine: m, AllocatableMilli: int64(m.Topology().Online.Size()) * 1000}}
}

const (
	numaSpec     = v1alpha1.AnnotationNUMATopologySpec
	singleNode   = `{"numaTopologyPolicy":"SingleNUMANode"}`
	resourceSpec = v1alpha1.AnnotationResourceSpec
)

var searching = Bounds{Moves: 3, Looks: 100_000}

// Two pods of 4 CPUs in two NUMA nodes of 8 leave 4 in each: moving one of them beside the
// other makes room for 6 in one, and for a whole NUMA node's L3 domain.
func TestFewestMoves(t *testing.T) {
	m := machine(t, 2, 1, 4)
	big := asking(t, 6, numaSpec, singleNode)
	fill := func(moves bool) *Node {
		n := newNode(m)
		for name, cpus := range map[string]string{"a": "0-3", "b": "8-11"} {
			a := asking(t, 4)
			n.add(name, a, n.at(t, a, cpus), moves)
		}
		return n
	}
	for name, goal := range map[string]Goal{"a pod": Room(big), "an L3": WholeL3s(1)} {
		plan := Fewest(fill(true), goal, searching)
		if !plan.Found || !plan.Exact || len(plan.Moves) != 1 {
			t.Errorf("%s: %+v, want one move", name, plan)
		}
		if plan = Fewest(fill(false), goal, searching); plan.Found || !plan.Exact {
			t.Errorf("%s: pods that did not opt in are moved: %+v", name, plan)
		}
		if plan = Fewest(fill(true), goal, Bounds{Moves: 3, Looks: 0}); plan.Found || plan.Exact {
			t.Errorf("%s: a search that looked at nothing knows %+v", name, plan)
		}
	}
	if plan := Fewest(fill(true), Room(asking(t, 4)), searching); !plan.Found || len(plan.Moves) > 0 {
		t.Errorf("for a pod that fits already the plan is %+v", plan)
	}
	if plan := Fewest(fill(true), Room(asking(t, 9)), searching); plan.Found || !plan.Exact {
		t.Errorf("for a pod of more CPUs than are free the plan is %+v", plan)
	}
}

// A pod with devices stays in the NUMA nodes of its CPUs: its devices do not move.
func TestDevicesKeepAPod(t *testing.T) {
	n := newNode(machine(t, 2, 1, 4))
	for name, cpus := range map[string]string{"a": "0-3", "b": "8-11"} {
		a := asking(t, 4)
		a.Pod.Besides.Devices = []workload.Device{{Resource: "example.com/gpu", Count: 1}}
		n.add(name, a, n.at(t, a, cpus), true)
	}
	if plan := Fewest(n, Room(asking(t, 6, numaSpec, singleNode)), searching); plan.Found {
		t.Errorf("a pod left its devices: %+v", plan.Moves)
	}
}

// Every plan has as few moves as one found by trying all CPUs for all pods, and each of its
// moves goes to free CPUs.
func TestFewestAgainstBruteForce(t *testing.T) {
	found, seeds := [3]int{}, []uint64{2192} // in which it matters whose CPUs are beside free ones
	for seed := range uint64(400) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 14))
		n, goal := randomNode(t, r)
		b := Bounds{Moves: 2, Looks: 1 << 30}
		got, want := Fewest(n, goal, b), bruteForce(n, goal, b.Moves)
		switch {
		case !got.Exact:
			t.Fatalf("seed %d: the search ended early", seed)
		case got.Found != (want >= 0) || got.Found && len(got.Moves) != want:
			t.Fatalf("seed %d: %+v, brute force needs %d moves", seed, got, want)
		case got.Found:
			found[len(got.Moves)]++
			carryOut(t, n, got.Moves, goal)
		}
	}
	t.Log("plans by moves:", found)
	if found[1] < 10 || found[2] < 2 {
		t.Errorf("plans of 0, 1, 2 moves: %v: the test says too little", found)
	}
}

// randomNode returns a small node with some pods, and what to make room for.
func randomNode(t *testing.T, r *rand.Rand) (*Node, Goal) {
	shapes := [][3]int{{2, 1, 2}, {1, 2, 2}, {2, 1, 3}, {1, 3, 1}, {1, 2, 3}}
	shape := shapes[r.IntN(len(shapes))]
	m := machine(t, shape[0], shape[1], shape[2])
	n := newNode(m)
	keys := [][]string{
		nil, nil,
		{resourceSpec, `{"requiredCPUBindPolicy":"FullPCPUs"}`},
		{resourceSpec, `{"preferredCPUBindPolicy":"SpreadByPCPUs"}`},
		{resourceSpec, `{"preferredCPUExclusivePolicy":"PCPULevel"}`},
		{numaSpec, singleNode},
	}
	var s alloc.Scratch
	free := m.Topology().Online
	for i := range 2 + r.IntN(3) {
		key := keys[r.IntN(len(keys))]
		size := 1 + r.IntN(2)
		if len(key) > 0 && key[0] == resourceSpec && size%2 == 1 {
			size++
		}
		a := asking(t, size, key...)
		var cpus cpuset.Set
		for cpus.Size() < size && free.Size() > size {
			cpus = cpus.Add(r.IntN(m.Topology().Online.Size())).Intersect(free)
		}
		o := n.Fixed.Clone()
		for j := range n.Pods {
			o.Add(m, &n.Pods[j].Held)
		}
		d, no := placement.ConfirmTogether(&s, n.Node, &o, a, cpus)
		if !no.OK() {
			continue
		}
		held := d.Held(a)
		free = free.Difference(held.Occupied(m))
		n.add(fmt.Sprint("pod", i), a, held, r.IntN(5) > 0)
	}
	if r.IntN(3) == 0 {
		return n, WholeL3s(1 + r.IntN(2))
	}
	wanted := [][]string{{"cpu-policy", "static-burst"}, {resourceSpec, `{"requiredCPUBindPolicy":"FullPCPUs"}`}, {numaSpec, singleNode}}
	return n, Room(asking(t, 2+2*r.IntN(3), wanted[r.IntN(len(wanted))]...))
}

// bruteForce returns the fewest moves by trying all sets of CPUs, -1 for more than most.
func bruteForce(n *Node, goal Goal, most int) int {
	s, seen := &search{node: n, goal: goal}, map[string]bool{}
	layer := []state{s.start()}
	for moves := 0; ; moves++ {
		var next []state
		for _, at := range layer {
			if o := s.occupancy(at, nobody); goal(&s.scratch, n.Node, &o) {
				return moves
			}
			if moves < most {
				next = append(next, s.everyMove(at, seen)...)
			}
		}
		if moves == most {
			return -1
		}
		layer = next
	}
}

// everyMove returns the states after each move of each pod that were not seen yet.
func (s *search) everyMove(at state, seen map[string]bool) []state {
	var all []state
	for i := range s.pods {
		if s.pods[i].Pod != nil {
			all = append(all, s.movesOf(at, i, seen)...)
		}
	}
	return all
}

// movesOf gives a pod all sets of CPUs that it may have, one after the other.
func (s *search) movesOf(at state, i int, seen map[string]bool) []state {
	var all []state
	o, m := s.occupancy(at, i), &s.pods[i]
	open := s.node.Given().Difference(o.Taken.CPUs())
	count := at.held[i].CPUs().Size()
	var choose func(from int, cpus cpuset.Set)
	choose = func(from int, cpus cpuset.Set) {
		if cpus.Size() == count {
			if d, no := placement.ConfirmTogether(&s.scratch, m.without, &o, m.Ask, cpus); no.OK() && !d.WorseThan(&m.origin, m.Ask) {
				to := at.with(i, &d, m)
				key := fmt.Sprintf("%v", to.dropped)
				for j := range to.held {
					key += " " + to.held[j].CPUs().String()
				}
				if !seen[key] {
					seen[key] = true
					all = append(all, to)
				}
			}
			return
		}
		for cpu := from; cpu < s.node.Machine.Topology().Online.Size(); cpu++ {
			if open.Contains(cpu) {
				choose(cpu+1, cpus.Add(cpu))
			}
		}
	}
	choose(0, cpuset.Set{})
	return all
}

// carryOut moves one pod after the other.
func carryOut(t *testing.T, n *Node, moves []Move, goal Goal) {
	t.Helper()
	s := &search{node: n}
	at := s.start()
	for _, move := range moves {
		for i := range s.pods {
			if n.Pods[i].Name != move.Pod {
				continue
			}
			if at.held[i].CPUs() != move.From {
				t.Fatalf("pod %s has %s, the plan says %s", move.Pod, at.held[i].CPUs(), move.From)
			}
			o := s.occupancy(at, i)
			d, no := placement.ConfirmTogether(&s.scratch, s.pods[i].without, &o, n.Pods[i].Ask, move.To)
			if !no.OK() {
				t.Fatalf("pod %s cannot have %s: %s", move.Pod, move.To, no.Detail())
			}
			at.held[i] = d.Held(n.Pods[i].Ask)
		}
	}
	if o := s.occupancy(at, nobody); !goal(&s.scratch, n.Node, &o) {
		t.Fatalf("after %+v there is no room", moves)
	}
}
