package knob_test

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/linux/knob"
)

func lookup(t *testing.T, name string) knob.Knob {
	t.Helper()
	k, ok := knob.Lookup(name)
	if !ok {
		t.Fatalf("no knob %s", name)
	}
	return k
}

// TestPlacesByKernel checks that a knob is found at its place on each kernel.
func TestPlacesByKernel(t *testing.T) {
	const sched = "/sys/kernel/debug/sched/"
	type found struct {
		Support        knob.Support
		File, Now, Why string
	}
	for _, tt := range []struct {
		kernel, knob string
		want         found
	}{
		{"5.10", "fair.slice", found{knob.Settable, "/proc/sys/kernel/sched_min_granularity_ns", "2.25ms", ""}},
		{"6.1", "fair.slice", found{knob.Settable, sched + "min_granularity_ns", "2.25ms", ""}},
		{"6.12", "fair.slice", found{knob.Settable, sched + "base_slice_ns", "2.1ms", ""}},
		{"6.18", "fair.slice", found{knob.Settable, sched + "base_slice_ns", "2.1ms", ""}},
		{"7.2", "fair.slice", found{knob.Settable, sched + "base_slice_ns", "2.1ms", ""}},
		{"6.12-lockdown", "fair.slice", found{knob.ReadOnly, sched + "base_slice_ns", "2.1ms", "kernel lockdown closes the files of debugfs"}},
		{"6.12-lockdown", "fair.nrMigrate", found{knob.ReadOnly, sched + "nr_migrate", "", "kernel lockdown closes the files of debugfs"}},
		{"5.10", "fair.migrationCost", found{knob.Settable, "/proc/sys/kernel/sched_migration_cost_ns", "500us", ""}},
		{"7.2", "fair.migrationCost", found{knob.Settable, sched + "migration_cost_ns", "500us", ""}},
		{"5.10", "sched.preempt", found{knob.Absent, "", "", "this host has no " + sched + "preempt"}},
		{"6.12", "sched.preempt", found{knob.Settable, sched + "preempt", "voluntary", ""}},
		{"7.2", "sched.preempt", found{knob.Settable, sched + "preempt", "lazy", ""}},
		{"5.10", "rt.runtime", found{knob.Settable, "/proc/sys/kernel/sched_rt_runtime_us", "950ms", ""}},
		{"7.2", "rt.runtime", found{knob.Settable, "/proc/sys/kernel/sched_rt_runtime_us", "1s", ""}},
		{"6.12", "rr.slice", found{knob.Settable, "/proc/sys/kernel/sched_rr_timeslice_ms", "100ms", ""}},
		{"6.12", "numa.balancing", found{knob.Settable, "/proc/sys/kernel/numa_balancing", "on", ""}},
		{"6.12", "thp.enabled", found{knob.Settable, "/sys/kernel/mm/transparent_hugepage/enabled", "always", ""}},
		{"6.12", "workqueue.cpus", found{knob.Settable, "/sys/devices/virtual/workqueue/cpumask", "0-3", ""}},
		{"6.1", "irq.default", found{knob.Settable, "/proc/irq/default_smp_affinity", "0-3", ""}},
		{"6.1", "cpu.governor", found{knob.Absent, "", "", "this host has no /sys/devices/system/cpu/cpufreq/policy[0-9]*/scaling_governor"}},
		{"6.1", "sysctl.kernel.no_such", found{knob.Absent, "", "", "this host has no /proc/sys/kernel/no_such"}},
	} {
		t.Run(tt.kernel+" "+tt.knob, func(t *testing.T) {
			got := knob.Open(kernel(t, tt.kernel)).Probe(lookup(t, tt.knob))
			if len(got) != 1 {
				t.Fatalf("%d instances", len(got))
			}
			if diff := cmp.Diff(tt.want, found{got[0].Support, got[0].File, got[0].Now, got[0].Why}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestInstances checks that there is one Found for each CPU, interrupt and queue of a device, in numerical order, each
// with its own support.
func TestInstances(t *testing.T) {
	nic := fstest.MapFS{
		"proc/irq/9/smp_affinity_list": {Data: []byte("0-1\n"), Mode: 0o644}, "proc/irq/12/smp_affinity_list": {Data: []byte("0-3\n"), Mode: 0o444},
		"sys/class/net/eth0/device": {Mode: fs.ModeDir}, "sys/class/net/eth0/queues/rx-0/rps_cpus": {Data: []byte("0\n"), Mode: 0o644},
		"sys/class/net/lo/queues/rx-0/rps_cpus": {Data: []byte("0\n"), Mode: 0o644},
	}
	for name, tt := range map[string]struct {
		tree fs.FS
		want string
	}{
		"cpu.resumeLatency": {kernel(t, "6.12"), "cpu0 any settable, cpu1 any settable, cpu2 any settable, cpu3 any settable"},
		"irq.affinity":      {nic, "9 0-1 settable, 12 0-3 readOnly"},
		"net.rps":           {nic, "eth0/rx-0  settable"},
	} {
		var got []string
		for _, f := range knob.Open(tt.tree).Probe(lookup(t, name)) {
			got = append(got, strings.Join([]string{f.Instance, f.Now, string(f.Support)}, " "))
		}
		if joined := strings.Join(got, ", "); joined != tt.want {
			t.Errorf("%s: %s, want %s", name, joined, tt.want)
		}
	}
}

// TestFixedInterrupts checks that the timer's interrupt cannot be moved on any recorded kernel that says so by the mode
// of the file, and that the others can.
func TestFixedInterrupts(t *testing.T) {
	for _, name := range []string{"6.12", "6.18", "7.2"} {
		var fixed []string
		for _, f := range knob.Open(kernel(t, name)).Probe(lookup(t, "irq.affinity")) {
			if f.Support == knob.ReadOnly {
				fixed = append(fixed, f.Instance)
			}
		}
		if got := strings.Join(fixed, " "); got != "0 2" {
			t.Errorf("%s: interrupts %s, want 0 and 2", name, got)
		}
	}
}

// TestHidden checks that files which cannot be seen or written from here are distinguished from files that do not
// exist.
func TestHidden(t *testing.T) {
	mounts := func(lines ...string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(strings.Join(lines, "\n"))} }
	const (
		proc  = "22 27 0:21 / /proc rw,relatime - proc proc rw"
		ro    = "25 22 0:21 /sys /proc/sys ro,relatime - proc proc rw"
		sysfs = "23 27 0:22 / /sys rw,relatime - sysfs sysfs rw"
	)
	file := &fstest.MapFile{Data: []byte("1\n"), Mode: 0o644}
	for name, tt := range map[string]struct {
		tree fstest.MapFS
		knob string
		want knob.Support
		why  string
	}{
		"debugfs is not mounted": {
			fstest.MapFS{"proc/self/mountinfo": mounts(proc, sysfs), "proc/sys/kernel/x": file, "sys/kernel/debug": {Mode: fs.ModeDir}},
			"fair.slice", knob.Unknown, "debugfs is not mounted",
		},
		"no debugfs in a copied tree": {
			fstest.MapFS{"proc/sys/kernel/x": file, "sys/kernel/x": file}, "fair.slice", knob.Unknown, "not in this tree",
		},
		"/proc/sys for reading": {
			fstest.MapFS{"proc/self/mountinfo": mounts(proc, ro, sysfs), "proc/sys/kernel/numa_balancing": file},
			"numa.balancing", knob.ReadOnly, "/proc/sys is mounted for reading only",
		},
		"no /proc/sys at all": {fstest.MapFS{"sys/kernel/x": file}, "numa.balancing", knob.Unknown, "not visible"},
		"no /sys at all":      {fstest.MapFS{"proc/sys/kernel/x": file}, "thp.enabled", knob.Unknown, "not visible"},
		"a mode without write": {
			fstest.MapFS{"proc/sys/kernel/numa_balancing": {Data: []byte("1"), Mode: 0o444}}, "numa.balancing", knob.ReadOnly, "for reading only",
		},
		"not for this user": {
			fstest.MapFS{"modes": {Data: []byte("denied proc/sys/kernel/numa_balancing\n")}}, "numa.balancing", knob.Unknown, "run it as root",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := knob.Open(tt.tree).Probe(lookup(t, tt.knob))
			if len(got) != 1 || got[0].Support != tt.want || !strings.Contains(got[0].Why, tt.why) {
				t.Errorf("%+v, want %s: %s", got, tt.want, tt.why)
			}
		})
	}
}

// closed is a tree with one directory that this user may not enter.
type closed struct {
	fstest.MapFS
	dir string
}

func (c closed) Stat(name string) (fs.FileInfo, error) {
	if strings.HasPrefix(name, c.dir+"/") {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: syscall.EACCES}
	}
	return c.MapFS.Stat(name)
}

// TestUnprivileged checks that the content of a directory which this user may not enter counts as unknown.
func TestUnprivileged(t *testing.T) {
	tree := closed{fstest.MapFS{"proc/sys/kernel/x": {}, "sys/kernel/debug/sched/nr_migrate": {}}, "sys/kernel/debug"}
	for name, want := range map[string]knob.Support{"fair.slice": knob.Unknown, "fair.nrMigrate": knob.Unknown, "numa.balancing": knob.Absent} {
		if got := knob.Open(tree).Probe(lookup(t, name)); got[0].Support != want {
			t.Errorf("%s: %+v, want %s", name, got, want)
		}
	}
	again := fstest.MapFS{}
	for file, content := range knob.Record(tree) {
		again[file] = &fstest.MapFile{Data: content}
	}
	if got := knob.Open(again).Probe(lookup(t, "fair.nrMigrate")); got[0].Support != knob.Unknown {
		t.Errorf("recorded: %+v", got)
	}
}

// TestRecordedAgain checks that a recording of a tree gives the same answers as the tree.
func TestRecordedAgain(t *testing.T) {
	trees := map[string]fs.FS{"a host": fstest.MapFS{
		"proc/irq/7/smp_affinity_list":   {Data: []byte("0-3\n"), Mode: 0o444},
		"proc/irq/8/smp_affinity_list":   {Data: []byte("0-3\n"), Mode: 0o644},
		"proc/sys/kernel/numa_balancing": {Data: []byte("1\n"), Mode: 0o644},
	}}
	trees["a CPU that is offline"] = offline{fstest.MapFS{
		"sys/devices/system/cpu/cpufreq/policy0/scaling_governor": {Data: []byte("schedutil\n"), Mode: 0o644},
		"sys/devices/system/cpu/cpufreq/policy1/scaling_governor": {Data: []byte("schedutil\n"), Mode: 0o644},
	}}
	for _, name := range kernels(t) {
		trees[name] = kernel(t, name)
	}
	for name, tree := range trees {
		again := fstest.MapFS{}
		for file, content := range knob.Record(tree) {
			again[file] = &fstest.MapFile{Data: content}
		}
		want, got := knob.Open(tree).Survey(knob.Names()), knob.Open(again).Survey(knob.Names())
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-tree +recorded):\n%s", name, diff)
		}
	}
}

