package tune_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/knob"
	"github.com/berth-project/berth/internal/manifest"
	"github.com/berth-project/berth/internal/profile"
	"github.com/berth-project/berth/internal/topology"
	"github.com/berth-project/berth/internal/tune"
)

// host is a recorded kernel.
func host(t testing.TB, name string) (*knob.Host, *topology.Topology) {
	t.Helper()
	text, err := os.ReadFile("../../testdata/kernels/" + name + ".txtar")
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

// bound is a profile given as YAML on a recorded kernel.
func bound(t testing.TB, text string, m *topology.Topology) profile.Bound {
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
	b, err := profile.Bind(whole, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// made is the plan of a bound profile.
func made(h *knob.Host, b profile.Bound, facts knob.Facts) tune.Plan {
	all := tune.Host{Survey: h.Survey(tune.Knobs(b)), Facts: facts, Elsewhere: map[string]knob.Elsewhere{}, Boot: tune.Boot{Cmdline: facts.Cmdline}}
	for _, m := range knob.MovedSysctls() {
		all.Elsewhere[m.Sysctl] = h.Elsewhere(m)
	}
	return tune.Make(b, all, nil)
}

// TestSeedPlan: of each line of hpc-sched the plan says whether its key exists on a kernel,
// and what replaces it where it does not.
func TestSeedPlan(t *testing.T) {
	const sched = "/sys/kernel/debug/sched/"
	text, _ := profile.BuiltIn("hpc-sched")
	cfs := map[string]string{
		"latency_ns":            "instead " + sched + "latency_ns, for which Berth has no knob",
		"min_granularity_ns":    "instead fair.slice (" + sched + "min_granularity_ns)",
		"wakeup_granularity_ns": "instead " + sched + "wakeup_granularity_ns, for which Berth has no knob",
		"migration_cost_ns":     "instead fair.migrationCost (" + sched + "migration_cost_ns)",
		"nr_migrate":            "instead fair.nrMigrate (" + sched + "nr_migrate)",
	}
	eevdf := map[string]string{
		"latency_ns":            "instead nothing: the fair class has no latency target any more; fair.slice sets its slice",
		"min_granularity_ns":    "instead fair.slice (" + sched + "base_slice_ns)",
		"wakeup_granularity_ns": "instead policy batch for units that may wait; a slice per unit on Linux 6.12 and newer",
		"migration_cost_ns":     cfs["migration_cost_ns"],
		"nr_migrate":            cfs["nr_migrate"],
	}
	for kernel, gone := range map[string]map[string]string{"5.10": {}, "6.1": cfs, "6.12": eevdf, "7.2": eevdf} {
		t.Run(kernel, func(t *testing.T) {
			h, m := host(t, kernel)
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
		})
	}
}

// TestSeedImport: the verdicts on the seed's two files on each kernel, and the profile.
func TestSeedImport(t *testing.T) {
	for kernel, tt := range map[string]struct{ sysctls, tuned, settings string }{
		"5.10": {
			"kept kept kept harmful kept kept kept",
			"unknown dead dead kept kept kept harmful",
			"sysctl.kernel.sched_autogroup_enabled=0 sysctl.kernel.sched_latency_ns=4000000 sysctl.kernel.sched_min_granularity_ns=1000000 sysctl.kernel.sched_nr_migrate=64 sysctl.kernel.sched_rr_timeslice_ms=1 sysctl.kernel.sched_wakeup_granularity_ns=250000",
		},
		"6.1": {
			"dead 5.13,translated 5.13,dead 5.13,harmful,translated 5.13,kept,kept",
			"unknown dead dead,dead 5.13,translated 5.13,dead 5.13,harmful",
			"fair.nrMigrate=64 fair.slice=1ms sysctl.kernel.sched_autogroup_enabled=0 sysctl.kernel.sched_rr_timeslice_ms=1",
		},
		"6.12": {
			"dead 6.6,translated 5.13,dead 6.6,harmful,translated 5.13,kept,kept",
			"unknown dead dead,dead 6.6,translated 5.13,dead 6.6,harmful",
			"fair.nrMigrate=64 fair.slice=1ms sysctl.kernel.sched_autogroup_enabled=0 sysctl.kernel.sched_rr_timeslice_ms=1",
		},
		"7.2": {
			"dead 6.6,translated 5.13,dead 6.6,harmful,translated 5.13,kept,kept",
			"unknown dead dead,dead 6.6,translated 5.13,dead 6.6,harmful",
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
		all = append(all, fmt.Sprintf("%s=%s", name, s.Value))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestTuned: what Berth makes of each plug-in's options.
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

// TestReadOnlySysctls: a profile has no sysctl that the kernel only shows; one that just
// this container may not write stays in it.
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

// TestTunedIncludesEnd: profiles that all include each other end the reading soon.
func TestTunedIncludesEnd(t *testing.T) {
	h, _ := host(t, "6.12")
	text := "[main]\ninclude=a,b,c,d,e,f,g,h,i,j,k,l,m\n"
	got := tune.Read("x/tuned.conf", text, h, func(string) (string, string, bool) { return "/y", text, true })
	if n := len(got.Lines); n < 64 || n > 2000 {
		t.Errorf("%d lines", n)
	}
}

// TestOrder: partitions first, slices last, boot arguments after all that acts at once.
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
	want := "cpus.partition workqueue.cpus irq.affinity irq.default unit.cpus unit.mems unit.policy unit.slice cpu.governor cpu.resumeLatency fair.migrationCost numa.balancing thp.defrag thp.enabled fair.slice boot"
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
		case "unit.slice a.service", "cpus.partition fast":
			if s.Support != knob.Unknown || s.Why == "" {
				t.Errorf("%+v", s)
			}
		case "irq.affinity 12":
			if s.Support != knob.ReadOnly || !strings.HasPrefix(s.Why, "optional: ") {
				t.Errorf("%+v", s)
			}
		}
	}
}

// TestUnits: on a host without the unified hierarchy a unit's CPUs cannot be set, and of a
// unit that does not exist nothing can.
func TestUnits(t *testing.T) {
	h, m := host(t, "6.12")
	b := bound(t, "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {units: [{unit: db.service, cpus: '2-3', policy: batch}, {unit: no.service, mems: '0'}]}\n", m)
	p := made(h, b, knob.Facts{Systemd: true, Units: map[string]bool{"db.service": true}})
	for _, s := range p.Settings {
		want := knob.Absent
		if s.Knob == "unit.policy" {
			want = knob.Settable
		}
		if s.Support != want {
			t.Errorf("%+v, want %s", s, want)
		}
	}
}

// TestWords: a word that this host's file does not take is not settable there.
func TestWords(t *testing.T) {
	h, m := host(t, "7.2")
	b := bound(t, "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {settings: {sched.preempt: voluntary}}\n", m)
	if s := made(h, b, knob.Facts{}).Settings[0]; s.Support != knob.Absent || s.Now != "lazy" || s.Why != "this host takes full, lazy" {
		t.Errorf("%+v", s)
	}
}

// FuzzRead: every line that says something has a verdict, and the profile is one that
// Berth takes.
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
