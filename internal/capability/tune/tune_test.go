package tune_test

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/linux/topology"
)

// host returns a recorded kernel.
func host(t testing.TB, name string) (*knob.Host, *topology.Topology) {
	t.Helper()
	text, err := os.ReadFile("../../../testdata/kernels/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := topology.ParseRecording(text)
	if err != nil {
		t.Fatal(err)
	}
	m, err := topology.Discover(tree)
	if err != nil {
		t.Fatal(err)
	}
	return knob.Open(tree), m
}

// parsed returns a profile given as YAML, with the profiles that it inherits.
func parsed(t testing.TB, text string) profile.Document {
	t.Helper()
	file, err := manifest.ParseProfile("p", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	whole, _, err := profile.Whole(profile.Document{Profile: file.Profile}, func(name string) (profile.Document, error) {
		parent, _ := profile.BuiltIn(name)
		file, err := manifest.ParseProfile(name, parent)
		return profile.Document{Profile: file.Profile}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// bound returns a profile given as YAML, bound to a recorded kernel.
func bound(t testing.TB, text string, m *topology.Topology) profile.Bound {
	t.Helper()
	b, err := profile.Bind(parsed(t, text), m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// made returns the plan of a bound profile.
func made(h *knob.Host, b profile.Bound, facts knob.Facts) tune.Plan {
	all := tune.Host{Survey: h.Survey(tune.Knobs(b)), Facts: facts, Elsewhere: map[string]knob.Elsewhere{}, Boot: tune.Boot{Cmdline: facts.Cmdline}}
	for _, m := range knob.MovedSysctls() {
		all.Elsewhere[m.Sysctl] = h.Elsewhere(m)
	}
	return tune.Make(b, all, nil)
}

// gone returns, for the lines of hpc-sched whose sysctl a kernel does not have, what the plan must say instead.
func gone(major, minor int) map[string]string {
	const sched = "/sys/kernel/debug/sched/"
	since := func(a, b int) bool { return major > a || major == a && minor >= b }
	switch all := map[string]string{
		"latency_ns":            "instead fair.latency (" + sched + "latency_ns)",
		"min_granularity_ns":    "instead fair.slice (" + sched + "min_granularity_ns)",
		"wakeup_granularity_ns": "instead fair.wakeupGranularity (" + sched + "wakeup_granularity_ns)",
		"migration_cost_ns":     "instead fair.migrationCost (" + sched + "migration_cost_ns)",
		"nr_migrate":            "instead fair.nrMigrate (" + sched + "nr_migrate)",
	}; {
	case since(6, 6):
		all["latency_ns"] = "instead nothing: the fair class has no latency target any more; fair.slice sets its slice"
		all["min_granularity_ns"] = "instead fair.slice (" + sched + "base_slice_ns)"
		all["wakeup_granularity_ns"] = "instead policy batch for units that may wait; a slice per unit on Linux 6.12 and newer"
		return all
	case since(5, 13):
		return all
	}
	return nil
}

// rightLines checks for each line of hpc-sched that the plan says whether its key exists on a kernel, and what replaces
// it otherwise.
func rightLines(t *testing.T, h *knob.Host, m *topology.Topology, gone map[string]string) {
	t.Helper()
	text, _ := profile.BuiltIn("hpc-sched")
	p := made(h, bound(t, string(text), m), knob.Facts{})
	if len(p.Settings) != 7 {
		t.Fatalf("%d settings", len(p.Settings))
	}
	for _, s := range p.Settings {
		key := strings.TrimPrefix(s.Knob, "sysctl.kernel.sched_")
		want := gone[key]
		if want == "" {
			if s.Support != knob.Settable || s.Now == "" || s.File != "/proc/sys/kernel/sched_"+key {
				t.Errorf("%s: %+v, want settable", key, s)
			}
		} else if s.Support != knob.Absent || s.File != "" || s.Why != "no sysctl since Linux 5.13; "+want {
			t.Errorf("%s: %s %q, want %q", key, s.Support, s.Why, want)
		}
	}
}

// TestSeedPlan checks the lines of hpc-sched on recorded kernels; TestLiveSeed checks the running kernel.
func TestSeedPlan(t *testing.T) {
	for kernel, version := range map[string][2]int{"5.10": {5, 10}, "6.1": {6, 1}, "6.12": {6, 12}, "6.18": {6, 18}, "7.2": {7, 2}} {
		t.Run(kernel, func(t *testing.T) {
			h, m := host(t, kernel)
			rightLines(t, h, m, gone(version[0], version[1]))
		})
	}
}

// TestImportLeavesOutWhatApplyRefuses checks that an imported profile omits a sysctl that apply refuses because nothing
// could restore it.
func TestImportLeavesOutWhatApplyRefuses(t *testing.T) {
	h := knob.Open(writeOnly{fstest.MapFS{
		"proc/sys/vm/compact_memory": {Data: []byte("0\n"), Mode: 0o200}, "proc/sys/vm/swappiness": {Data: []byte("60\n"), Mode: 0o644},
	}})
	got := tune.Read("x.conf", "vm.compact_memory = 1\nvm.swappiness = 10\n", h, nil)
	if l := got.Lines[0]; l.Verdict != tune.Unknown || !strings.Contains(l.Why, "berth tune apply refuses it: the kernel has the file for writing only") {
		t.Errorf("line %+v", l)
	}
	if _, kept := got.Profile.Spec.Settings["sysctl.vm.compact_memory"]; kept || len(got.Profile.Spec.Settings) != 1 {
		t.Errorf("settings %v", got.Profile.Spec.Settings)
	}
}

// writeOnly is a tree in which write-only files cannot be read, not even by root.
type writeOnly struct{ fstest.MapFS }

func (w writeOnly) Open(name string) (fs.File, error) {
	if f := w.MapFS[name]; f != nil && f.Mode&0o444 == 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EACCES}
	}
	return w.MapFS.Open(name)
}

// ReadFile refuses the files that Open refuses.
func (w writeOnly) ReadFile(name string) ([]byte, error) {
	f, err := w.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// TestSeedImport checks the verdicts on the two files of the seed on each kernel, and the resulting profile.
func TestSeedImport(t *testing.T) {
	for kernel, tt := range map[string]struct{ sysctls, tuned, settings string }{
		"5.10": {
			"kept kept kept harmful kept kept kept",
			"unknown translated dead kept kept kept harmful",
			"sysctl.kernel.sched_autogroup_enabled=0 sysctl.kernel.sched_latency_ns=4000000 sysctl.kernel.sched_min_granularity_ns=1000000 sysctl.kernel.sched_nr_migrate=64 sysctl.kernel.sched_rr_timeslice_ms=1 sysctl.kernel.sched_wakeup_granularity_ns=250000",
		},
		"6.1": {
			"translated 5.13,translated 5.13,translated 5.13,harmful,translated 5.13,kept,kept",
			"unknown translated dead,translated 5.13,translated 5.13,translated 5.13,harmful",
			"fair.latency=4ms fair.nrMigrate=64 fair.slice=1ms fair.wakeupGranularity=250us sysctl.kernel.sched_autogroup_enabled=0 sysctl.kernel.sched_rr_timeslice_ms=1",
		},
		"6.12": {
			"dead 6.6,translated 5.13,dead 6.6,harmful,translated 5.13,kept,kept",
			"unknown translated dead,dead 6.6,translated 5.13,dead 6.6,harmful",
			"fair.nrMigrate=64 fair.slice=1ms sysctl.kernel.sched_autogroup_enabled=0 sysctl.kernel.sched_rr_timeslice_ms=1",
		},
		"7.2": {
			"dead 6.6,translated 5.13,dead 6.6,harmful,translated 5.13,kept,kept",
			"unknown translated dead,dead 6.6,translated 5.13,dead 6.6,harmful",
			"fair.nrMigrate=64 fair.slice=1ms sysctl.kernel.sched_autogroup_enabled=0 sysctl.kernel.sched_rr_timeslice_ms=1",
		},
	} {
		t.Run(kernel, func(t *testing.T) {
			h, _ := host(t, kernel)
			sysctls := imported(t, h, "95-scheduler.conf", nil)
			tuned := imported(t, h, "tuned.conf", nil)
			for want, got := range map[string]tune.Import{tt.sysctls: sysctls, tt.tuned: tuned} {
				var verdicts []string
				for _, l := range got.Lines {
					verdicts = append(verdicts, strings.TrimSpace(string(l.Verdict)+" "+l.Since))
				}
				words := strings.Fields(strings.ReplaceAll(want, ",", " "))
				if diff := cmp.Diff(words, strings.Fields(strings.Join(verdicts, " "))); diff != "" {
					t.Error(diff)
				}
			}
			if got := settings(sysctls.Profile); got != tt.settings {
				t.Errorf("profile %s", got)
			}
		})
	}
}

// imported reads a file of testdata.
func imported(t *testing.T, h *knob.Host, name string, include tune.Include) tune.Import {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return tune.Read("/etc/tuned/hpc-sched/"+name, string(text), h, include)
}

func settings(p v1alpha1.Profile) string {
	var all []string
	for name, s := range p.Spec.Settings {
		text := fmt.Sprintf("%s=%s", name, s.Value)
		if s.Optional {
			text += "?"
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestTuned checks how Berth translates the options of each TuneD plug-in.
func TestTuned(t *testing.T) {
	files := map[string]string{
		"base":  "[main]\nsummary=text\ninclude=loop\n[vm]\ntransparent_hugepages=never\n",
		"loop":  "[main]\ninclude=base\n",
		"other": "[sysctl]\nkernel.numa_balancing=0\n",
	}
	include := func(name string) (string, string, bool) {
		text, ok := files[name]
		return "/usr/lib/tuned/" + name + "/tuned.conf", text, ok
	}
	for name, tt := range map[string]struct {
		text string
		want string // verdict of each line
		set  string // the profile's settings, sets and boot arguments
	}{
		"include":          {"[main]\ninclude=base,other;none", "translated kept translated unknown translated translated kept unknown", "sysctl.kernel.numa_balancing=0 thp.enabled=never"},
		"variables":        {"[variables]\nslice=1000000\nall=${slice}\n[scheduler]\nsched_min_granularity_ns=${all}", "translated translated translated", "fair.slice=1ms"},
		"no such variable": {"[scheduler]\nsched_min_granularity_ns=${slice}", "unknown", ""},
		"function":         {"[variables]\na=${f:exec:touch:/tmp/x}\n[bootloader]\ncmdline=isolcpus=${a}", "unknown unknown", ""},
		"script":           {"[script]\nscript=run.sh", "unknown", ""},
		"condition":        {"[sysctl]\nkernel.numa_balancing = >0", "unknown", ""},
		"isolated":         {"[scheduler]\nisolated_cores=2-3", "translated", "isolated=2-3 isolated"},
		"isolated nothing": {"[scheduler]\nisolated_cores=", "unknown", ""},
		"boot":             {"[bootloader]\ncmdline_x=+nohz_full=2-3 quiet\ncmdline_y=-quiet", "translated unknown", "boot=nohz_full=2-3 quiet"},
		"first that fits":  {"[vm]\ntransparent_hugepage.defrag=nonsense|madvise\ntransparent_hugepages=nonsense", "unknown unknown", ""},
		"latency":          {"[cpu]\nforce_latency=1\npm_qos_resume_latency_us=n/a\nforce_latency=cstate.id:1|3", "translated translated unknown", "cpu.resumeLatency=none"},
		"sysfs":            {"[sysfs]\n/sys/kernel/mm/transparent_hugepage/enabled=never\n/sys/x=1", "translated unknown", "thp.enabled=never"},
		"no such hardware": {"[cpu]\ngovernor=performance|schedutil\nenergy_performance_preference=power", "translated translated", "cpu.epp=power? cpu.governor=performance?"},
		"type":             {"[a]\ntype=sysctl\nkernel.numa_balancing=1", "kept kept", "sysctl.kernel.numa_balancing=1"},
		"no assignment":    {"[sysctl]\nkernel.x", "unknown", ""},
		"comments":         {"# a\n; b\n[sysctl]\n\n", "", ""},
		"other plug-in":    {"[disk]\nreadahead=4096", "unknown", ""},
		"threads":          {"[scheduler]\ngroup.a=0:f:1:*:^a$\nps_whitelist=b", "unknown unknown", ""},
		"no number":        {"[scheduler]\nsched_min_granularity_ns=abc", "unknown", ""},
		"slice 0":          {"[scheduler]\nsched_min_granularity_ns=0", "harmful", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := host(t, "6.12")
			got := tune.Read("x/tuned.conf", tt.text, h, include)
			var verdicts []string
			for _, l := range got.Lines {
				verdicts = append(verdicts, string(l.Verdict))
			}
			set := []string{settings(got.Profile)}
			for name, s := range got.Profile.Spec.CPUs {
				set = append(set, name+"="+s.CPUs+" "+string(s.Partition))
			}
			if got.Profile.Spec.Boot != nil {
				set = append(set, "boot="+strings.Join(got.Profile.Spec.Boot, " "))
			}
			if v, s := strings.Join(verdicts, " "), strings.TrimSpace(strings.Join(set, " ")); v != tt.want || s != tt.set {
				t.Errorf("%q and %q, want %q and %q\n%+v", v, s, tt.want, tt.set, got.Lines)
			}
		})
	}
}

// TestReadOnlySysctls checks that a profile omits a sysctl that is read-only in the kernel, and includes a sysctl that
// only this container cannot write.
func TestReadOnlySysctls(t *testing.T) {
	const mounts = "22 27 0:21 / /proc rw - proc proc rw\n30 22 0:21 /sys /proc/sys ro - proc proc rw\n"
	for name, tt := range map[string]struct {
		tree    fstest.MapFS
		verdict tune.Verdict
		set     string
	}{
		"the kernel":    {fstest.MapFS{"proc/sys/fs/aio-nr": {Data: []byte("0\n"), Mode: 0o444}}, tune.Dead, ""},
		"the container": {fstest.MapFS{"proc/sys/fs/aio-nr": {Data: []byte("0\n"), Mode: 0o644}, "proc/self/mountinfo": {Data: []byte(mounts)}}, tune.Kept, "sysctl.fs.aio-nr=0"},
	} {
		got := tune.Read("all.conf", "fs.aio-nr = 0\n", knob.Open(tt.tree), nil)
		if l := got.Lines[0]; l.Verdict != tt.verdict || l.Why == "" || settings(got.Profile) != tt.set {
			t.Errorf("%s: %+v, %s", name, l, settings(got.Profile))
		}
	}
}

// TestSysctlLinesThatDoNotCount checks that text is dropped where the kernel has a number, and that the last of several
// lines for the same sysctl takes effect.
func TestSysctlLinesThatDoNotCount(t *testing.T) {
	tree := fstest.MapFS{"proc/sys/vm/swappiness": {Data: []byte("60\n"), Mode: 0o644}}
	got := tune.Read("all.conf", "vm.swappiness = 10\nvm.swappiness = 30\nvm.swappiness = abc\n", knob.Open(tree), nil)
	if s := settings(got.Profile); s != "sysctl.vm.swappiness=30" || len(got.Lines) != 3 {
		t.Fatalf("%q of %+v", s, got.Lines)
	}
	for i, want := range []tune.Line{
		{Verdict: tune.Kept, Why: "overridden by line 2"}, {Verdict: tune.Kept}, {Verdict: tune.Unknown, Why: `"abc"; allowed: a whole number, as the 60 of this kernel`},
	} {
		if l := got.Lines[i]; l.Verdict != want.Verdict || l.Why != want.Why {
			t.Errorf("line %d is %s, %q; want %s, %q", l.Line, l.Verdict, l.Why, want.Verdict, want.Why)
		}
	}
}

// TestSysctlsThatNoUndoPutsBack checks that an imported profile omits sysctls that apply would refuse. If the value is
// already in effect, the line says that apply would refuse another value.
func TestSysctlsThatNoUndoPutsBack(t *testing.T) {
	tree := fstest.MapFS{
		"proc/sys/net/ipv4/ip_forward": {Data: []byte("0\n"), Mode: 0o644},
		"proc/sys/vm/dirty_bytes":      {Data: []byte("0\n"), Mode: 0o644}, "proc/sys/vm/dirty_ratio": {Data: []byte("20\n"), Mode: 0o644},
	}
	for text, want := range map[string]struct {
		verdict  tune.Verdict
		why, set string
	}{
		"net.ipv4.ip_forward = 1": {tune.Unknown, "berth tune apply refuses it: undo would lose the interfaces' own values", ""},
		"net.ipv4.ip_forward = 0": {tune.Kept, "as the host has it; another value: undo would lose", "sysctl.net.ipv4.ip_forward=0"},
		"vm.dirty_bytes = 4096":   {tune.Unknown, "undo would lose vm.dirty_ratio=20", ""},
		"vm.dirty_ratio = 10":     {tune.Kept, "", "sysctl.vm.dirty_ratio=10"},
	} {
		got := tune.Read("all.conf", text+"\n", knob.Open(tree), nil)
		if l := got.Lines[0]; l.Verdict != want.verdict || !strings.Contains(l.Why, want.why) || settings(got.Profile) != want.set {
			t.Errorf("%s: %+v, %q", text, l, settings(got.Profile))
		}
	}
}

// TestTunedIncludesEnd checks that reading ends soon for profiles that all include each other.
func TestTunedIncludesEnd(t *testing.T) {
	h, _ := host(t, "6.12")
	text := "[main]\ninclude=a,b,c,d,e,f,g,h,i,j,k,l,m\n"
	got := tune.Read("x/tuned.conf", text, h, func(string) (string, string, bool) { return "/y", text, true })
	if n := len(got.Lines); n < 64 || n > 2000 {
		t.Errorf("%d lines", n)
	}
}

// TestOrder checks the order of a plan: partitions with their CPUs first, slices last, and boot arguments after all
// immediate settings.
func TestOrder(t *testing.T) {
	text, _ := profile.BuiltIn("dpdk")
	withUnit := strings.Replace(string(text), "  boot:", "  units: [{unit: db.service, cpus: fast, mems: local, policy: 'fifo:10'}, {unit: a.service, slice: 1ms}]\n  boot:", 1)
	h, m := host(t, "6.12")
	facts := knob.Facts{
		Systemd: true, Unified: "/sys/fs/cgroup", Units: map[string]bool{"db.service": true, "a.service": true},
		Groups: map[string]string{"db.service": "/sys/fs/cgroup/system.slice/db.service"}, Cmdline: []string{"nohz_full=1,3"},
	}
	p := made(h, bound(t, withUnit, m), facts)
	var order []string
	for _, s := range p.Settings {
		if !slices.Contains(order, s.Knob) {
			order = append(order, s.Knob)
		}
	}
	want := "unit.cpus cpus.partition workqueue.cpus irq.affinity irq.default unit.mems unit.policy unit.slice cpu.governor cpu.resumeLatency fair.migrationCost numa.balancing thp.defrag thp.enabled fair.slice boot"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, s := range p.Settings {
		switch s.Knob + " " + s.Instance {
		case "boot nohz_full":
			if !s.Stands() || s.Reboot {
				t.Errorf("%+v", s)
			}
		case "boot rcu_nocbs":
			if s.Stands() || !s.Reboot || s.Class != knob.Reboot {
				t.Errorf("%+v", s)
			}
		case "unit.cpus db.service":
			if s.File != "/sys/fs/cgroup/system.slice/db.service/cpuset.cpus" || s.Support != knob.Settable || s.Class != knob.Restart {
				t.Errorf("%+v", s)
			}
		case "unit.slice a.service":
			if s.Support != knob.Unknown || s.Why == "" {
				t.Errorf("%+v", s)
			}
		case "irq.affinity 2":
			if s.Support != knob.ReadOnly || !strings.HasPrefix(s.Why, "optional: ") {
				t.Errorf("%+v", s)
			}
		}
	}
}

// TestOtherCPUs checks that a plan names the CPUs that the kernel made of an argument, before any mere information. No
// boot is necessary for it.
func TestOtherCPUs(t *testing.T) {
	booted := []string{"nohz_full=0-3", "isolcpus=2-3"}
	at := tune.Host{Boot: tune.Boot{Cmdline: booted, Made: map[string]string{"nohz_full=0-3": "nohz_full=1-3"}}}
	info := profile.Finding{Code: "tick", Severity: profile.Info}
	p := tune.Make(profile.Bound{Name: "p", Boot: booted}, at, []profile.Finding{info})
	want := []profile.Finding{{Code: "boot-cpus", Severity: profile.Warning, Text: "the running kernel was booted with nohz_full=0-3 and made nohz_full=1-3 of it"}, info}
	if diff := cmp.Diff(want, p.Findings); diff != "" {
		t.Error(diff)
	}
	for _, s := range p.Settings {
		if !s.Stands() || s.Reboot {
			t.Errorf("%+v", s)
		}
	}
}

// TestUnitsInEachOther checks two units of a profile that have threads in common. Only one of them may set a policy,
// because otherwise each would record the other's policy as the original.
func TestUnitsInEachOther(t *testing.T) {
	_, m := host(t, "6.12")
	b := bound(t, "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {units: [{unit: db.slice, policy: 'fifo:10'}, {unit: db.service, policy: 'fifo:40'}, {unit: db2.service, slice: 3ms}]}\n", m)
	const top = "/sys/fs/cgroup/db.slice"
	p := tune.Make(b, tune.Host{
		Facts: knob.Facts{
			Systemd: true, Unified: "/sys/fs/cgroup", Units: map[string]bool{"db.slice": true, "db.service": true, "db2.service": true},
			Groups: map[string]string{"db.slice": top, "db.service": top + "/db.service", "db2.service": "/sys/fs/cgroup/db.slice2/db2.service"},
		},
		Slices: knob.Settable,
	}, nil)
	for _, s := range p.Settings {
		if refused := s.Instance == "db.slice"; (s.Support == knob.ReadOnly) != refused || strings.Contains(s.Why, "db.service, too") != refused {
			t.Errorf("%+v", s)
		}
	}
	if len(p.Settings) != 3 {
		t.Errorf("%d settings", len(p.Settings))
	}
}

// TestUnits checks that nothing of a unit can be set without the unified hierarchy, nor for a unit that does not exist
// or does not run. A running unit can have a slice only if the kernel supports slices of threads.
func TestUnits(t *testing.T) {
	h, m := host(t, "6.12")
	b := bound(t, "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {units: [{unit: db.service, cpus: '2-3', policy: batch}, {unit: no.service, mems: '0'}]}\n", m)
	p := made(h, b, knob.Facts{Systemd: true, Units: map[string]bool{"db.service": true}})
	for _, s := range p.Settings {
		if s.Support != knob.Absent || s.Stopped != (s.Instance == "no.service") {
			t.Errorf("%+v", s)
		}
	}
	const group = "/sys/fs/cgroup/system.slice/db.service"
	b = bound(t, "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {units: [{unit: db.service, cpus: '2-3', policy: batch, slice: 3ms}, {unit: off.service, policy: 'fifo:1'}]}\n", m)
	facts := tune.Host{
		Facts: knob.Facts{
			Systemd: true, Unified: "/sys/fs/cgroup", Units: map[string]bool{"db.service": true, "off.service": true}, Groups: map[string]string{"db.service": group},
		},
		Files:   map[string]string{group + "/cpuset.cpus": "0-3"},
		Threads: map[string]knob.Threads{group: {Policies: []string{"batch", "other"}, Slices: []string{"2.8ms"}}},
		Slices:  knob.Settable,
	}
	type row struct {
		knob, file, now, want string
		support               knob.Support
		why                   string
	}
	for slices, last := range map[knob.Support]row{
		knob.Settable: {tune.UnitSlice, group + "/cgroup.threads", "2.8ms", "3ms", knob.Settable, tune.NotDurable},
		knob.Absent:   {tune.UnitSlice, group + "/cgroup.threads", "2.8ms", "3ms", knob.Absent, "only Linux 6.12 and newer have slices of single threads"},
	} {
		facts.Slices = slices
		var got []row
		p := tune.Make(b, facts, nil)
		for _, s := range p.Settings {
			got = append(got, row{s.Knob, s.File, s.Now, s.Want, s.Support, s.Why})
		}
		want := []row{
			{tune.UnitCPUs, group + "/cpuset.cpus", "0-3", "2-3", knob.Settable, ""},
			{tune.UnitPolicy, group + "/cgroup.threads", "batch, other", "batch", knob.Settable, tune.NotDurable},
			last,
			{tune.UnitPolicy, "", "", "fifo:1", knob.Unknown, "the unit does not run"},
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(row{})); d != "" {
			t.Error(d)
		}
		if rest, stopped := p.WithoutStopped(); len(rest.Settings) != len(want)-1 || len(stopped) != 1 || stopped[0].Instance != "off.service" || len(p.Settings) != len(want) {
			t.Errorf("%+v, %+v", rest, stopped)
		}
		parts, blocked := p.Divide(), 1
		if slices == knob.Absent {
			blocked = 2
		}
		if len(parts.Blocked) != blocked || len(parts.Write) != len(want)-blocked || parts.Blocked[blocked-1].Why != "the unit does not run" {
			t.Errorf("%+v", parts)
		}
	}
}

// TestWithoutStopped: a plan divides into settings of units that do not run, or that systemd does not have, and the
// others. A remark says who sets each of the former later: only a list can come before its unit runs.
func TestWithoutStopped(t *testing.T) {
	const (
		now    = "the unit does not run"
		lists  = "; once it runs, unless berth-ahead gave it, berth tune apply --committed sets it"
		others = "; once it runs, the agent of a host without Kubernetes or berth tune apply --committed sets it"
	)
	_, m := host(t, "6.12")
	b := bound(t, "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec:\n  cpus: {one: {cpus: '1', partition: isolated}}\n"+
		"  units: [{unit: on.service, policy: batch, slice: 3ms}, {unit: off.service, cpus: one, mems: '0', policy: batch, slice: 3ms, rtBudget: 40ms}, {unit: none.service, policy: idle}]\n", m)
	units := map[string]bool{"on.service": true, "off.service": true}
	onlyCPU := "the unit does not run, or has no group of the CPU controller (CPUAccounting=yes gives it one)"
	for name, tt := range map[string]struct {
		facts knob.Facts
		want  map[string]string
		rest  int
	}{
		"unified": {knob.Facts{Unified: "/sys/fs/cgroup", Units: units, Groups: map[string]string{"on.service": "/sys/fs/cgroup/on.service"}}, map[string]string{
			"unit.cpus off.service": now + lists, "unit.mems off.service": now + lists,
			"unit.policy off.service": now + others, "unit.slice off.service": now + others,
			"cpus.partition off.service": now + others, "unit.policy none.service": "systemd has no such unit here" + others,
		}, 3},
		"one hierarchy for each controller": {knob.Facts{CPU: "/sys/fs/cgroup/cpu", Units: units, CPUGroups: map[string]string{"on.service": "/sys/fs/cgroup/cpu/on.service"}}, map[string]string{
			"unit.rtBudget off.service": onlyCPU + others, "unit.policy off.service": onlyCPU + others, "unit.slice off.service": onlyCPU + others,
			"unit.policy none.service": "systemd has no such unit here" + others,
		}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			rest, stopped := tune.Make(b, tune.Host{Facts: tt.facts, Slices: knob.Settable}, nil).WithoutStopped()
			got := map[string]string{}
			for _, s := range stopped {
				got[s.Name()] = s.Why
			}
			if d := cmp.Diff(tt.want, got); d != "" || len(rest.Settings) != tt.rest {
				t.Errorf("%s\nand the rest is %+v", d, rest.Settings)
			}
		})
	}
}

// TestRealTimeBudget checks kernels on which groups have a budget for real-time threads. The budget of a unit with the
// CPU controller is zero, and the plan must say so; other policies need no budget.
func TestRealTimeBudget(t *testing.T) {
	_, m := host(t, "6.12")
	b := bound(t, "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {units: [{unit: rt.service, policy: 'rr:10'}, {unit: batch.service, policy: batch}, {unit: free.service, policy: 'fifo:10'}]}\n", m)
	facts := knob.Facts{Unified: "/sys/fs/cgroup", RTGroups: true, Units: map[string]bool{}, Groups: map[string]string{}}
	for _, u := range b.Units {
		facts.Units[u.Name], facts.Groups[u.Name] = true, "/sys/fs/cgroup/"+u.Name
	}
	files := map[string]string{"/sys/fs/cgroup/rt.service/cpu.max": "max 100000", "/sys/fs/cgroup/batch.service/cpu.max": "max 100000"}
	for _, budgets := range []bool{true, false} {
		facts.RTGroups = budgets
		for _, s := range tune.Make(b, tune.Host{Facts: facts, Files: files}, nil).Settings {
			none := budgets && s.Instance == "rt.service"
			if (s.Support == knob.ReadOnly) != none || strings.Contains(s.Why, "CONFIG_RT_GROUP_SCHED") != none {
				t.Errorf("with budgets %v: %+v", budgets, s)
			}
		}
	}
}

// TestBudgets checks that, on request, a unit's group gets a budget for real-time threads, and the groups above it get
// room for it. If there is no room, the plan gives the reason.
func TestBudgets(t *testing.T) {
	_, m := host(t, "6.12")
	const cpu, own = "/sys/fs/cgroup/cpu,cpuacct", "cpu.rt_runtime_us"
	facts := knob.Facts{CPU: cpu, Units: map[string]bool{}, CPUGroups: map[string]string{}}
	for name, below := range map[string]string{"a.service": "/s.slice", "b.service": "/s.slice", "c.service": ""} {
		facts.Units[name], facts.CPUGroups[name] = true, cpu+below+"/"+name
	}
	files := map[string]string{cpu + "/" + own: "950000", cpu + "/s.slice/" + own: "40000", cpu + "/s.slice/cpu.rt_period_us": "1000000"}
	for name, now := range map[string]string{"s.slice/a": "0", "s.slice/b": "30000", "c": "0"} {
		files[cpu+"/"+name+".service/"+own] = now
	}
	unified := facts
	unified.Unified, unified.CPUGroups, unified.Groups = "/sys/fs/cgroup", nil, map[string]string{"a.service": "/sys/fs/cgroup/a.service"}
	budgets := unified
	budgets.RTGroups = true
	period, less := maps.Clone(files), maps.Clone(files)
	period[cpu+"/c.service/cpu.rt_period_us"], less[cpu+"/"+own] = "500000", "41000"
	none := maps.Clone(files)
	delete(none, cpu+"/c.service/"+own)
	for name, tt := range map[string]struct {
		units string
		facts knob.Facts
		files map[string]string
		want  []string
	}{
		"top-down": {"{unit: a.service, rtBudget: 40ms, policy: 'fifo:1'}, {unit: b.service, rtBudget: 50ms}", facts, files, []string{
			"unit.rtBudget s.slice 40ms 90ms 90000 settable", "unit.rtBudget a.service 0s 40ms 40000 settable", "unit.rtBudget b.service 30ms 50ms 50000 settable",
			"unit.policy a.service  fifo:1 fifo:1 settable",
		}},
		"has more":       {"{unit: b.service, rtBudget: 20ms}", facts, files, []string{"unit.rtBudget s.slice 40ms 40ms 40000 settable", "unit.rtBudget b.service 30ms 30ms 30000 settable"}},
		"not requested":  {"{unit: c.service, policy: 'rr:1'}", facts, files, []string{"unit.policy c.service  rr:1 rr:1 readOnly: its group has no budget for real-time threads"}},
		"another period": {"{unit: c.service, rtBudget: 1ms}", facts, period, []string{"unit.rtBudget c.service 0s 1ms 1000 readOnly: cpu.rt_period_us of c.service is 500000"}},
		"too little":     {"{unit: c.service, rtBudget: 2ms}", facts, less, []string{"unit.rtBudget c.service 0s 2ms 2000 readOnly: all groups together need 42ms, and cpu.rt_runtime_us of the root group is 41ms"}},
		"no file":        {"{unit: c.service, rtBudget: 2ms}", facts, none, []string{"unit.rtBudget c.service  2ms 2000 absent: this kernel has no cpu.rt_runtime_us"}},
		"v2":             {"{unit: a.service, rtBudget: 2ms}", unified, nil, []string{"unit.rtBudget a.service  2ms 2000 absent: cgroup v2 has no budget"}},
		"v2 at 0":        {"{unit: a.service, rtBudget: 2ms}", budgets, nil, []string{"unit.rtBudget a.service  2ms 2000 absent: this kernel gives a group a budget"}},
		"no unit":        {"{unit: x.service, rtBudget: 2ms}", facts, files, []string{"unit.rtBudget x.service  2ms 2000 absent: systemd has no such unit"}},
		"CPUs on v1":     {"{unit: c.service, cpus: '1'}", facts, files, []string{"unit.cpus c.service  1 1 absent: needs the unified hierarchy"}},
	} {
		b := bound(t, "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {units: ["+tt.units+"]}\n", m)
		var got []string
		for _, s := range tune.Make(b, tune.Host{Facts: tt.facts, Files: tt.files}, nil).Settings {
			line := fmt.Sprintf("%s %s %s %s %s %s", s.Knob, s.Instance, s.Now, s.Want, s.Write, s.Support)
			if s.Support != knob.Settable {
				line += ": " + s.Why
			}
			if i := len(got); i < len(tt.want) && strings.HasPrefix(line, tt.want[i]) {
				line = tt.want[i]
			}
			got = append(got, line)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestBelowRootGroup checks kernels on which groups have budgets. The kernel accepts no global limit below the root
// group's budget, and the plan must say so before a write is refused.
func TestBelowRootGroup(t *testing.T) {
	h, m := host(t, "6.12")
	const why = "the root group has 950ms for real-time threads (CONFIG_RT_GROUP_SCHED), and the kernel takes no less for all: first lower its cpu.rt_runtime_us, which only cgroup v1 has"
	for _, tt := range []struct {
		setting string
		root    int64
		refused bool
	}{
		{"rt.runtime: 900ms", 950_000, true},
		{"sysctl.kernel.sched_rt_runtime_us: 900000", 950_000, true},
		{"rt.runtime: 900ms", 900_000, false},
		{"rt.runtime: 900ms", 0, false},
		{"rt.runtime: 1s", 950_000, false},
		{"rt.runtime: unlimited", 950_000, false},
		{"rr.slice: 1ms", 950_000, false},
	} {
		b := bound(t, "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {settings: {"+tt.setting+"}}\n", m)
		s := made(h, b, knob.Facts{RTRoot: tt.root}).Settings[0]
		if (s.Support == knob.ReadOnly) != tt.refused || (s.Why == why) != tt.refused {
			t.Errorf("%s with %d: %s, %s", tt.setting, tt.root, s.Support, s.Why)
		}
	}
}

// TestBudgetAfterRestart checks a restarted unit, which has no budget while the groups above it keep theirs. Repeated
// plans must give these groups what the groups below need, and no more.
func TestBudgetAfterRestart(t *testing.T) {
	_, m := host(t, "6.12")
	const cpu, own, period = "/sys/fs/cgroup/cpu", "/cpu.rt_runtime_us", "/cpu.rt_period_us"
	const slice, service, other = cpu + "/s.slice", cpu + "/s.slice/a.service", cpu + "/s.slice/other"
	facts := knob.Facts{CPU: cpu, Units: map[string]bool{"a.service": true}, CPUGroups: map[string]string{"a.service": service}}
	b := bound(t, "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {units: [{unit: a.service, rtBudget: 300ms}]}\n", m)
	for name, tt := range map[string]struct{ beside, period, want string }{
		"alone":            {"0", "1000000", "300000"},
		"beside another":   {"50000", "1000000", "350000"},
		"of half a second": {"50000", "500000", "400000"},
		"of three seconds": {"50000", "3000000", "316667"},
	} {
		files := map[string]string{cpu + own: "950000", slice + own: "100000", other + own: tt.beside, other + period: tt.period}
		for n := range 4 {
			files[service+own] = "0"
			for _, s := range tune.Make(b, tune.Host{Facts: facts, Files: files}, nil).Settings {
				if s.Support != knob.Settable {
					t.Errorf("%s, plan %d: %s %s: %s", name, n, s.Instance, s.Support, s.Why)
				}
				files[s.File] = s.Write
			}
			if files[slice+own] != tt.want || files[service+own] != "300000" {
				t.Errorf("%s, plan %d: the slice gets %s, want %s; the unit %s", name, n, files[slice+own], tt.want, files[service+own])
			}
		}
	}
}

// TestMemoryOfUnits checks that a plan reports how many bytes move, and that a setting without room for them is
// blocked.
func TestMemoryOfUnits(t *testing.T) {
	h, m := host(t, "6.12")
	b := bound(t, "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {units: [{unit: db.service, mems: '1'}]}\n", m)
	const group, gibi = "/sys/fs/cgroup/db.service", 1 << 30
	facts := h.Facts()
	facts.Systemd, facts.Unified, facts.Units, facts.Groups = true, "/sys/fs/cgroup", map[string]bool{"db.service": true}, map[string]string{"db.service": group}
	for name, tt := range map[string]struct {
		memory  map[int]int64
		room    map[int]int64
		support knob.Support
		why     string
	}{
		"fits":          {map[int]int64{0: gibi / 16, 1: 9 * gibi}, map[int]int64{1: 2 * gibi}, knob.Settable, "up to 64 MiB move at once, and stay where they are at an undo"},
		"takes long":    {map[int]int64{0: gibi/16 + 1, 1: 9 * gibi}, map[int]int64{1: 2 * gibi}, knob.ReadOnly, "64 MiB would move to NUMA nodes 1, and systemd stand still meanwhile: move them first (berth memory migrate --pid PROCESS --to 1)"},
		"does not":      {map[int]int64{0: 2 * gibi, 1: 0}, map[int]int64{0: 9 * gibi, 1: gibi}, knob.ReadOnly, "2.0 GiB would move to NUMA nodes 1, where there is room for 1.0 GiB"},
		"no room known": {map[int]int64{0: gibi / 16}, nil, knob.Settable, "up to 64 MiB move at once, and stay where they are at an undo"},
		"none known":    {nil, map[int]int64{1: 0}, knob.Settable, "its pages move at once, and stay where they are at an undo"},
	} {
		on := tune.Host{Facts: facts, Memory: map[string]map[int]int64{group: tt.memory}, Room: tt.room}
		if s := tune.Make(b, on, nil).Settings[0]; s.Support != tt.support || s.Why != tt.why {
			t.Errorf("%s: %s, %q", name, s.Support, s.Why)
		}
		on.Files = map[string]string{group + "/cpuset.mems": "1"} // a write changes nothing
		if s := tune.Make(b, on, nil).Settings[0]; s.Support != knob.Settable || !s.Stands() {
			t.Errorf("%s, and has the list: %s, %q", name, s.Support, s.Why)
		}
	}
}

// TestWords checks that a word which this host's file does not accept is not settable there.
func TestWords(t *testing.T) {
	h, m := host(t, "7.2")
	b := bound(t, "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {settings: {sched.preempt: voluntary}}\n", m)
	if s := made(h, b, knob.Facts{}).Settings[0]; s.Support != knob.Absent || s.Now != "lazy" || s.Why != "this host takes full, lazy" {
		t.Errorf("%+v", s)
	}
}

// FuzzRead checks that every line with content has a verdict, and that Berth accepts the resulting profile.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"95-scheduler.conf", "tuned.conf"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("[variables]\na=${a}${a}\n[bootloader]\ncmdline=a\x01b\n[scheduler]\nisolated_cores=0-1023\n[main]\ninclude=x")
	f.Add("kernel.a/b.c=1\nnet/ipv4.x = \"1\"\n-kernel.x=9\nkernel.sched_nr_migrate=99999999999999999999")
	h, _ := host(f, "6.12")
	f.Fuzz(func(t *testing.T, text string) {
		got := tune.Read("/x/tuned.conf", text, h, func(string) (string, string, bool) { return "/y", text, len(text) < 200 })
		seen := map[int]bool{}
		for _, l := range got.Lines {
			if l.Verdict == "" {
				t.Errorf("no verdict: %+v", l)
			}
			if l.File == "" {
				seen[l.Line] = true
			}
		}
		for i, line := range strings.Split(text, "\n") {
			line = strings.TrimSpace(line)
			section := strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]")
			if line != "" && !section && !strings.ContainsAny(line[:1], "#;") && !seen[i+1] {
				t.Errorf("line %d, %q, has no verdict", i+1, line)
			}
		}
		data, err := yaml.Marshal(got.Profile)
		if err != nil {
			t.Fatal(err)
		}
		file, err := manifest.ParseProfile("p", data)
		if err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		if problems := profile.Check(file.Profile); len(problems) > 0 {
			t.Errorf("%v in\n%s", problems, data)
		}
	})
}
