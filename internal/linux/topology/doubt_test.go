package topology_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/linux/topology"
)

// view returns the part of a topology that a case checks, as text.
type view func(*topology.Topology) string

func coresOf(m *topology.Topology) string {
	var all []string
	for _, core := range m.Cores {
		all = append(all, core.CPUs.String())
	}
	return strings.Join(all, " ")
}

func firsts(m *topology.Topology) string { return caches(m, 1) }

func kindsOf(m *topology.Topology) string {
	var all []string
	for _, core := range m.Cores {
		all = append(all, fmt.Sprintf("%.1s", string(core.Kind)+"-"))
	}
	return strings.Join(all, "")
}

func diesOf(m *topology.Topology) string {
	var all []string
	for _, die := range m.Dies {
		all = append(all, fmt.Sprintf("%d.%d:%s", die.Socket, die.ID, die.CPUs))
	}
	return strings.Join(all, " ")
}

func nodesOf(m *topology.Topology) string {
	var all []string
	for _, n := range m.Nodes {
		all = append(all, fmt.Sprintf("%d:%s%v", n.ID, n.CPUs, n.Distances))
	}
	return strings.Join(all, " ")
}

// TestDoubts checks one contradiction or oddity per case, on a machine of eight CPUs: two sockets of two cores with two
// threads, where CPUs n and n+4 form a core.
func TestDoubts(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(f map[string]string)
		view view
		want string
		warn string // part of a warning, "" for none at all
	}{
		{"nothing wrong", func(map[string]string) {}, coresOf, "0,4 1,5 2,6 3,7", ""},
		{"one denies, ids agree", put("cpu/cpu4/topology/thread_siblings_list", "4"), coresOf, "0,4 1,5 2,6 3,7", "contradictory thread siblings"},
		{"one claims a stranger", put("cpu/cpu0/topology/thread_siblings_list", "0,4,6"), coresOf, "0,4 1,5 2,6 3,7", "contradictory thread siblings"},
		{"one denies, no ids", all(put("cpu/cpu4/topology/thread_siblings_list", "4"), drop("cpu/cpu4/topology/core_id")), coresOf, "0 1,5 2,6 3,7 4", "contradictory thread siblings"},
		{"a chain of siblings", chain("0-1", "0-2", "1-3", "2-3"), coresOf, "0 1 2 3 4 5 6 7", "CPUs 0-3: contradictory thread siblings"},
		{"a chain of siblings with ids", all(chain("0-1", "0-2", "1-3", "2-3"), ids(7, 7, 8, 8)), coresOf, "0-1 2-3 4 5 6 7", "CPUs 0-3: contradictory thread siblings"},
		{"a chain of siblings with ids of its ends", all(chain("0-1", "0-2", "1-3", "2-3"), ids(7, 8, 9, 7)), coresOf, "0 1 2 3 4 5 6 7", "CPUs 0-3: contradictory thread siblings"},
		{"a circle of siblings", all(chain("0-1,3", "0-2", "1-3", "0,2-3"), ids(7, 7, 7, 7)), coresOf, "0 1 2 3 4 5 6 7", "CPUs 0-3: contradictory thread siblings"},
		{"one silent", drop("cpu/cpu4/topology/thread_siblings_list"), coresOf, "0,4 1,5 2,6 3,7", "decided by the lists of the siblings"},
		{"both silent", all(drop("cpu/cpu0/topology/thread_siblings_list"), drop("cpu/cpu4/topology/thread_siblings_list")), coresOf, "0 1,5 2,6 3,7 4", "taken as cores of one thread"},
		{"not its own sibling", put("cpu/cpu4/topology/thread_siblings_list", "1"), coresOf, "0,4 1,5 2,6 3,7", "CPUs 4:"},
		{"newer name of the list", rename("thread_siblings_list", "core_cpus_list"), coresOf, "0,4 1,5 2,6 3,7", ""},
		{"online but not present", put("cpu/online", "0-9"), coresOf, "0,4 1,5 2,6 3,7", "CPUs 8-9: listed as online"},
		{"sibling is off", all(put("cpu/online", "0-6"), drop("cpu/cpu7/topology/thread_siblings_list")), coresOf, "0,4 1,5 2,6 3", ""},
		{"overlapping die lists", put("cpu/cpu0/topology/die_cpus_list", "0-7"), diesOf, "0.0:0-1,4-5 1.0:2-3,6-7", ""},
		{"die lists that differ", put("cpu/cpu0/topology/die_cpus_list", "0,4"), diesOf, "0.0:0-1,4-5 1.0:2-3,6-7", "joined by die id"},
		{"one stranger in an L3", put("cpu/cpu0/cache/index3/shared_cpu_list", "0-1,3-5"), l3s, "0,4 1,5 2-3,6-7", "cache of level 3"},
		{"an L3 without its core", put("cpu/cpu0/cache/index3/shared_cpu_list", "1"), l3s, "0,4 1,5 2-3,6-7", "not among the sharers"},
		{"a level 1 for each thread", put("cpu/cpu0/cache/index0/shared_cpu_list", "0", "cpu/cpu4/cache/index0/shared_cpu_list", "4"), firsts, "1,5 2,6 3,7 0,4 1,5 2,6 3,7", ""},
		{"a level 1 for one thread of two", put("cpu/cpu0/cache/index0/shared_cpu_list", "0"), firsts, "0,4 1,5 2,6 3,7 0,4 1,5 2,6 3,7", "CPUs 0,4: not among the sharers"},
		{"a level 1 that misses its thread", put("cpu/cpu0/cache/index0/shared_cpu_list", "0", "cpu/cpu4/cache/index0/shared_cpu_list", "1"), firsts, "0,4 1,5 2,6 3,7 0,4 1,5 2,6 3,7", "CPUs 0,4: not among the sharers"},
		{"an L3 for each thread", put("cpu/cpu0/cache/index3/shared_cpu_list", "0", "cpu/cpu4/cache/index3/shared_cpu_list", "4"), l3s, "0,4 1,5 2-3,6-7", "cache of level 3"},
		{"an L3 without a list", drop("cpu/cpu0/cache/index3/shared_cpu_list"), l3s, "0,4 1,5 2-3,6-7", "without a usable list of sharers"},
		{"two caches of level 3", put("cpu/cpu0/cache/index2/level", "3"), l3s, "0-1,4-5 2-3,6-7", "two caches of level 3"},
		{"no level", put("cpu/cpu0/cache/index3/level", "x"), l3s, "1,5 2-3,6-7", "without a usable level"},
		{"no type", put("cpu/cpu0/cache/index3/type", "Mystery"), l3s, "0-1,4-5 2-3,6-7", "without a usable type"},
		{"a level 3 for instructions", put("cpu/cpu0/cache/index2/level", "3", "cpu/cpu0/cache/index2/type", "Instruction"), l3s, "0-1,4-5 2-3,6-7", ""},
		{"first cache lost", drop("cpu/cpu0/cache/index0/level"), l3s, "0-1,4-5 2-3,6-7", "without a usable level"},
		{"same sharing, other level", put("cpu/cpu3/cache/index3/level", "4", "cpu/cpu7/cache/index3/level", "4"), l3s, "0-1,4-5 2,6", "cache of level"},
		{"nobody lists a CPU", put("node/node0/cpulist", "0,4"), nodesOf, "0:0,4[10 21] 1:2-3,6-7[21 10]", "CPUs 1,5: listed by no NUMA node"},
		{"a core in two nodes", put("node/node0/cpulist", "0-1,4", "node/node1/cpulist", "2-3,5-7"), nodesOf, "0:0-1,4[10 21] 1:2-3,5-7[21 10]", "CPUs 1,5: threads of one core in different NUMA nodes"},
		{"a node claims too much", put("node/node0/cpulist", "0-7"), nodesOf, "0:0-1,4-5[10 21] 1:2-3,6-7[21 10]", "claimed by several"},
		{"two of two nodes claim all", put("node/node0/cpulist", "0-7", "node/node1/cpulist", "0-7"), nodesOf, "0:0-7[10]", "NUMA nodes 0-1 claim the same CPUs 0-7"},
		{"a distance is no number", put("node/node1/distance", "21 x"), nodesOf, "0:0-1,4-5[10 21] 1:2-3,6-7[20 10]", "assuming 10"},
		{"slow cores of two sockets", frequencies(3_000_000, 2_000_000), kindsOf, "----", ""},
		{"slow cores by capacity", put("cpu/cpu0/cpu_capacity", "1024", "cpu/cpu1/cpu_capacity", "1000", "cpu/cpu2/cpu_capacity", "446", "cpu/cpu3/cpu_capacity", "446"), kindsOf, "ppee", ""},
		{"half a capacity table", put("cpu/cpu0/cpu_capacity", "1024", "cpu/cpu1/cpu_capacity", "400"), kindsOf, "----", ""},
		{"listed kinds overlap", put("cpu_core", "0-1,4-5", "cpu_atom", "1-3,5-7"), kindsOf, "----", "listed as performance and as efficiency"},
		{"only one listed kind", put("cpu_core", "0-7"), kindsOf, "----", ""},
		{"threads of different kinds", put("cpu_core", "0-2,4-6", "cpu_atom", "3,7"), kindsOf, "pppe", ""},
		{"one thread of each kind", put("cpu_core", "0-6", "cpu_atom", "7"), kindsOf, "pppp", "threads of one core of different kinds"},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := symmetric{2, 1, 1, 2, 2, false}.machine().files()
			test.edit(files)
			found := discover(t, parse(t, generated{files: func(f map[string]string) { clear(f); maps.Copy(f, files) }}.text()))
			checkInvariants(t, found)
			if got := test.view(found); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			warnings := strings.Join(found.Warnings, "\n")
			if test.warn == "" && warnings != "" || !strings.Contains(warnings, test.warn) {
				t.Errorf("warnings %q, want %q", warnings, test.warn)
			}
		})
	}
}

