package topology_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const machinesDir = "../../../testdata/machines"

var update = flag.Bool("update", false, "write generated machines and golden files")

// text returns the generated machine as a recording.
func (g generated) text() []byte {
	files := g.machine.files()
	if g.files != nil {
		g.files(files)
	}
	archive := &txtar.Archive{Comment: []byte(g.about + "\nGenerated: go generate ./internal/linux/topology\n\n")}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(files[name])})
	}
	return txtar.Format(archive)
}

// TestMachines discovers every machine of testdata/machines and compares it with NAME.golden.json beside it. To add a
// machine, put its capture there, run go generate, and read the golden file.
func TestMachines(t *testing.T) {
	for _, g := range catalog() {
		golden(t, filepath.Join(machinesDir, g.name+".txtar"), g.text())
	}
	for _, name := range machineFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			found := discover(t, open(t, name))
			data, err := json.MarshalIndent(found, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(name, ".txtar")+".golden.json", append(data, '\n'))
			checkInvariants(t, found)
			again, err := topology.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := diff(found, again); diff != "" || again.Hash() != found.Hash() {
				t.Errorf("through JSON (-before +after):\n%s", diff)
			}
		})
	}
}

// TestGeneratedMachinesAgainstTruth compares the discovered machine with the truth from which the files were generated,
// independently of the golden files.
func TestGeneratedMachinesAgainstTruth(t *testing.T) {
	for _, g := range catalog() {
		if !g.sound {
			continue
		}
		t.Run(g.name, func(t *testing.T) { checkTruth(t, g.machine, discover(t, parse(t, g.text()))) })
	}
}

func checkTruth(t *testing.T, m machine, found *topology.Topology) {
	t.Helper()
	if len(found.Warnings) > 0 {
		t.Errorf("warnings on a sound machine: %q", found.Warnings)
	}
	groups := map[string]func(cpu) int{
		"core":   func(c cpu) int { return c.core },
		"l3":     func(c cpu) int { return c.l3 },
		"socket": func(c cpu) int { return c.socket },
		"node":   func(c cpu) int { return c.node },
	}
	got := map[string]map[cpuset.Set]bool{"core": {}, "l3": {}, "socket": {}, "node": {}}
	for _, core := range found.Cores {
		got["core"][core.CPUs] = true
	}
	for _, domain := range found.L3 {
		got["l3"][domain.CPUs] = true
	}
	for _, socket := range found.Sockets {
		got["socket"][socket.CPUs] = true
	}
	for i, n := range found.Nodes {
		if int(n.ID) != m.nodes[i].id || n.MemoryBytes != int64(m.nodes[i].memoryKB)<<10 {
			t.Errorf("node %+v, want %+v", n, m.nodes[i])
		}
		if n.CPUs != m.where(groups["node"], m.nodes[i].id) {
			t.Errorf("node %d has CPUs %s", n.ID, n.CPUs)
		}
		for j, d := range n.Distances {
			if want := m.distance(m.nodes[i], m.nodes[j]); d != want {
				t.Errorf("distance from node %d to node %d is %d, want %d", n.ID, m.nodes[j].id, d, want)
			}
		}
	}
	for _, name := range []string{"core", "l3", "socket"} {
		want := map[cpuset.Set]bool{}
		for _, c := range m.cpus {
			if s := m.where(groups[name], groups[name](c)); groups[name](c) != none && !s.IsEmpty() {
				want[s] = true
			}
		}
		if !maps.Equal(got[name], want) {
			t.Errorf("%s: got %v, want %v", name, got[name], want)
		}
	}
}

