package topology

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// The kernel's names for the type of a cache.
const (
	typeData        = "Data"
	typeInstruction = "Instruction"
	typeUnified     = "Unified"
)

// domain is one cache, with the CPUs of the cores that claim it. claimed has the CPUs that these cores name as sharers.
type domain struct {
	Cache
	claimed cpuset.Set
	dir     string // of the first core that claims the cache
	cores   []int
}

// caches returns the L3 domains, and all caches that several CPUs share. It also sets the L3 of the cores.
func (s *source) caches(cores []Core) ([]L3, []Cache) {
	r := &cacheReader{src: s, layouts: map[string][]claim{}}
	for _, core := range cores {
		r.online = r.online.Union(core.CPUs)
	}
	var all []claim
	for i, core := range cores {
		for _, c := range r.read(core) {
			c.core = i
			all = append(all, c)
		}
	}
	domains := s.domains(cores, all)
	shared := []Cache{}
	var third []domain
	for _, d := range domains {
		if d.CPUs.Size() > 1 {
			shared = append(shared, d.Cache)
		}
		if d.Level == 3 && d.Type != typeInstruction {
			third = append(third, d)
		}
	}
	return s.numberL3(cores, third), shared
}

// domains groups equal claims. Cores that name different sets are in different domains, even if the sets overlap: two
// cores share a cache only if both say so.
func (s *source) domains(cores []Core, all []claim) []domain {
	type key struct {
		level int
		kind  string
		cpus  cpuset.Set
	}
	at := map[key]int{}
	var domains []domain
	for _, c := range all {
		k := key{c.level, c.kind, c.cpus}
		i, ok := at[k]
		if !ok {
			i = len(domains)
			at[k] = i
			domains = append(domains, domain{Cache: Cache{Level: c.level, Type: c.kind}, claimed: c.cpus, dir: c.dir})
		}
		domains[i].CPUs = domains[i].CPUs.Union(cores[c.core].CPUs)
		domains[i].cores = append(domains[i].cores, c.core)
	}
	for _, d := range domains {
		if d.CPUs != d.claimed {
			s.notes.cpus(d.claimed, "contradictory lists of who shares a cache of level "+strconv.Itoa(d.Level)+", shared only where they agree")
		}
	}
	slices.SortFunc(domains, func(a, b domain) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Type, b.Type), a.CPUs.Compare(b.CPUs))
	})
	return domains
}

// numberL3 assigns ids to the L3 domains and sets them in the cores.
func (s *source) numberL3(cores []Core, domains []domain) []L3 {
	slices.SortFunc(domains, func(a, b domain) int { return a.CPUs.Compare(b.CPUs) })
	l3 := make([]L3, 0, len(domains))
	ids, unique := map[int]bool{}, true
	for _, d := range domains {
		id, ok := s.number(d.dir + "id")
		unique = unique && ok && id >= 0 && !ids[id]
		ids[id] = true
		l3 = append(l3, L3{ID: L3ID(id), CPUs: d.CPUs})
	}
	for i, d := range domains {
		if !unique {
			l3[i].ID = L3ID(i)
		}
		for _, core := range d.cores {
			cores[core].L3 = l3[i].ID
		}
	}
	return l3
}