// TestDiesOfOneSocketStayApart checks two dies of which the second lists the CPUs of the first.
func TestDiesOfOneSocketStayApart(t *testing.T) {
	m := symmetric{1, 2, 1, 2, 2, false}.machine().change(0, 7, func(_ int, c *cpu) { c.die = c.node })
	found := discover(t, parse(t, generated{machine: m, files: put("cpu/cpu2/topology/die_cpus_list", "0-7")}.text()))
	checkInvariants(t, found)
	if got, want := diesOf(found), "0.0:0-1,4-5 0.1:2-3,6-7"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestTooManySiblings checks a machine on which every CPU lists all CPUs as siblings. The core ids decide, if they are
// plausible.
func TestTooManySiblings(t *testing.T) {
	for _, test := range []struct{ ids, want string }{
		{"kept", "0,8 1,9 2,10 3,11 4,12 5,13 6,14 7,15"},
		{"lost", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"},
		{"equal", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"},
	} {
		files := symmetric{1, 1, 1, 8, 2, false}.machine().files()
		for name := range files {
			switch {
			case strings.HasSuffix(name, "/thread_siblings_list"):
				files[name] = "0-15\n"
			case strings.HasSuffix(name, "/core_id") && test.ids == "lost":
				delete(files, name)
			case strings.HasSuffix(name, "/core_id") && test.ids == "equal":
				files[name] = "0\n"
			}
		}
		found := discover(t, parse(t, generated{files: func(f map[string]string) { clear(f); maps.Copy(f, files) }}.text()))
		checkInvariants(t, found)
		if got := coresOf(found); got != test.want || len(found.Warnings) == 0 {
			t.Errorf("core ids %s: got %s, want %s; warnings %q", test.ids, got, test.want, found.Warnings)
		}
	}
}

// put sets files, given as name and content; names in the CPU, node and hybrid directories are abbreviated.
func put(pairs ...string) func(map[string]string) {
	return func(f map[string]string) {
		for i := 0; i < len(pairs); i += 2 {
			f[long(pairs[i])] = pairs[i+1] + "\n"
		}
	}
}

// chain gives the first four CPUs the given lists of siblings, and each of the other CPUs only itself.
func chain(lists ...string) func(map[string]string) {
	return func(f map[string]string) {
		for cpu := range 8 {
			list := fmt.Sprint(cpu)
			if cpu < len(lists) {
				list = lists[cpu]
			}
			put(fmt.Sprintf("cpu/cpu%d/topology/thread_siblings_list", cpu), list)(f)
			put(fmt.Sprintf("cpu/cpu%d/topology/core_id", cpu), fmt.Sprint(cpu))(f)
			put(fmt.Sprintf("cpu/cpu%d/topology/physical_package_id", cpu), "0")(f)
		}
	}
}

// ids sets the core ids of the first CPUs.
func ids(core ...int) func(map[string]string) {
	return func(f map[string]string) {
		for cpu, id := range core {
			put(fmt.Sprintf("cpu/cpu%d/topology/core_id", cpu), fmt.Sprint(id))(f)
		}
	}
}

func drop(name string) func(map[string]string) {
	return func(f map[string]string) { delete(f, long(name)) }
}

func all(edits ...func(map[string]string)) func(map[string]string) {
	return func(f map[string]string) {
		for _, edit := range edits {
			edit(f)
		}
	}
}

func rename(from, to string) func(map[string]string) {
	return func(f map[string]string) {
		for name, text := range f {
			if dir, ok := strings.CutSuffix(name, from); ok {
				delete(f, name)
				f[dir+to] = text
			}
		}
	}
}

// frequencies sets the frequencies of the cores of the first and of the second socket.
func frequencies(first, second int) func(map[string]string) {
	return func(f map[string]string) {
		for cpu := range 8 {
			kHz := first
			if cpu%4 >= 2 {
				kHz = second
			}
			f[fmt.Sprintf(cpuPath+"cpu%d/cpufreq/cpuinfo_max_freq", cpu)] = fmt.Sprintln(kHz)
		}
	}
}

func long(name string) string {
	if name == "cpu_core" || name == "cpu_atom" {
		return "sys/devices/" + name + "/cpus"
	}
	return "sys/devices/system/" + name
}
