package knob_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	sched "github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/knob"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct{ knob, text, want, written string }{
		{"fair.slice", "3ms", "3ms", "3000000"},
		{"fair.slice", "1500us", "1.5ms", "1500000"},
		{"fair.slice", "0", "", ""},
		{"fair.slice", "0s", "", ""},
		{"fair.slice", "3", "", ""},
		{"fair.slice", "99us", "", ""},
		{"fair.slice", "101ms", "", ""},
		{"fair.slice", "-3ms", "", ""},
		{"fair.slice", "3 ms", "", ""},
		{"fair.slice", "9999999999h", "", ""},
		{"fair.migrationCost", "0s", "0s", "0"},
		{"fair.nrMigrate", "64", "64", "64"},
		{"fair.nrMigrate", "0", "", ""},
		{"fair.nrMigrate", "64ms", "", ""},
		{"rr.slice", "1ms", "1ms", "1"},
		{"rr.slice", "1500us", "", ""},
		{"rt.runtime", "950ms", "950ms", "950000"},
		{"rt.runtime", "unlimited", "unlimited", "-1"},
		{"rt.runtime", "-1", "", ""},
		{"sched.autogroup", "false", "off", "0"},
		{"sched.autogroup", "on", "on", "1"},
		{"sched.autogroup", "maybe", "", ""},
		{"numa.balancing", "tiering", "tiering", "2"},
		{"thp.enabled", "madvise", "madvise", "madvise"},
		{"thp.enabled", "sometimes", "", ""},
		{"cpu.governor", "performance", "performance", "performance"},
		{"cpu.governor", "two words", "", ""},
		{"cpu.resumeLatency", "20us", "20us", "20"},
		{"cpu.resumeLatency", "any", "any", "0"},
		{"cpu.resumeLatency", "none", "none", "n/a"},
		{"cpu.resumeLatency", "0s", "", ""},
		{"irq.affinity", "0-3,8", "0-3,8", "0-3,8"},
		{"irq.default", "0-3,8", "0-3,8", "10f"},
		{"sysctl.kernel.printk", "4 4\t1  7", "4 4 1 7", "4 4 1 7"},
		{"sysctl.kernel.printk", "", "", ""},
		{"sysctl.kernel.printk", "1\n2", "", ""},
	} {
		k := lookup(t, tt.knob)
		v, err := k.Parse(tt.text)
		if (err != nil) != (tt.want == "") || err != nil && !errors.Is(err, knob.ErrValue) {
			t.Errorf("%s %q: %v", tt.knob, tt.text, err)
			continue
		}
		if err == nil && (v.Text != tt.want || k.Written(k.Places[0], v) != tt.written) {
			t.Errorf("%s %q: %+v, written %q", tt.knob, tt.text, v, k.Written(k.Places[0], v))
		}
	}
}

// TestCatalogue checks that every knob has the texts that a plan and the documentation need, and accepts its advised
// range.
func TestCatalogue(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range knob.Catalogue() {
		if seen[k.Name] || k.About == "" || k.Effective == "" || k.Class == "" || k.Risk == "" || len(k.Places) == 0 {
			t.Errorf("%s is incomplete or there twice", k.Name)
		}
		seen[k.Name] = true
		if k.SafeHigh > 0 && (k.SafeLow < k.Low || k.SafeHigh > k.High) || (k.Unit == knob.Duration || k.Unit == knob.Count) && k.High <= k.Low {
			t.Errorf("%s: range %d to %d, advised %d to %d", k.Name, k.Low, k.High, k.SafeLow, k.SafeHigh)
		}
		for _, w := range k.Words {
			if v, err := k.Parse(w.Text); err != nil || k.Written(k.Places[0], v) != w.File {
				t.Errorf("%s: word %s: %v", k.Name, w.Text, err)
			}
		}
		for _, p := range k.Places {
			if p.Kernels == "" || !strings.HasPrefix(p.File, "/proc/") && !strings.HasPrefix(p.File, "/sys/") {
				t.Errorf("%s: place %+v", k.Name, p)
			}
		}
	}
	for _, m := range knob.MovedSysctls() {
		if _, ok := knob.Lookup(m.Knob); m.Since == "" || ok == (m.File != "") || (m.Gone != "") != (m.Instead != "") || m.Gone != "" && !ok {
			t.Errorf("%+v", m)
		}
	}
}

