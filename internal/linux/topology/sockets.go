package topology

import (
	"cmp"
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// sockets returns the packages of the cores, and sets the socket of every core.
func (s *source) sockets(cores []Core) []Socket {
	cpus := map[SocketID]cpuset.Set{}
	for i := range cores {
		core := &cores[i]
		if core.Socket = s.socketOf(core.CPUs); core.Socket == None {
			s.notes.cpus(core.CPUs, "no package id, in no socket")
			continue
		}
		cpus[core.Socket] = cpus[core.Socket].Union(core.CPUs)
	}
	sockets := make([]Socket, 0, len(cpus))
	for _, id := range slices.Sorted(maps.Keys(cpus)) {
		sockets = append(sockets, Socket{ID: id, CPUs: cpus[id]})
	}
	return sockets
}

// socketOf returns the package id of the first thread that has one.
func (s *source) socketOf(threads cpuset.Set) SocketID {
	for cpu := range threads.All() {
		if id, ok := s.number(cpuPath(cpu, "topology/physical_package_id")); ok && id >= 0 {
			return SocketID(id)
		}
	}
	return None
}

// dies reads one CPU of every die, and uses the kernel's list for the other CPUs. Kernels before 5.2 and some
// architectures have no dies; the result is then empty.
func (s *source) dies(cores []Core) []Die {
	dies := []Die{}
	var seen cpuset.Set
	for _, core := range cores {
		first, _ := core.CPUs.Min()
		if core.Socket == None || seen.Contains(first) {
			continue
		}
		id, ok := s.number(cpuPath(first, "topology/die_id"))
		if !ok || id < 0 {
			continue
		}
		listed, _ := s.set(cpuPath(first, "topology/die_cpus_list"), cpuPath(first, "topology/die_cpus"))
		die := Die{ID: DieID(id), Socket: core.Socket, CPUs: core.CPUs.Union(wholeCores(cores, core.Socket, listed.Difference(seen)))}
		seen = seen.Union(die.CPUs)
		dies = s.addDie(dies, die)
	}
	slices.SortFunc(dies, func(a, b Die) int {
		return cmp.Or(cmp.Compare(a.Socket, b.Socket), cmp.Compare(a.ID, b.ID))
	})
	return dies
}

// addDie adds a die. It merges two entries with the same socket and die id, which occur if the CPUs' lists of the die
// differ.
func (s *source) addDie(dies []Die, die Die) []Die {
	for i := range dies {
		if dies[i].Socket == die.Socket && dies[i].ID == die.ID {
			s.notes.cpus(dies[i].CPUs.Union(die.CPUs), "contradictory lists of the CPUs of a die, joined by die id")
			dies[i].CPUs = dies[i].CPUs.Union(die.CPUs)
			return dies
		}
	}
	return append(dies, die)
}

// wholeCores returns the CPUs of those cores of a socket that are entirely within cpus.
func wholeCores(cores []Core, socket SocketID, cpus cpuset.Set) cpuset.Set {
	var all cpuset.Set
	for _, core := range cores {
		if core.Socket == socket && core.CPUs.IsSubsetOf(cpus) {
			all = all.Union(core.CPUs)
		}
	}
	return all
}