// offline is a host whose first frequency policy has no online CPU.
type offline struct{ fs.FS }

func (o offline) ReadFile(name string) ([]byte, error) {
	if strings.Contains(name, "/policy0/") {
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EBUSY}
	}
	return fs.ReadFile(o.FS, name)
}

// TestRecordKeepsLittle checks that a recording omits everything that no knob needs, because it may be secret.
func TestRecordKeepsLittle(t *testing.T) {
	tree := fstest.MapFS{
		"proc/sys/kernel/osrelease":        {Data: []byte("6.1.0\n")},
		"proc/sys/kernel/hostname":         {Data: []byte("secret\n")},
		"boot/config-6.1.0":                {Data: []byte("CONFIG_SECRET=secret\nCONFIG_HZ=1000\nCONFIG_RT_GROUP_SCHED=y\n")},
		"proc/self/mountinfo":              {Data: []byte("1 2 0:1 / /home/secret rw - ext4 /dev/secret rw\n22 27 0:21 / /proc rw - proc proc rw\n")},
		"proc/sys/kernel/sched_latency_ns": {Data: []byte("1\n")},

		"modes":                                {Data: []byte("locked sys/kernel/debug/sched/base_slice_ns\n")},
		"sys/kernel/debug/sched/base_slice_ns": {},
		"sys/kernel/debug/sched/debug":         {Data: []byte("sysctl_sched\n  .sysctl_sched_base_slice                 : 2.100000\n\nrunnable tasks:\n S         secret     1      1042.2\n")},
	}
	got := knob.Record(tree)
	for name, content := range got {
		if strings.Contains(name+string(content), "secret") {
			t.Errorf("%s: %s", name, content)
		}
	}
	if string(got["boot/config-6.1.0"]) != "CONFIG_HZ=1000\nCONFIG_RT_GROUP_SCHED=y\n" || got["proc/sys/kernel/sched_latency_ns"] == nil {
		t.Errorf("%q", got)
	}
	if text := string(got["sys/kernel/debug/sched/debug"]); strings.TrimSpace(text) != ".sysctl_sched_base_slice                 : 2.100000" {
		t.Errorf("sched/debug: %q", text)
	}
}

