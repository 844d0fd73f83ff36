package tune_test

import (
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/linux/knob"
)

// planOf returns the plan of settings on a host of files.
func planOf(t *testing.T, files map[string]string, settings map[string]profile.Setting) tune.Plan {
	t.Helper()
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
		if text == "managed" {
			tree[name].Mode = 0o444
		}
	}
	h := knob.Open(tree)
	var b profile.Bound
	for _, name := range []string{"cpu.epp", "cpu.governor", "fair.slice", "irq.affinity", "sched.preempt"} {
		s, desired := settings[name]
		if !desired {
			continue
		}
		s.Knob, _ = knob.Lookup(name)
		var err error
		if s.Value, err = s.Knob.Parse(s.Value.Text); err != nil {
			t.Fatal(err)
		}
		b.Settings = append(b.Settings, s)
	}
	return tune.Make(b, tune.Host{Survey: h.Survey(tune.Knobs(b))}, nil)
}

func want(text string, optional bool) profile.Setting {
	return profile.Setting{Value: knob.Value{Text: text}, Optional: optional}
}

// TestGovernorComesFirst checks that the plan sets the governor before the energy preference, because the kernel
// answers EBUSY to the preference under some governors.
func TestGovernorComesFirst(t *testing.T) {
	const at = "sys/devices/system/cpu/cpufreq/policy0/"
	p := planOf(t, map[string]string{at + "scaling_governor": "performance", at + "energy_performance_preference": "performance"},
		map[string]profile.Setting{"cpu.governor": want("powersave", false), "cpu.epp": want("power", false)})
	if got := []string{p.Settings[0].Knob, p.Settings[1].Knob}; !slices.Equal(got, []string{"cpu.governor", "cpu.epp"}) {
		t.Error(got)
	}
}

// TestDormantPolicy checks that a plan omits a cpufreq policy whose CPUs are offline, even if it is the first policy,
// and that it is no drift.
func TestDormantPolicy(t *testing.T) {
	const policies = "sys/devices/system/cpu/cpufreq/policy"
	t.Run("answers EBUSY", func(t *testing.T) {
		modes := ""
		for _, file := range []string{"scaling_governor", "scaling_available_governors", "affected_cpus"} {
			modes += "busy " + policies + "0/" + file + "\n"
		}
		dormantPolicy(t, policies, map[string]string{"modes": modes, policies + "4/affected_cpus": "4"})
	})
	t.Run("shows what was", func(t *testing.T) {
		dormantPolicy(t, policies, map[string]string{policies + "0/affected_cpus": "", policies + "4/affected_cpus": "4"})
	})
}

func dormantPolicy(t *testing.T, policies string, files map[string]string) {
	t.Helper()
	for _, n := range []string{"0", "4"} {
		files[policies+n+"/scaling_governor"] = "schedutil"
		files[policies+n+"/scaling_available_governors"] = "performance schedutil"
	}
	for governor, refuses := range map[string]int{"performance": 0, "ondemand": 1} {
		p := planOf(t, files, map[string]profile.Setting{"cpu.governor": want(governor, false)})
		if len(p.Settings) != 1 || p.Settings[0].Instance != "policy4" || len(p.Refuses) != refuses {
			t.Errorf("%s: %+v; refuses %q", governor, p.Settings, p.Refuses)
		}
	}
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	k, _ := knob.Lookup("cpu.governor")
	for n, state := range map[string]tune.State{"0": tune.Dormant, "4": tune.Drift} {
		got := tune.Verify(tune.Verified{File: "/" + policies + n + "/scaling_governor", Want: "performance"}, knob.Open(tree).Probe(k), "", func(knob.Found) string { return "" })
		if got.State != state || got.Differs() != (state == tune.Drift) {
			t.Errorf("policy%s: %+v, want %s", n, got, state)
		}
	}
}

// TestDivide checks that an optional setting and an interrupt that the kernel manages do not block a plan.
func TestDivide(t *testing.T) {
	files := map[string]string{
		"sys/kernel/debug/sched/base_slice_ns": "3000000",
		"proc/irq/4/smp_affinity_list":         "0-3", "proc/irq/5/smp_affinity_list": "managed",
		"proc/irq/5/effective_affinity_list": "1",
	}
	for name, tt := range map[string]struct {
		preempt              profile.Setting
		write, left, blocked []string
	}{
		"blocked":  {want("full", false), []string{"irq.affinity 4", "fair.slice"}, []string{"irq.affinity 5"}, []string{"sched.preempt"}},
		"optional": {want("full", true), []string{"irq.affinity 4", "fair.slice"}, []string{"irq.affinity 5", "sched.preempt"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := planOf(t, files, map[string]profile.Setting{
				"fair.slice": want("1ms", false), "irq.affinity": want("0", false), "sched.preempt": tt.preempt,
			}).Divide()
			for what, pair := range map[string][2][]string{"write": {tt.write, names(d.Write)}, "left": {tt.left, names(d.Left)}, "blocked": {tt.blocked, names(d.Blocked)}} {
				if !slices.Equal(pair[0], pair[1]) {
					t.Errorf("%s: %q, want %q", what, pair[1], pair[0])
				}
			}
			if w := d.Write[1].Write; w != "1000000" {
				t.Errorf("the file gets %q", w)
			}
		})
	}
}

