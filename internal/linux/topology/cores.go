package topology

import (
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// maxThreads is the largest number of hardware threads of a core on any Linux machine (POWER in SMT8).
const maxThreads = 8

const contradictory = "contradictory thread siblings, decided by package, die and core ids"

// claims has the thread siblings that every CPU lists.
type claims struct {
	online cpuset.Set
	known  cpuset.Set // CPUs with a usable list, which includes the CPU
	of     [cpuset.Max]cpuset.Set
}

// cores builds the cores of the online CPUs.
func (s *source) cores(online cpuset.Set) []Core {
	c := s.claims(online)
	groups := newForest()
	for cpu := range c.known.All() {
		for other := range c.of[cpu].All() {
			if other != cpu && s.linked(c, cpu, other) {
				groups.join(cpu, other)
			}
		}
	}
	s.adopt(c, groups)
	var cores []Core
	for _, cpus := range groups.sets(online) {
		cores = append(cores, s.plausible(c, cpus)...)
	}
	slices.SortFunc(cores, func(a, b Core) int { return int(a.ID - b.ID) })
	return cores
}

// claims reads the siblings of every CPU.
func (s *source) claims(online cpuset.Set) *claims {
	c := &claims{online: online}
	for cpu := range online.All() {
		siblings, ok := s.set(cpuPath(cpu, "topology/thread_siblings_list"), cpuPath(cpu, "topology/thread_siblings"))
		if !ok {
			siblings, ok = s.set(cpuPath(cpu, "topology/core_cpus_list"), cpuPath(cpu, "topology/core_cpus"))
		}
		if ok && siblings.Contains(cpu) {
			c.known = c.known.Add(cpu)
			c.of[cpu] = siblings.Intersect(online)
		}
	}
	return c
}

// linked reports whether two CPUs are threads of one core. The caller has checked that cpu lists other. If other has no
// list, linked returns false; adopt handles such CPUs later.
func (s *source) linked(c *claims, cpu, other int) bool {
	if !c.known.Contains(other) {
		return false
	}
	if c.of[other].Contains(cpu) {
		return true
	}
	pair := cpuset.Set{}.Add(cpu).Add(other)
	s.notes.cpus(pair, contradictory)
	key, ok := s.coreKey(cpu)
	otherKey, otherOK := s.coreKey(other)
	return ok && otherOK && key == otherKey
}

// adopt joins every CPU without a list to the CPU that lists it. If several CPUs list it, adopt chooses the CPU with
// the shortest list.
func (s *source) adopt(c *claims, groups *forest) {
	for cpu := range c.online.Difference(c.known).All() {
		best := None
		for other := range c.known.All() {
			claim := c.of[other]
			if claim.Contains(cpu) && (best == None || claim.Size() < c.of[best].Size()) {
				best = other
			}
		}
		if best != None {
			s.notes.cpus(cpuset.Set{}.Add(cpu), "no usable list of thread siblings, decided by the lists of the siblings")
			groups.join(cpu, best)
			continue
		}
		s.notes.cpus(cpuset.Set{}.Add(cpu), "no usable list of thread siblings, taken as cores of one thread")
	}
}

// plausible makes one core of the joined CPUs. It makes several cores if the CPUs are too many for one core or their
// lists differ. Joining follows links from CPU to CPU: the links 0-1, 0-2, 1-3 and 2-3 join four CPUs, although none of
// the lists has all four.
func (s *source) plausible(c *claims, cpus cpuset.Set) []Core {
	switch {
	case cpus.Size() > maxThreads:
		s.notes.cpus(cpus, fmt.Sprintf("more than %d threads in one core, split by package, die and core ids", maxThreads))
	case !c.agree(cpus):
		s.notes.cpus(cpus, contradictory)
	default:
		return []Core{newCore(cpus)}
	}
	byKey := map[string]cpuset.Set{}
	var alone cpuset.Set
	for cpu := range cpus.All() {
		if key, ok := s.coreKey(cpu); ok {
			byKey[key] = byKey[key].Add(cpu)
		} else {
			alone = alone.Add(cpu)
		}
	}
	var cores []Core
	for _, part := range byKey {
		if part.Size() <= maxThreads && c.witnessed(part) {
			cores = append(cores, newCore(part))
		} else {
			alone = alone.Union(part)
		}
	}
	for cpu := range alone.All() {
		cores = append(cores, newCore(cpuset.Set{}.Add(cpu)))
	}
	return cores
}

// agree reports whether all CPUs that have a list have the same list.
func (c *claims) agree(cpus cpuset.Set) bool {
	first, _ := cpus.Intersect(c.known).Min()
	for cpu := range cpus.Intersect(c.known).All() {
		if c.of[cpu] != c.of[first] {
			return false
		}
	}
	return true
}

// witnessed reports whether in every pair of the CPUs, at least one lists the other. Equal ids alone make no core.
func (c *claims) witnessed(cpus cpuset.Set) bool {
	for cpu := range cpus.All() {
		for other := range cpus.All() {
			if cpu != other && !c.of[cpu].Contains(other) && !c.of[other].Contains(cpu) {
				return false
			}
		}
	}
	return true
}

// coreKey returns a name for a core from its ids. It only decides between contradictory sibling lists.
func (s *source) coreKey(cpu int) (string, bool) {
	core, ok := s.number(cpuPath(cpu, "topology/core_id"))
	if !ok || core < 0 {
		return "", false
	}
	socket, _ := s.number(cpuPath(cpu, "topology/physical_package_id"))
	die, _ := s.number(cpuPath(cpu, "topology/die_id"))
	cluster, _ := s.number(cpuPath(cpu, "topology/cluster_id"))
	return fmt.Sprint(socket, die, cluster, core), true
}

func newCore(cpus cpuset.Set) Core {
	lowest, _ := cpus.Min()
	return Core{ID: CoreID(lowest), CPUs: cpus, Socket: None, Node: None, L3: None}
}

// forest joins CPUs into groups; the root of a group is its lowest CPU.
type forest struct {
	parent [cpuset.Max]int
}

func newForest() *forest {
	f := &forest{}
	for cpu := range f.parent {
		f.parent[cpu] = cpu
	}
	return f
}

func (f *forest) root(cpu int) int {
	for f.parent[cpu] != cpu {
		cpu = f.parent[cpu]
	}
	return cpu
}

func (f *forest) join(a, b int) {
	a, b = f.root(a), f.root(b)
	f.parent[max(a, b)] = min(a, b)
}

// sets returns the groups of the CPUs, sorted by lowest CPU.
func (f *forest) sets(cpus cpuset.Set) []cpuset.Set {
	var sets []cpuset.Set
	at := map[int]int{}
	for cpu := range cpus.All() {
		root := f.root(cpu)
		i, ok := at[root]
		if !ok {
			i = len(sets)
			at[root] = i
			sets = append(sets, cpuset.Set{})
		}
		sets[i] = sets[i].Add(cpu)
	}
	return sets
}