// TestRTGroups checks that the configuration determines whether groups have a budget for real-time threads, and that
// the boot argument takes precedence.
func TestRTGroups(t *testing.T) {
	const built, off = "CONFIG_HZ=250\nCONFIG_RT_GROUP_SCHED=y\n", "CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y\n"
	for _, tc := range []struct {
		config, cmdline string
		want            bool
	}{
		{"CONFIG_HZ=250\n# CONFIG_RT_GROUP_SCHED is not set\n", "rt_group_sched=1", false},
		{built, "quiet", true},
		{built, "rt_group_sched=0", false},
		{built + off, "quiet", false},
		{built + off, "quiet rt_group_sched=1", true},
	} {
		tree := fstest.MapFS{
			"proc/sys/kernel/osrelease": {Data: []byte("6.16\n")}, "boot/config-6.16": {Data: []byte(tc.config)}, "proc/cmdline": {Data: []byte(tc.cmdline)},
		}
		if got := knob.Open(tree).Facts().RTGroups; got != tc.want {
			t.Errorf("%q with %q: %v", tc.config, tc.cmdline, got)
		}
	}
}

// TestRTRoot checks that the root group's budget comes from a file on cgroup v1, and is the boot's default on cgroup
// v2.
func TestRTRoot(t *testing.T) {
	const cpu = "sys/fs/cgroup/cpu/"
	v1 := func(runtime, period string) map[string]string {
		return map[string]string{cpu + "cpu.shares": "1024", cpu + "cpu.rt_runtime_us": runtime, cpu + "cpu.rt_period_us": period}
	}
	v2 := map[string]string{"sys/fs/cgroup/cgroup.controllers": "cpu"}
	for name, tc := range map[string]struct {
		cmdline, period string
		files           map[string]string
		want            int64
	}{
		"v1":                 {"", "1000000", v1("800000", "1000000"), 800_000},
		"v1 without a limit": {"", "1000000", v1("-1", "1000000"), 1_000_000},
		"v1, another period": {"", "1000000", v1("400000", "500000"), 0},
		"v1 without budgets": {"rt_group_sched=0", "1000000", map[string]string{cpu + "cpu.shares": "1024"}, 0},
		"v2":                 {"", "1000000", v2, 950_000},
		"v2, another period": {"", "500000", v2, 0},
		"v2 without budgets": {"rt_group_sched=0", "1000000", v2, 0},
		"neither of the two": {"", "1000000", nil, 0},
	} {
		tree := fstest.MapFS{
			"proc/sys/kernel/osrelease": {Data: []byte("6.16\n")}, "boot/config-6.16": {Data: []byte("CONFIG_RT_GROUP_SCHED=y\n")},
			"proc/cmdline": {Data: []byte(tc.cmdline)}, "proc/sys/kernel/sched_rt_period_us": {Data: []byte(tc.period + "\n")},
		}
		for file, text := range tc.files {
			tree[file] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
		if got := knob.Open(tree).Facts().RTRoot; got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// TestElsewhere checks where each kernel has the sysctls that moved.
func TestElsewhere(t *testing.T) {
	for _, tt := range []struct{ kernel, sysctl, want string }{
		{"6.1", "kernel.sched_latency_ns", "fair.latency (/sys/kernel/debug/sched/latency_ns)"},
		{"6.12", "kernel.sched_latency_ns", "nothing: the fair class has no latency target any more; fair.slice sets its slice"},
		{"6.18-guest", "kernel.sched_latency_ns", "fair.latency before Linux 6.6 (debugfs is not mounted at /sys/kernel/debug, and Berth mounts nothing); since then nothing: the fair class has no latency target any more; fair.slice sets its slice"},
		{"6.1", "kernel.sched_min_granularity_ns", "fair.slice (/sys/kernel/debug/sched/min_granularity_ns)"},
		{"7.2", "kernel.sched_min_granularity_ns", "fair.slice (/sys/kernel/debug/sched/base_slice_ns)"},
		{"6.12", "kernel.sched_wakeup_granularity_ns", "policy batch for units that may wait; a slice per unit on Linux 6.12 and newer"},
		{"6.12-lockdown", "kernel.sched_nr_migrate", "fair.nrMigrate (/sys/kernel/debug/sched/nr_migrate), which cannot be set: kernel lockdown closes the files of debugfs"},
		{"6.12", "kernel.numa_balancing_scan_size_mb", "/sys/kernel/debug/sched/numa_balancing/scan_size_mb, for which Berth has no knob"},
		{"6.12", "kernel.numa_balancing_scan_delay_ms", "/sys/kernel/debug/sched/numa_balancing/scan_delay_ms, for which Berth has no knob"},
	} {
		m, ok := knob.Move(tt.sysctl)
		if !ok {
			t.Fatal(tt.sysctl)
		}
		if got := knob.Open(kernel(t, tt.kernel)).Elsewhere(m); got.Text != tt.want {
			t.Errorf("%s %s: %s", tt.kernel, tt.sysctl, got.Text)
		}
	}
}