func names(all []tune.Setting) []string {
	var list []string
	for _, s := range all {
		list = append(list, s.Name())
	}
	return list
}

// TestVerify checks that the kernel's effective value decides the state of a setting.
func TestVerify(t *testing.T) {
	found := func(now string, support knob.Support) []knob.Found {
		return []knob.Found{{File: "f", Now: now, Support: support}}
	}
	for name, tt := range map[string]struct {
		found     []knob.Found
		effective string
		want      tune.Verified
	}{
		"ok":         {found("0-1", knob.Settable), "1", tune.Verified{Effective: "0-1", State: tune.OK}},
		"drift":      {found("2", knob.Settable), "2", tune.Verified{Effective: "2", State: tune.Drift}},
		"ignored":    {found("0-1", knob.Settable), "3", tune.Verified{Effective: "3", State: tune.Ignored}},
		"gone":       {[]knob.Found{{File: "g", Now: "0-1", Support: knob.Settable}}, "", tune.Verified{State: tune.Gone}},
		"hidden":     {[]knob.Found{{Support: knob.Unknown}}, "", tune.Verified{State: tune.Unreadable}},
		"unreadable": {found("", knob.Unknown), "", tune.Verified{State: tune.Unreadable}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.want.File, tt.want.Want = "f", "0-1"
			got := tune.Verify(tune.Verified{File: "f", Want: "0-1"}, tt.found, "", func(knob.Found) string { return tt.effective })
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestVerifyPool checks pools of huge pages that the kernel had too little memory for. The shortfall is no drift as
// long as the pool has the recorded number of pages. Without a record, as from an older Berth, any number up to the
// desired one is possible.
func TestVerifyPool(t *testing.T) {
	const pool, mempolicy, overcommit = "/proc/sys/vm/nr_hugepages", "/proc/sys/vm/nr_hugepages_mempolicy", "/proc/sys/vm/nr_overcommit_hugepages"
	for _, tt := range []struct {
		file, made, now string
		want            tune.State
	}{
		{pool, "312", "1024", tune.OK},
		{pool, "312", "312", tune.Partial},
		{pool, "312", "100", tune.Drift},
		{pool, "312", "500", tune.Drift},
		{pool, "1024", "312", tune.Drift},
		{pool, "", "312", tune.Partial},
		{pool, "", "0", tune.Partial},
		{pool, "", "2000", tune.Drift},
		{mempolicy, "312", "312", tune.Partial},
		{overcommit, "", "1024", tune.OK},
		{overcommit, "312", "312", tune.Drift},
	} {
		found := knob.Found{File: tt.file, Now: tt.now, Support: knob.Settable}
		got := tune.Verify(tune.Verified{File: tt.file, Want: "1024"}, []knob.Found{found}, tt.made, func(knob.Found) string { return "" })
		if got.State != tt.want || got.Effective != tt.now {
			t.Errorf("%s has %s, the kernel made %q: %+v, want %s", tt.file, tt.now, tt.made, got, tt.want)
		}
	}
}

// TestVerifySlice checks that a slice which the kernel rounds when CPUs go online or offline is no drift.
func TestVerifySlice(t *testing.T) {
	for now, want := range map[string]tune.State{"4ms": tune.OK, "3.999999ms": tune.OK, "3ms": tune.Drift} {
		found := knob.Found{File: "f", Now: now, Support: knob.Settable, Place: knob.Place{Scaled: true}}
		got := tune.Verify(tune.Verified{File: "f", Want: "4ms"}, []knob.Found{found}, "", func(knob.Found) string { return "" })
		if got.State != want || got.Effective != now {
			t.Errorf("%s: %+v", now, got)
		}
	}
}

// TestPeers checks that running programs are recognized by the name that the kernel keeps, and a knob by either of its
// names.
func TestPeers(t *testing.T) {
	for name, tt := range map[string]struct {
		running tune.Running
		knob    string
		want    string
	}{
		"tuned":      {tune.Running{Programs: map[string]bool{"tuned": true}, TuneD: []string{"sysctl.kernel.numa_balancing"}}, "numa.balancing", "TuneD"},
		"ppd":        {tune.Running{Programs: map[string]bool{"power-profiles-": true}}, "cpu.epp", "power-profiles-daemon"},
		"numad":      {tune.Running{Programs: map[string]bool{"numad": true}}, "sysctl.kernel.numa_balancing", "numad"},
		"kubelet":    {tune.Running{Programs: map[string]bool{"kubelet": true}}, "sysctl.kernel.panic", "kubelet"},
		"sched_ext":  {tune.Running{SchedExt: true}, "fair.slice", "the sched_ext scheduler that is loaded"},
		"other knob": {tune.Running{SchedExt: true, Programs: map[string]bool{"kubelet": true, "tuned": true}}, "thp.enabled", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, p := range tune.Peers(tt.running) {
				if slices.Equal(p.Sets([]tune.Setting{{Knob: tt.knob}}), []string{tt.knob}) {
					got += p.Name
				}
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
