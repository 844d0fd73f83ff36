package topology

import (
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// usualIndexes is the number of cache indexes to try before any is known: level 1 for data and for instructions, level
// 2, level 3.
const usualIndexes = 4

// claim is the kernel's description of one cache at one core.
type claim struct {
	core  int // position in the slice of cores
	cpu   int // thread whose files were read
	dir   string
	index int
	level int
	kind  string
	cpus  cpuset.Set // online CPUs that share the cache
	known bool       // the kernel listed the CPUs
}

// cacheReader reads the caches of one core after the other. It reads level and type of a cache index once per layout
// (the number of caches and of the CPUs that share each). It checks the level of the last index on every core.
type cacheReader struct {
	src     *source
	online  cpuset.Set
	indexes int // largest number found on any core so far
	layouts map[string][]claim
}

// read returns the caches of one core, as listed for its first thread that has any.
func (r *cacheReader) read(core Core) []claim {
	for cpu := range core.CPUs.All() {
		found := r.indexesOf(cpu)
		if len(found) > 0 {
			return r.describe(found, core.CPUs)
		}
	}
	return nil
}

// indexesOf reads which CPUs share each cache index of a CPU. It tries every index that an earlier core had, so that a
// lost file makes no gap. Beyond these, it stops at the first index without a level.
func (r *cacheReader) indexesOf(cpu int) []claim {
	var found []claim
	expected := r.indexes
	if expected == 0 {
		expected = usualIndexes
	}
	for index := 0; ; index++ {
		dir := cpuPath(cpu, "cache/index"+strconv.Itoa(index)+"/")
		if index >= expected && !r.exists(dir) {
			return found
		}
		cpus, ok := r.src.set(dir+"shared_cpu_list", dir+"shared_cpu_map")
		if !ok && !r.exists(dir) {
			continue
		}
		found = append(found, claim{cpu: cpu, dir: dir, index: index, cpus: cpus.Intersect(r.online), known: ok})
		r.indexes = max(r.indexes, index+1)
	}
}

// exists reports whether a cache exists. Each cache has a level.
func (r *cacheReader) exists(dir string) bool {
	_, ok := r.src.text(dir + "level")
	return ok
}

// describe adds level and type to the claims, and drops caches without a level.
func (r *cacheReader) describe(found []claim, threads cpuset.Set) []claim {
	layout := layoutOf(found)
	last := len(found) - 1
	if known, ok := r.layouts[layout]; ok {
		level, _ := r.src.number(found[last].dir + "level")
		if level == known[last].level {
			for i := range found {
				found[i].level, found[i].kind = known[i].level, known[i].kind
			}
			return r.checked(found, threads)
		}
	}
	complete := true
	for i := range found {
		found[i].level, _ = r.src.number(found[i].dir + "level")
		found[i].kind, _ = r.src.text(found[i].dir + "type")
		complete = complete && found[i].level > 0 && isType(found[i].kind)
	}
	if complete {
		r.layouts[layout] = append([]claim(nil), found...)
	}
	return r.checked(found, threads)
}

// checked returns the usable claims and notes doubts. A core has one cache of each level and type; of several, checked
// uses the outermost.
func (r *cacheReader) checked(found []claim, threads cpuset.Set) []claim {
	type slot struct {
		level       int
		instruction bool
		data        bool
	}
	at := map[slot]int{}
	var checked []claim
	for _, c := range found {
		if c.level <= 0 {
			r.src.notes.cpus(threads, "a cache without a usable level, left out")
			continue
		}
		if c = r.settled(c, threads); c.cpus.IsEmpty() {
			continue
		}
		k := slot{level: c.level, instruction: c.kind == typeInstruction, data: c.kind == typeData && c.level < 3}
		if i, ok := at[k]; ok {
			r.src.notes.cpus(threads, "two caches of level "+strconv.Itoa(c.level)+", the outer one counts")
			checked[i] = c
			continue
		}
		at[k] = len(checked)
		checked = append(checked, c)
	}
	return checked
}

// settled returns the claim with a type and with sharers that include the core. A cache for only some threads of the
// core gets no CPUs below level 3; an L3 counts as the core's own. The kernel prints an empty map if it knows no
// sharers; then the cache is the core's own.
func (r *cacheReader) settled(c claim, threads cpuset.Set) claim {
	if !isType(c.kind) {
		r.src.notes.cpus(threads, "a cache without a usable type, taken as unified")
		c.kind = typeUnified
	}
	switch {
	case !c.known:
		r.src.notes.cpus(threads, "a cache without a usable list of sharers, taken as the core's own")
		c.cpus = threads
	case c.cpus.IsEmpty():
		c.cpus = threads
	case threads.IsSubsetOf(c.cpus):
	case !r.inside(c, threads):
		r.src.notes.cpus(threads, "not among the sharers of their own cache, taken as the core's own")
		c.cpus = threads
	case c.level < 3:
		c.cpus = cpuset.Set{}
	default: // cores are the smallest units that have an L3
		c.cpus = threads
	}
	return c
}

// inside reports whether the cache belongs to some threads of the core only. Virtual machines report this for every
// thread's level 1, and some real machines for groups of threads. Each thread with a list must be in its own list. That
// list must equal the claim's sharers or not overlap with them.
func (r *cacheReader) inside(c claim, threads cpuset.Set) bool {
	if !c.cpus.Contains(c.cpu) || !c.cpus.IsSubsetOf(threads) {
		return false
	}
	for cpu := range threads.Remove(c.cpu).All() {
		dir := cpuPath(cpu, "cache/index"+strconv.Itoa(c.index)+"/")
		said, ok := r.src.set(dir+"shared_cpu_list", dir+"shared_cpu_map")
		said = said.Intersect(r.online)
		if ok && (!said.Contains(cpu) || said != c.cpus && said.Intersects(c.cpus)) {
			return false
		}
	}
	return true
}

// layoutOf returns equal strings for cores with the same cache indexes and the same numbers of sharers.
func layoutOf(found []claim) string {
	var b strings.Builder
	for _, c := range found {
		b.WriteString(strconv.Itoa(c.index) + ":" + strconv.Itoa(c.cpus.Size()) + " ")
	}
	return b.String()
}

func isType(kind string) bool {
	return kind == typeData || kind == typeInstruction || kind == typeUnified
}