// TestHardShapes states the essential facts of the unusual machines, so that an update of the golden files cannot lose
// them.
func TestHardShapes(t *testing.T) {
	get := func(name string) *topology.Topology {
		return discover(t, open(t, filepath.Join(machinesDir, name+".txtar")))
	}
	kinds := func(m *topology.Topology, kind topology.Kind) string {
		var cpus cpuset.Set
		for _, core := range m.Cores {
			if core.Kind == kind {
				cpus = cpus.Union(core.CPUs)
			}
		}
		return cpus.String()
	}
	smt4, off, contradict := get("smt4-sparse"), get("cpu0-off"), get("tables-contradict")
	claimAll, noPackage, careless := get("nodes-claim-all"), get("no-package"), get("careless-recording")
	for _, test := range []struct{ what, got, want string }{
		{"listed efficiency cores", kinds(get("hybrid-pe"), topology.KindEfficiency), "12-19"},
		{"listed performance cores", kinds(get("hybrid-pe"), topology.KindPerformance), "0-11"},
		{"efficiency cores by frequency", kinds(get("hybrid-frequency"), topology.KindEfficiency), "12-19"},
		{"one capacity is one kind", kinds(get("arm64-80c"), topology.KindSame), "0-79"},
		{"accelerator memory", nodeIDs(smt4), "0,8,252-255"},
		{"sparse distances", fmt.Sprint(smt4.Nodes[1].Distances), "[21 10 21 21 21 21]"},
		{"cores switched off", smt4.Offline.String(), "16-23"},
		{"CPUs and their node off", off.Offline.String() + " " + nodeIDs(off), "0-1,8-9 1-3"},
		{"a core without its lowest thread", get("careless-recording").Cores[3].CPUs.String(), "7"},
		{"no socket", fmt.Sprint(len(noPackage.Sockets), noPackage.Cores[0].Socket), "0 -1"},
		{"no NUMA directory", fmt.Sprint(noPackage.Nodes), "[{0 0-3 17179869184 0 [] [10]}]"},
		{"nodes that claim all are one", fmt.Sprint(claimAll.Nodes), "[{0 0-15 34359738368 0 [] [10]}]"},
		{"siblings stay right", contradict.Cores[0].CPUs.String() + " " + contradict.Cores[1].CPUs.String(), "0,8 1,9"},
		{"a doubtful L3 shrinks", l3s(contradict), "0,8 1-3,9-11 4-7,12-15"},
		{"the smaller node keeps a CPU", contradict.Nodes[0].CPUs.String(), "0-3,8-11"},
		{"isolated CPUs that exist", careless.Isolated.String(), "2-3"},
		{"own threads where the cache map is empty", caches(careless, 2), "0,4 1,5 2,6"},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %s, want %s", test.what, test.got, test.want)
		}
	}
	for _, name := range []string{"kvm-guest-2c", "vm-2s2n-smt", "vm-8n"} { // each thread has its own level 1 cache
		if m := get(name); len(m.Warnings) > 0 || caches(m, 1) != "" {
			t.Errorf("%s: warnings %q, level 1 shared by %s", name, m.Warnings, caches(m, 1))
		}
	}
	for _, name := range []string{"tables-contradict", "nodes-claim-all", "no-package", "careless-recording"} {
		if len(get(name).Warnings) == 0 {
			t.Errorf("%s: no warning", name)
		}
	}
}

func nodeIDs(m *topology.Topology) string {
	var ids cpuset.Set
	for _, n := range m.Nodes {
		ids = ids.Add(int(n.ID))
	}
	return ids.String()
}

func l3s(m *topology.Topology) string {
	var all []string
	for _, domain := range m.L3 {
		all = append(all, domain.CPUs.String())
	}
	return strings.Join(all, " ")
}

func caches(m *topology.Topology, level int) string {
	var all []string
	for _, c := range m.Caches {
		if c.Level == level {
			all = append(all, c.CPUs.String())
		}
	}
	return strings.Join(all, " ")
}

func TestDiscoverRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		tree fs.FS
		is   func(error) bool
	}{
		"an empty tree": {fstest.MapFS{}, func(err error) bool { return errors.Is(err, topology.ErrNoMachine) }},
		"all CPUs off": {
			fstest.MapFS{cpuPath + "cpu0/online": {Data: []byte("0\n")}},
			func(err error) bool { return errors.Is(err, topology.ErrNoMachine) },
		},
		"too many CPUs": {
			fstest.MapFS{cpuPath + "online": {Data: []byte("0-1024\n")}, cpuPath + "cpu1024/topology/core_id": {}},
			func(err error) bool { target := new(cpuset.RangeError); return errors.As(err, &target) },
		},
	} {
		if found, err := topology.Discover(test.tree); !test.is(err) || found != nil {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

// TestHashCountsOnlyPlaces checks which changes of a machine change the hash and thus make a placement stale.
func TestHashCountsOnlyPlaces(t *testing.T) {
	base := symmetric{2, 1, 2, 2, 2, false}
	change := func(edit func(*cpu)) machine {
		return base.machine().change(0, 15, func(_ int, c *cpu) { edit(c) })
	}
	bigger := base.machine()
	bigger.nodes[0].memoryKB *= 2
	bigger.distance = func(node, node) int { return 11 }
	hash := func(m machine) string { return discover(t, parse(t, generated{machine: m}.text())).Hash() }
	want := hash(base.machine())
	for name, m := range map[string]machine{
		"memory and distance": bigger,
		"capacity":            change(func(c *cpu) { c.capacity = 400 + c.core }),
		"numbers of the L3s":  change(func(c *cpu) { c.l3 = 90 - c.l3 }),
		"L2":                  change(func(c *cpu) { c.l2 = c.core / 2 }),
	} {
		if got := hash(m); got != want {
			t.Errorf("%s changes the hash", name)
		}
	}
	for name, m := range map[string]machine{
		"core":   change(func(c *cpu) { c.core ^= 1; c.core += c.l2 & 1 }),
		"L3":     change(func(c *cpu) { c.l3 /= 2 }),
		"socket": change(func(c *cpu) { c.socket = 1 - c.socket }),
		"node":   change(func(c *cpu) { c.node = 1 - c.node }),
		"online": base.machine().change(15, 15, func(_ int, c *cpu) { c.offline = true }),
	} {
		if got := hash(m); got == want {
			t.Errorf("%s does not change the hash", name)
		}
	}
}

// checkInvariants checks properties of every topology, even if its files were corrupt.
func checkInvariants(t reporter, m *topology.Topology) {
	t.Helper()
	var inCores cpuset.Set
	for i, core := range m.Cores {
		lowest, ok := core.CPUs.Min()
		if !ok || core.CPUs.Intersects(inCores) || int(core.ID) != lowest || core.CPUs.Size() > 8 {
			t.Errorf("core %+v is empty, shares a CPU, has a wrong id or is too large", core)
		}
		if i > 0 && m.Cores[i-1].ID >= core.ID {
			t.Errorf("core %d comes after core %d", core.ID, m.Cores[i-1].ID)
		}
		inCores = inCores.Union(core.CPUs)
	}
	if inCores != m.Online || m.Online.IsEmpty() || m.Offline.Intersects(m.Online) {
		t.Errorf("CPUs %s are in cores, %s are online, %s are offline", inCores, m.Online, m.Offline)
	}
	all := map[string][]cpuset.Set{}
	for _, n := range m.Nodes {
		all["node"] = append(all["node"], n.CPUs)
		if len(n.Distances) != len(m.Nodes) {
			t.Errorf("node %d has %d distances for %d nodes", n.ID, len(n.Distances), len(m.Nodes))
		}
	}
	for _, domain := range m.L3 {
		all["L3"] = append(all["L3"], domain.CPUs)
	}
	for _, s := range m.Sockets {
		all["socket"] = append(all["socket"], s.CPUs)
	}
	for _, d := range m.Dies {
		all["die"] = append(all["die"], d.CPUs)
	}
	for name, sets := range all {
		var taken cpuset.Set
		for _, s := range sets {
			if s.Intersects(taken) || !s.IsSubsetOf(m.Online) {
				t.Errorf("%s sets %v overlap or hold offline CPUs", name, sets)
			}
			taken = taken.Union(s)
			checkSplits(t, m, name, s)
		}
	}
}

// checkSplits finds cores that are only partly in a set. Only a node may split a core, and then there must be a
// warning.
func checkSplits(t reporter, m *topology.Topology, name string, s cpuset.Set) {
	t.Helper()
	for _, core := range m.Cores {
		if core.CPUs.Intersects(s) && !core.CPUs.IsSubsetOf(s) && (name != "node" || len(m.Warnings) == 0) {
			t.Errorf("core %s is partly in %s %s", core.CPUs, name, s)
		}
	}
}

// reporter is the common part of *testing.T and *rapid.T.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

func machineFiles(t reporter) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(machinesDir, "*.txtar"))
	if err != nil || len(names) < 8 {
		t.Fatal(machinesDir, "holds only", names, err)
	}
	return names
}

func open(t reporter, name string) *topology.Recording {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

func parse(t reporter, text []byte) *topology.Recording {
	t.Helper()
	r, err := topology.ParseRecording(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func discover(t reporter, tree fs.FS) *topology.Topology {
	t.Helper()
	found, err := topology.Discover(tree)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func diff(a, b *topology.Topology) string {
	return cmp.Diff(a, b, cmp.Comparer(func(a, b cpuset.Set) bool { return a == b }))
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; go generate ./internal/linux/topology writes it (-file +now):\n%s", name, cmp.Diff(string(want), string(got)))
	}
}