func TestSysctlFile(t *testing.T) {
	for key, want := range map[string]string{
		"kernel.sched_latency_ns":        "/proc/sys/kernel/sched_latency_ns",
		"net.ipv4.conf.eth0/1.rp_filter": "/proc/sys/net/ipv4/conf/eth0.1/rp_filter",
		"net/ipv4/conf/eth0.1/rp_filter": "/proc/sys/net/ipv4/conf/eth0.1/rp_filter",
		"kernel":                         "",
		"":                               "",
		".kernel.x":                      "",
		"kernel..x":                      "",
		"kernel/../../etc/passwd":        "",
		"net.ipv4.conf.*.rp_filter":      "",
		"kernel.a b":                     "",
	} {
		if got := knob.SysctlFile(key); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
}

// TestSysctlLines checks that /etc hides /usr/lib, and that the later file name and the later line take effect.
func TestSysctlLines(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	facts := knob.Open(fstest.MapFS{
		"usr/lib/sysctl.d/10-a.conf": file("kernel.a = 1\nkernel.b=1\n"),
		"etc/sysctl.d/10-a.conf":     file("# comment\n; kernel.a=9\n\n-kernel.a = 2\n"),
		"etc/sysctl.d/20-b.conf":     file("kernel.c = 3 # three\nkernel.c=4\nnothing\n=5\n"),
		"etc/sysctl.d/README":        file("kernel.d=1\n"),
		"etc/sysctl.conf":            file("kernel/e=4\t4\n"),
	}).Facts()
	want := map[string]knob.SysctlLine{
		"/proc/sys/kernel/a": {File: "/etc/sysctl.d/10-a.conf", Line: 4, Value: "2"},
		"/proc/sys/kernel/c": {File: "/etc/sysctl.d/20-b.conf", Line: 2, Value: "4"},
		"/proc/sys/kernel/e": {File: "/etc/sysctl.conf", Line: 1, Value: "4 4"},
	}
	if diff := cmp.Diff(want, facts.Sysctls); diff != "" {
		t.Error(diff)
	}
}

func TestUnits(t *testing.T) {
	facts := knob.Open(fstest.MapFS{
		"usr/lib/systemd/system/db.service":                                  {},
		"usr/lib/systemd/system/web@.service":                                {},
		"run/systemd/generator/mounted.service":                              {},
		"run/systemd/generator.late/old.service":                             {},
		"usr/local/lib/systemd/system/own.service":                           {},
		"etc/systemd/system.attached/image.service":                          {},
		"sys/fs/cgroup/cgroup.controllers":                                   {},
		"sys/fs/cgroup/system.slice/app.slice/app-x.slice/x.service/cpu.max": {},
		"sys/fs/cgroup/system.slice/runs.service/cgroup.events":              {Data: []byte("populated 1\nfrozen 0\n")},
		"sys/fs/cgroup/system.slice/stopped.service/cgroup.events":           {Data: []byte("populated 0\nfrozen 0\n")},
		"sys/fs/cgroup/empty.slice/cgroup.events":                            {Data: []byte("populated 0\nfrozen 0\n")},
		"sys/class/net/eth0/device/numa_node":                                {Data: []byte("1\n")},
		"sys/class/net/eth1/device/numa_node":                                {Data: []byte("-1\n")},
		"proc/cmdline":                                                       {Data: []byte("quiet nohz_full=1-3\n")},
	}).Facts()
	for unit, want := range map[string]bool{"mounted.service": true, "old.service": true, "own.service": true, "image.service": true, "db.service": true, "web@1.service": true, "x.service": true, "no.service": false, "no@1.service": false} {
		if facts.HasUnit(unit) != want {
			t.Errorf("%s: %t", unit, !want)
		}
	}
	if !facts.Systemd || facts.Unified == "" || facts.Groups["x.service"] != "/sys/fs/cgroup/system.slice/app.slice/app-x.slice/x.service" {
		t.Errorf("%+v", facts)
	}
	for unit, runs := range map[string]bool{"runs.service": true, "stopped.service": false, "empty.slice": true} {
		if _, has := facts.Groups[unit]; has != runs || !facts.HasUnit(unit) {
			t.Errorf("%s: %t, %t", unit, has, facts.HasUnit(unit))
		}
	}
	if diff := cmp.Diff(map[string]int{"eth0": 1}, facts.NICs); diff != "" || len(facts.Cmdline) != 2 {
		t.Errorf("%v %s", facts.Cmdline, diff)
	}
}

// TestUnitsOfV1 checks that, without the unified hierarchy, the groups of units are those of the CPU controller, and
// their threads are in another file.
func TestUnitsOfV1(t *testing.T) {
	const group = "sys/fs/cgroup/cpu,cpuacct/system.slice/db.service"
	host := knob.Open(fstest.MapFS{
		"sys/fs/cgroup/cpu,cpuacct/cpu.shares":              {},
		"sys/fs/cgroup/unified/system.slice/db.service/x":   {},
		"sys/fs/cgroup/unified/system.slice/idle.service/x": {},
		"usr/lib/systemd/system/idle.service":               {},
		group + "/tasks":                                    {Data: []byte("7\n")},
		group + "/inner/tasks":                              {Data: []byte("8\n")},
		"proc/7/task/7/stat":                                {Data: []byte("7 (a) S" + strings.Repeat(" 0", 36) + " 5 1 0\n")},
		"proc/8/task/8/stat":                                {Data: []byte("8 (b) S" + strings.Repeat(" 0", 36) + " 0 3 0\n")},
	})
	facts := host.Facts()
	if facts.Unified != "" || facts.CPU != "/sys/fs/cgroup/cpu,cpuacct" || facts.Scheduled("db.service") != "/"+group || facts.Scheduled("idle.service") != "" || !facts.HasUnit("db.service") {
		t.Errorf("%+v", facts)
	}
	if got := host.Policies("/" + group); len(got) != 2 || got[0] != "batch" || got[1] != "fifo:5" {
		t.Error(got)
	}
}

// TestThreadsOfTheRunningKernel checks that the running kernel answers for its threads. A kernel may show no slice in
// /proc/PID/sched, or have no such file. A recording has only the files.
func TestThreadsOfTheRunningKernel(t *testing.T) {
	stat := func(policy string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("7 (a) S" + strings.Repeat(" 0", 36) + " 0 " + policy + " 0\n")}
	}
	tree := fstest.MapFS{
		"group/cgroup.threads": {Data: []byte("7\n8\n9\n10\n")},
		"proc/7/task/7/stat":   stat("0"), "proc/8/task/8/stat": stat("3"), "proc/9/task/9/stat": stat("5"), "proc/10/task/10/stat": stat("0"),
		"proc/8/sched": {Data: []byte("se.slice : 2800000\n")},
	}
	all := map[int]sched.Scheduled{7: {Class: sched.Batch, Slice: 7e6}, 8: {Class: sched.Batch}, 9: {Class: sched.RR, Priority: 5, Slice: 9e6}}
	host := knob.Open(tree)
	policies, slices := host.Policies("/group"), host.Slices("/group")
	if diff := cmp.Diff([][]string{{"batch", "idle", "other"}, {"2.8ms"}}, [][]string{policies, slices}); diff != "" {
		t.Errorf("by the files: %s", diff)
	}
	host.Scheduled = func(tid int) (sched.Scheduled, error) {
		if s, there := all[tid]; there {
			return s, nil
		}
		return sched.Scheduled{}, syscall.ESRCH
	}
	policies, slices = host.Policies("/group"), host.Slices("/group")
	if diff := cmp.Diff([][]string{{"batch", "rr:5"}, {"2.8ms", "7ms"}}, [][]string{policies, slices}); diff != "" {
		t.Errorf("by the kernel: %s", diff)
	}
}

// FuzzParse checks that a knob accepts its own output for every accepted value, and that no value breaks a line.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"3ms", "0-3", "on", "-1", "4 4 1 7", "\x00", "9223372036854775807ns"} {
		f.Add("fair.slice", text)
		f.Add("sysctl.kernel.printk", text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		k, ok := knob.Lookup(name)
		if !ok {
			return
		}
		v, err := k.Parse(text)
		if err != nil {
			return
		}
		again, err := k.Parse(v.Text)
		if err != nil || again != v {
			t.Errorf("%s %q: %+v, again %+v, %v", name, text, v, again, err)
		}
		if strings.ContainsAny(k.Written(k.Places[0], v), "\n\x00") {
			t.Errorf("%s %q writes two lines", name, text)
		}
	})
}
