package profile_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// machine is a recorded one: sockets, NUMA nodes and two threads a core.
func machine(t testing.TB, name string) *topology.Topology {
	t.Helper()
	text, err := os.ReadFile("../../../../testdata/machines/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	recording, err := topology.ParseRecording(text)
	if err != nil {
		t.Fatal(err)
	}
	m, err := topology.Discover(recording)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// parse makes a document of the spec's lines.
func parse(t testing.TB, name, spec string) (profile.Document, error) {
	t.Helper()
	text := "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: " + name + "}\nspec:\n" + spec
	file, err := manifest.ParseProfile(name+".yaml", []byte(text))
	return profile.Document{Profile: file.Profile, Locate: file.Locate}, err
}

// loader finds the documents of a map, then the built-in ones.
func loader(t testing.TB, specs map[string]string) profile.Load {
	return func(name string) (profile.Document, error) {
		if spec, ok := specs[name]; ok {
			return parse(t, name, spec)
		}
		text, ok := profile.BuiltIn(name)
		if !ok {
			return profile.Document{}, profile.ErrUnknown
		}
		file, err := manifest.ParseProfile(name, text)
		return profile.Document{Profile: file.Profile, Locate: file.Locate}, err
	}
}

// bind does all that a command does with a document.
func bind(t testing.TB, spec string, m *topology.Topology) (profile.Bound, error) {
	t.Helper()
	d, err := parse(t, "p", spec)
	if err != nil {
		return profile.Bound{}, err
	}
	whole, _, err := profile.Whole(d, loader(t, nil))
	if err != nil {
		return profile.Bound{}, err
	}
	return profile.Bind(whole, m)
}

// TestBadInput: the message names file, line, field, value and what is allowed.
func TestBadInput(t *testing.T) {
	for name, tt := range map[string]struct{ machine, spec, want string }{
		"unknown knob":       {"one-socket-6c", "  settings: {fair.slize: 3ms}", `p.yaml:5: field spec.settings[fair.slize]: value "3ms": allowed: only the knobs fair.slice,`},
		"no sysctl":          {"one-socket-6c", "  settings:\n    sysctl.kernel: 1", `p.yaml:6: field spec.settings[sysctl.kernel]: value "1": allowed: only the knobs`},
		"slice 0":            {"one-socket-6c", "  settings:\n    thp.enabled: never\n    fair.slice: 0", `p.yaml:7: field spec.settings[fair.slice]: value "0": allowed: a duration of 100us to 100ms`},
		"no unit of time":    {"one-socket-6c", "  settings: {fair.slice: 3000000}", `value "3000000": allowed: a duration of 100us to 100ms`},
		"value null":         {"one-socket-6c", "  settings: {fair.slice: null}", `field spec.settings[fair.slice]: missing: allowed: a value`},
		"value a list":       {"one-socket-6c", "  settings: {fair.slice: [1]}", `field spec.settings[fair.slice]: value [1]: allowed: a text, a number, true or false`},
		"unknown field":      {"one-socket-6c", "  settings:\n    fair.slice: {value: 3ms, optionel: true}", `p.yaml:6: field spec.settings[fair.slice].optionel: value true: allowed: only the fields optional, value`},
		"unit of no kind":    {"one-socket-6c", "  units:\n  - {unit: db, cpus: 0}", `p.yaml:6: field spec.units[0].unit: value "db": allowed: a systemd unit that ends in`},
		"sysctl by its name": {"one-socket-6c", "  settings: {vm.swappiness: 10}", `p.yaml:5: field spec.settings[vm.swappiness]: value "10": allowed: sysctl.vm.swappiness, which is that sysctl`},
		"sysctl of a knob":   {"one-socket-6c", "  settings:\n    sysctl.kernel.numa_balancing: some", `p.yaml:6: field spec.settings[sysctl.kernel.numa_balancing]: value "some": allowed: a whole number, as in the kernel's file; numa.balancing takes on, off, tiering`},
		"unit slice 0":       {"one-socket-6c", "  units:\n  - {unit: db.service, slice: 0s}", `p.yaml:6: field spec.units[0].slice: value "0s": allowed: a duration of 100us to 100ms`},
		"unit policy":        {"one-socket-6c", "  units: [{unit: db.service, policy: 'fifo:100'}]", `field spec.units[0].policy: value "fifo:100": allowed: other, batch, idle, fifo:1 to fifo:99`},
		"unit twice":         {"one-socket-6c", "  units: [{unit: a.service, cpus: '0'}, {unit: a.service, cpus: '1'}]", `field spec.units[1].unit: value "a.service": allowed: each unit only once`},
		"slice of real time": {"one-socket-6c", "  units: [{unit: a.service, policy: 'rr:1', slice: 1ms}]", `field spec.units[0].slice: value "1ms": only allowed with policy other or batch`},
		"unit without":       {"one-socket-6c", "  units: [{unit: a.service}]", `field spec.units[0]: value "a.service": allowed: at least one of cpus, mems, policy, slice`},
		"mems without cpus":  {"one-socket-6c", "  units: [{unit: a.service, mems: local}]", `field spec.units[0].mems: value "local": allowed: a list of NUMA nodes; local only with cpus`},
		"no such node":       {"one-socket-6c", "  cpus:\n    a: {numaNodes: '0-1'}", `p.yaml:6: field spec.cpus[a].numaNodes: value "0-1": allowed: NUMA nodes of this machine, 0`},
		"no such CPU":        {"one-socket-6c", "  cpus:\n    dpdk: {cpus: '160-191', partition: isolated}", `p.yaml:6: field spec.cpus[dpdk].cpus: value "160-191": allowed: online CPUs of this machine, 0-5; it has no 160-191`},
		"384 CPUs":           {"one-socket-6c", "  settings: {irq.affinity: 0-383}", `field spec.settings[irq.affinity]: value "0-383": allowed: online CPUs of this machine, 0-5; it has no 6-383`},
		"no such set":        {"one-socket-6c", "  settings: {irq.affinity: fast}", `field spec.settings[irq.affinity]: value "fast": allowed: a list of CPUs such as 0-3,8, or the name of a set`},
		"no list":            {"one-socket-6c", "  cpus: {a: {cpus: 1-}}", `field spec.cpus[a].cpus: value "1-": allowed: a list such as 0-3,8`},
		"empty set":          {"one-socket-6c", "  cpus:\n    a: {cpus: 0-5}\n    b: {without: [a]}", `p.yaml:7: field spec.cpus[b]: value "b": allowed: a set with at least one CPU`},
		"sets in a circle":   {"one-socket-6c", "  cpus:\n    a: {without: [b]}\n    b: {without: [a]}", `allowed: a set that is not itself without b`},
		"without itself":     {"one-socket-6c", "  cpus: {a: {without: [a]}}", `field spec.cpus[a].without[0]: value "a": allowed: the name of another set`},
		"without nothing":    {"one-socket-6c", "  cpus: {a: {without: [c]}}", `field spec.cpus[a].without[0]: value "c": allowed: the name of a set in spec.cpus: a`},
		"too many cores":     {"one-socket-6c", "  cpus: {a: {coresPerNUMANode: 7}}", `field spec.cpus[a].coresPerNUMANode: value "7": allowed: at most the 6 cores of NUMA node 0`},
		"no core":            {"one-socket-6c", "  cpus: {a: {coresPerNUMANode: 0}}", `field spec.cpus[a].coresPerNUMANode: value 0: allowed: 1 to`},
		"list and nodes":     {"one-socket-6c", "  cpus: {a: {cpus: '0', numaNodes: '0'}}", `field spec.cpus[a].cpus: value "0": allowed: only without numaNodes`},
		"partition":          {"one-socket-6c", "  cpus: {a: {partition: alone}}", `field spec.cpus[a].partition: value "alone": allowed: one of member, root, isolated`},
		"odd name":           {"one-socket-6c", "  cpus: {1-3: {}}", `field spec.cpus[1-3]: value "1-3": allowed: a name of lower-case letters`},
		"boot set":           {"one-socket-6c", "  boot: [nohz_full=$fast]", `field spec.boot[0]: value "nohz_full=$fast": allowed: $NAME with the name of a set`},
		"boot blank":         {"one-socket-6c", "  boot: ['quiet splash']", `field spec.boot[0]: value "quiet splash": allowed: one boot argument without blanks`},
		"one file twice":     {"one-socket-6c", "  settings: {fair.slice: 3ms, sysctl.kernel.sched_min_granularity_ns: 1}", `field spec.settings[sysctl.kernel.sched_min_granularity_ns]: value "1": allowed: only without fair.slice, which is the same file`},
		"inherits itself":    {"one-socket-6c", "  inherit: p", `p.yaml:5: field spec.inherit: value "p": allowed: a profile that does not inherit from this one: p -> p`},
		"no such parent":     {"one-socket-6c", "  inherit: nothing", `p.yaml:5: field spec.inherit: value "nothing": allowed: the name of a profile that berth tune list shows`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bind(t, tt.spec+"\n", machine(t, tt.machine))
			if !errors.Is(err, v1alpha1.ErrInvalid) || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// TestLocalMemoryThatIsNotThere: no memory is refused, and not left to the kernel.
func TestLocalMemoryThatIsNotThere(t *testing.T) {
	m := *machine(t, "one-socket-6c")
	m.Nodes = slices.Clone(m.Nodes)
	m.Nodes[0].MemoryBytes = 0
	_, err := bind(t, "  units: [{unit: a.service, cpus: '0', mems: local}]\n", &m)
	const want = `field spec.units[0].mems: value "local": allowed: a list of NUMA nodes: those of CPUs 0 have no memory`
	if !errors.Is(err, v1alpha1.ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestInherit: maps merge, the nearer entry counts, lists are replaced; a circle through a
// parent is refused, and a problem is located in the document that has it.
func TestInherit(t *testing.T) {
	load := loader(t, map[string]string{
		"top":    "  cpus: {a: {cpus: '0'}, b: {cpus: '1'}}\n  settings: {fair.slice: 3ms, thp.enabled: never}\n  units: [{unit: a.service, cpus: a}]\n  boot: [x, w]\n",
		"middle": "  inherit: top\n  settings: {fair.slice: 4ms}\n  boot: [z]\n",
		"round":  "  inherit: loop\n",
		"wrong":  "  settings: {fair.slice: 0}\n",
	})
	d, err := parse(t, "p", "  inherit: middle\n  cpus: {b: {cpus: '2'}}\n  settings: {fair.nrMigrate: 8}\n")
	if err != nil {
		t.Fatal(err)
	}
	whole, parents, err := profile.Whole(d, load)
	if err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.ProfileSpec{
		Inherit: "middle",
		CPUs:    map[string]v1alpha1.ProfileCPUs{"a": {CPUs: "0"}, "b": {CPUs: "2"}},
		Settings: map[string]v1alpha1.ProfileSetting{
			"fair.slice": {Value: "4ms"}, "thp.enabled": {Value: "never"}, "fair.nrMigrate": {Value: "8"},
		},
		Units: []v1alpha1.ProfileUnit{{Unit: "a.service", CPUs: "a"}},
		Boot:  []string{"z"},
	}
	if diff := cmp.Diff(want, whole.Spec); diff != "" || !slices.Equal(parents, []string{"middle", "top"}) {
		t.Errorf("%v %s", parents, diff)
	}
	for name, want := range map[string]string{
		"round": "loop.yaml:5: field spec.inherit: value \"round\": allowed: a profile that does not inherit from this one: loop -> round -> loop|round.yaml:5: field spec.inherit: value \"loop\": allowed: a profile that does not inherit from this one: loop -> round -> loop",
		"wrong": "wrong.yaml:5: field spec.settings[fair.slice]",
	} {
		d, err := parse(t, "loop", "  inherit: "+name+"\n")
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = profile.Whole(d, load)
		found := slices.ContainsFunc(strings.Split(want, "|"), func(text string) bool { return strings.Contains(fmt.Sprint(err), text) })
		if !errors.Is(err, v1alpha1.ErrInvalid) || !found {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBind: sets are whole cores by topology, and values that name one become lists.
func TestBind(t *testing.T) {
	m := machine(t, "two-socket-ht") // 2 nodes, cores N and N+16
	spec := `  cpus:
    housekeeping: {coresPerNUMANode: 1}
    fast: {numaNodes: "1", without: [housekeeping], partition: isolated}
  settings: {irq.affinity: housekeeping, irq.default: 0-1}
  units: [{unit: db.service, cpus: fast, mems: local, policy: "fifo:40"}, {unit: web.service, mems: "0"}]
  boot: ["nohz_full=$fast", "rcu_nocbs=$fast"]
`
	b, err := bind(t, spec, m)
	if err != nil {
		t.Fatal(err)
	}
	node := m.Nodes[1]
	first, _ := node.CPUs.Min()
	var core cpuset.Set
	for _, c := range m.Cores {
		if c.CPUs.Contains(first) {
			core = c.CPUs
		}
	}
	fast := b.Sets["fast"].CPUs
	if fast != node.CPUs.Difference(core) || !core.IsSubsetOf(b.Sets["housekeeping"].CPUs) {
		t.Errorf("sets: %v", b.Sets)
	}
	if b.Settings[0].Value.Text != b.Sets["housekeeping"].CPUs.String() || b.Settings[1].Value.Text != "0-1" {
		t.Errorf("settings: %+v", b.Settings)
	}
	if b.Units[0].CPUs != fast || b.Units[0].Mems.String() != "1" || b.Units[1].Mems.String() != "0" || !b.Units[1].CPUs.IsEmpty() {
		t.Errorf("units: %+v", b.Units)
	}
	if want := "nohz_full=" + fast.String(); b.Boot[0] != want {
		t.Errorf("boot: %q, want %q", b.Boot, want)
	}
}

// TestBuiltIn: the built-in profiles are valid, have the names of their files and fit
// machines of every kind that they are for.
func TestBuiltIn(t *testing.T) {
	for _, name := range profile.BuiltIns() {
		text, ok := profile.BuiltIn(name)
		if !ok || profile.About(text) == "" {
			t.Fatalf("%s: no text, or none about it", name)
		}
		d, err := loader(t, nil)(name)
		if err != nil || d.Name != name {
			t.Fatalf("%s: %q, %v", name, d.Name, err)
		}
		for _, on := range []string{"two-socket-ht", "ccx-nps4", "smt4-sparse", "kvm-guest-2c"} {
			whole, _, err := profile.Whole(d, loader(t, nil))
			if err != nil {
				t.Fatal(name, err)
			}
			b, err := profile.Bind(whole, machine(t, on))
			if name == "numa-services" && (on == "kvm-guest-2c" || on == "smt4-sparse") {
				if !errors.Is(err, v1alpha1.ErrInvalid) {
					t.Errorf("%s without a node 1: %v", name, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s on %s: %v", name, on, err)
			}
			for _, f := range profile.Lint(b, machine(t, on), knob.Facts{HZ: 250}, nil) {
				if f.Severity == profile.Warning && name != "hpc-sched" && f.Code != "no-such-unit" && f.Code != "no-housekeeping" {
					t.Errorf("%s on %s: %+v", name, on, f)
				}
			}
		}
	}
	entries, err := os.ReadDir("builtin")
	if err != nil || len(entries) != len(profile.BuiltIns()) {
		t.Errorf("%d files, %v", len(entries), err)
	}
}

// TestLint: each finding on a machine that has the fault, and none on a right profile.
func TestLint(t *testing.T) {
	facts := knob.Facts{
		HZ: 250, Systemd: true, Unified: "/sys/fs/cgroup", Units: map[string]bool{"db.service": true},
		NICs:    map[string]int{"eth0": 0},
		Sysctls: map[string]knob.SysctlLine{"/proc/sys/kernel/sched_rt_runtime_us": {File: "/etc/sysctl.d/9.conf", Line: 3, Value: "-1"}},
	}
	rt, _ := knob.Lookup("rt.runtime")
	survey := knob.Survey{"rt.runtime": {{File: rt.Places[0].File, Place: rt.Places[0]}}}
	for name, tt := range map[string]struct {
		spec string
		want string // codes, the warnings first
	}{
		"right":            {"  cpus: {h: {coresPerNUMANode: 1}, f: {numaNodes: '0', without: [h], partition: isolated}}\n  units: [{unit: db.service, cpus: f, mems: local, policy: 'fifo:40'}]\n  settings: {fair.slice: 6ms, irq.affinity: h}", ""},
		"split core":       {"  cpus: {a: {cpus: '2-3'}}", "split-core"},
		"split unit":       {"  units: [{unit: db.service, cpus: '2', mems: '0'}]", "split-core"},
		"other node":       {"  cpus: {a: {numaNodes: '0'}}\n  units: [{unit: db.service, cpus: a, mems: '1'}]", "numa-mismatch"},
		"half the memory":  {"  cpus: {a: {}}\n  units: [{unit: db.service, cpus: a, mems: '1'}]", "numa-mismatch"},
		"NIC elsewhere":    {"  cpus: {h: {coresPerNUMANode: 1}, a: {numaNodes: '1', without: [h], partition: isolated}}", "nic-remote"},
		"no housekeeping":  {"  cpus: {a: {numaNodes: '0', partition: isolated}}", "no-housekeeping"},
		"all isolated":     {"  cpus: {a: {partition: isolated}}", "all-isolated"},
		"FIFO 99":          {"  units: [{unit: db.service, policy: 'fifo:99'}]", "fifo-99"},
		"FIFO 50":          {"  units: [{unit: db.service, policy: 'fifo:50'}]", "fifo-50"},
		"no such unit":     {"  units: [{unit: service.slice, policy: batch}]", "no-such-unit"},
		"set back":         {"  settings: {rt.runtime: 950ms}", "sysctl-d"},
		"harmful":          {"  settings: {fair.migrationCost: 8ms}", "harmful"},
		"harmful, sysctl":  {"  settings: {sysctl.kernel.sched_migration_cost_ns: 8000000}", "harmful"},
		"harmful, RT":      {"  settings: {sysctl.kernel.sched_rt_runtime_us: -1}", "harmful"},
		"less than a tick": {"  settings: {fair.slice: 1ms}", "tick"},
		"long slice":       {"  settings: {fair.slice: 50ms}", "unadvised"},
		"RR tick":          {"  settings: {rr.slice: 1ms}", "tick"},
		"numa off":         {"  settings: {numa.balancing: 'off'}", "numa-balancing"},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine(t, "two-socket-ht")
			b, err := bind(t, tt.spec+"\n", m)
			if err != nil {
				t.Fatal(err)
			}
			var codes []string
			for _, f := range profile.Lint(b, m, facts, survey) {
				codes = append(codes, f.Code)
			}
			if got := strings.Join(codes, " "); got != tt.want {
				t.Errorf("%q, want %q: %+v", got, tt.want, profile.Lint(b, m, facts, survey))
			}
		})
	}
	b, err := bind(t, "  units: [{unit: db.service, policy: batch}]\n", machine(t, "two-socket-ht"))
	if err != nil {
		t.Fatal(err)
	}
	for code, facts := range map[string]knob.Facts{
		"cgroup-v1":    {Systemd: true, Units: map[string]bool{"db.service": true}},
		"no-such-unit": {},
	} {
		if found := profile.Lint(b, machine(t, "two-socket-ht"), facts, nil); len(found) != 1 || found[0].Code != code {
			t.Errorf("%s: %+v", code, found)
		}
	}
}

// TestSetsAreWholeCores: by topology a set never splits a core, whatever machine it is on,
// and sets without each other do not overlap.
func TestSetsAreWholeCores(t *testing.T) {
	machines := []string{"two-socket-ht", "ccx-nps4", "smt4-sparse", "vm-8n", "arm64-80c", "hybrid-pe", "memory-only-node"}
	rapid.Check(t, func(rt *rapid.T) {
		m := machine(t, rapid.SampledFrom(machines).Draw(rt, "machine"))
		cores := rapid.IntRange(1, 3).Draw(rt, "cores")
		b, err := bind(t, fmt.Sprintf("  cpus: {h: {coresPerNUMANode: %d}, f: {without: [h]}}\n", cores), m)
		if err != nil {
			return // too small
		}
		h, f := b.Sets["h"].CPUs, b.Sets["f"].CPUs
		if h.Intersects(f) || h.Union(f) != m.Online {
			rt.Fatalf("%s and %s of %s", h, f, m.Online)
		}
		for _, c := range m.Cores {
			if c.CPUs.Intersects(h) && !c.CPUs.IsSubsetOf(h) {
				rt.Fatalf("core %s is split by %s", c.CPUs, h)
			}
		}
	})
}

// TestSchema: the schema has every field of the types and every knob.
func TestSchema(t *testing.T) {
	spec := profile.Schema()["properties"].(map[string]any)["spec"].(map[string]any)["properties"].(map[string]any)
	want := []string{"boot", "cpus", "inherit", "settings", "units"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(spec))); diff != "" {
		t.Error(diff)
	}
	settings := spec["settings"].(map[string]any)["properties"].(map[string]any)
	for _, name := range knob.Names() {
		if settings[name] == nil {
			t.Errorf("the schema lacks %s", name)
		}
	}
	unit := spec["units"].(map[string]any)["items"].(map[string]any)
	if diff := cmp.Diff([]string{"unit"}, unit["required"]); diff != "" {
		t.Error(diff)
	}
}
