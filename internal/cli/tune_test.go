package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/cli"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/driver/hostfile"
	"github.com/berth-project/berth/internal/engine/journal"
)

const kernelsDir = "../../testdata/kernels/"

// TestTuneOutput compares the output of the commands with golden files.
func TestTuneOutput(t *testing.T) {
	for name, args := range map[string][]string{
		"list.txt":                  {"list", "--root", kernelsDir + "6.12.txtar"},
		"schema.json":               {"list", "--schema", "--root", kernelsDir + "6.12.txtar"},
		"plan-hpc-sched-5.10.txt":   {"plan", "hpc-sched", "--root", kernelsDir + "5.10.txtar"},
		"plan-hpc-sched-6.1.txt":    {"plan", "hpc-sched", "--root", kernelsDir + "6.1.txtar"},
		"plan-hpc-sched-6.12.txt":   {"plan", "hpc-sched", "--root", kernelsDir + "6.12.txtar"},
		"plan-hpc-sched-7.2.txt":    {"plan", "hpc-sched", "--root", kernelsDir + "7.2.txtar"},
		"plan-low-latency-6.18.txt": {"plan", "low-latency", "--root", kernelsDir + "6.18-guest.txtar"},
		"plan-dpdk-6.12.json":       {"plan", "dpdk", "-o", "json", "--root", kernelsDir + "6.12.txtar"},
		"plan-numa-services.yaml":   {"plan", "numa-services", "-o", "yaml", "--root", kernelsDir + "6.1.txtar"},
		"import-sysctl-6.1.txt":     {"import", "../capability/tune/testdata/95-scheduler.conf", "--root", kernelsDir + "6.1.txtar"},
		"import-sysctl-6.12.txt":    {"import", "../capability/tune/testdata/95-scheduler.conf", "--root", kernelsDir + "6.12.txtar"},
		"import-tuned-6.12.json":    {"import", "../capability/tune/testdata/tuned.conf", "-o", "json", "--root", kernelsDir + "6.12.txtar"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := berthRun(t, append([]string{"tune"}, args...)...)
			if code != 0 || errs != "" {
				t.Fatalf("exit %d, %s", code, errs)
			}
			golden(t, name, out)
		})
	}
}

// golden compares an output with a golden file.
func golden(t *testing.T, name, out string) {
	t.Helper()
	file := filepath.Join("testdata/tune", name)
	if *update {
		if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(content(t, file), out); diff != "" {
		t.Errorf("-update writes %s (-file +now):\n%s", file, diff)
	}
}

// TestTuneTablesFitTheScreen: every built-in profile fits the screen on every recorded kernel.
func TestTuneTablesFitTheScreen(t *testing.T) {
	kernels, err := filepath.Glob(kernelsDir + "*.txtar")
	if err != nil || len(kernels) == 0 {
		t.Fatal("no kernels", err)
	}
	for _, kernel := range kernels {
		for _, name := range profile.BuiltIns() {
			args := []string{"tune", "plan", name, "--root", kernel}
			if code, out, errs := berthRun(t, args...); code == 0 {
				fits(t, args, out)
			} else if code != 2 || name != "numa-services" {
				t.Errorf("%q: exit %d, %s", args, code, errs)
			}
		}
		args := []string{"tune", "import", "../capability/tune/testdata/95-scheduler.conf", "--root", kernel}
		_, out, _ := berthRun(t, args...)
		fits(t, args, out)
	}
}

// terminal is a screen of 80 columns.
type terminal struct{ bytes.Buffer }

func (*terminal) Columns() int { return 80 }

// TestTuneFitsATerminal: plans and imports fit 80 columns. One of them is also compared with a golden file.
func TestTuneFitsATerminal(t *testing.T) {
	kernels, err := filepath.Glob(kernelsDir + "*.txtar")
	if err != nil || len(kernels) == 0 {
		t.Fatal("no kernels", err)
	}
	for _, kernel := range kernels {
		all := [][]string{{"import", "../capability/tune/testdata/95-scheduler.conf"}, {"import", "../capability/tune/testdata/tuned.conf"}}
		for _, name := range profile.BuiltIns() {
			all = append(all, []string{"plan", name})
		}
		for _, args := range all {
			var screen terminal
			_ = cli.Run(t.Context(), append(append([]string{"tune"}, args...), "--root", kernel), cli.Streams{In: strings.NewReader(""), Out: &screen, Err: io.Discard}, "test")
			out := screen.String()
			for line := range strings.Lines(out) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > screen.Columns() {
					t.Errorf("%s, %q: %d columns: %s", kernel, args, n, line)
				}
			}
			if kernel == kernelsDir+"6.12.txtar" && args[1] == "low-latency" {
				golden(t, "plan-low-latency-80.txt", out)
			}
		}
	}
}

// TestTuneContract: scripts rely on the keys of the JSON.
func TestTuneContract(t *testing.T) {
	keys := func(list any) []string {
		rows, _ := list.([]any)
		if len(rows) == 0 {
			return nil
		}
		row, _ := rows[0].(map[string]any)
		return slices.Sorted(maps.Keys(row))
	}
	var plan, imported map[string]any
	_, out, _ := berthRun(t, "tune", "plan", "hpc-sched", "-o", "json", "--root", kernelsDir+"6.12.txtar")
	if err := json.Unmarshal([]byte(out), &plan); err != nil {
		t.Fatal(err)
	}
	_, out, _ = berthRun(t, "tune", "import", "../capability/tune/testdata/95-scheduler.conf", "-o", "json", "--root", kernelsDir+"6.12.txtar")
	if err := json.Unmarshal([]byte(out), &imported); err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"findings", "profile", "refuses", "settings"},
		{"class", "file", "instance", "knob", "now", "optional", "reboot", "risk", "support", "want", "why"},
		{"code", "severity", "text"},
		{"lines", "profile"},
		{"instead", "knob", "line", "since", "text", "verdict", "why"},
	}
	got := [][]string{
		slices.Sorted(maps.Keys(plan)), keys(plan["settings"]), keys(plan["findings"]),
		slices.Sorted(maps.Keys(imported)), keys(imported["lines"]),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestTuneWritesNothing: list, plan and import change no file of the host.
func TestTuneWritesNothing(t *testing.T) {
	dir := bigHost(t, 8)
	before := digest(t, dir)
	for _, args := range [][]string{{"list"}, {"plan", "dpdk"}, {"plan", "low-latency"}, {"import", "../capability/tune/testdata/tuned.conf"}} {
		if code, _, errs := berthRun(t, append(append([]string{"tune"}, args...), "--root", dir)...); code != 0 {
			t.Errorf("%q: exit %d, %s", args, code, errs)
		}
	}
	if diff := cmp.Diff(before, digest(t, dir)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

// TestPlanNamesTheHolder: a setting that the agent has on record is not settable, even if it is optional. The apply
// refuses it with the same words.
func TestPlanNamesTheHolder(t *testing.T) {
	const boot, file, words = "11111111-2222-3333-4444-555555555555", "/proc/sys/kernel/numa_balancing", `the agent holds it, for workload "redis"`
	dir := bigHost(t, 8)
	write(t, dir, "proc/sys/kernel/random/boot_id", boot+"\n")
	write(t, dir, "p.yaml", `apiVersion: berth.dev/v1alpha1
kind: Profile
metadata: {name: p}
spec: {settings: {numa.balancing: {value: off, optional: true}, thp.enabled: never}}
`)
	j, err := journal.Open(filepath.Join(dir, "var/lib/berth"), boot, driver.Values())
	if err != nil {
		t.Fatal(err)
	}
	at, err := hostfile.Target(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Begin(journal.Entry{Target: at, ID: "x", Original: "1", Owner: "place", Workload: "redis"}), j.Close()); err != nil {
		t.Fatal(err)
	}
	var plan struct {
		Refuses  []string
		Settings []struct{ Knob, Support, Why string }
	}
	code, out, errs := berthRun(t, "tune", "plan", filepath.Join(dir, "p.yaml"), "--root", dir, "-o", "json")
	if err := json.Unmarshal([]byte(out), &plan); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s", code, err, errs)
	}
	if !slices.Equal(plan.Refuses, []string{"numa.balancing"}) {
		t.Errorf("refuses %q", plan.Refuses)
	}
	for _, s := range plan.Settings {
		if held := s.Knob == "numa.balancing"; held != (s.Support == "readOnly" && s.Why == words) || held == (s.Support == "settable") {
			t.Errorf("%+v", s)
		}
	}
	if code, _, errs := berthRun(t, "tune", "apply", filepath.Join(dir, "p.yaml"), "--root", dir); code != 4 || !strings.Contains(errs, words) {
		t.Errorf("apply: exit %d, %s", code, errs)
	}
}

// TestTuneImportsTextOnly: a file that is binary or too large is refused in one sentence.
func TestTuneImportsTextOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "core")
	want := "berth: bad usage: import " + file + ": allowed: a text of at most 1048576 bytes\n"
	for _, text := range []string{"a\x00b", strings.Repeat("#", 1<<20+1)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, errs := berthRun(t, "tune", "import", file); code != 2 || errs != want {
			t.Errorf("exit %d, %q, want %q", code, errs, want)
		}
	}
}

func digest(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		all[name] = fmt.Sprint(content(t, name), info.ModTime(), info.Mode())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTuneCompletesProfiles: the shell completes the names of built-in profiles and of the user's own.
func TestTuneCompletesProfiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "etc/berth/profiles/mine.yaml", "# own")
	_, out, _ := berthRun(t, "__complete", "tune", "plan", "--root", dir, "")
	for _, name := range append(profile.BuiltIns(), "mine") {
		if !strings.Contains(out, name+"\n") {
			t.Errorf("%s is not offered: %s", name, out)
		}
	}
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// bigHost writes the files of a host with two NUMA nodes, two threads per core and frequency control. Each CPU has an
// interrupt and a network queue.
func bigHost(t testing.TB, cpus int) string {
	t.Helper()
	dir := t.TempDir()
	half := cpus / 2
	for cpu := range cpus {
		at := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", cpu)
		core := cpu % half
		write(t, dir, at+"topology/thread_siblings_list", fmt.Sprintf("%d,%d\n", core, core+half))
		write(t, dir, at+"topology/physical_package_id", fmt.Sprintln(core/(half/2)))
		write(t, dir, at+"topology/core_id", fmt.Sprintln(core))
		write(t, dir, at+"power/pm_qos_resume_latency_us", "0\n")
		for index, cache := range []string{"1 Data", "1 Instruction", "2 Unified", "3 Unified"} {
			level, kind, _ := strings.Cut(cache, " ")
			shared := fmt.Sprintf("%d,%d\n", core, core+half)
			if level == "3" {
				first := core - core%8
				shared = fmt.Sprintf("%d-%d,%d-%d\n", first, first+7, first+half, first+half+7)
			}
			write(t, dir, fmt.Sprintf("%scache/index%d/level", at, index), level+"\n")
			write(t, dir, fmt.Sprintf("%scache/index%d/type", at, index), kind+"\n")
			write(t, dir, fmt.Sprintf("%scache/index%d/shared_cpu_list", at, index), shared)
		}
		policy := fmt.Sprintf("sys/devices/system/cpu/cpufreq/policy%d/", cpu)
		write(t, dir, policy+"scaling_governor", "schedutil\n")
		write(t, dir, policy+"scaling_available_governors", "performance schedutil\n")
		write(t, dir, fmt.Sprintf("proc/irq/%d/smp_affinity_list", cpu+1), fmt.Sprintf("0-%d\n", cpus-1))
		write(t, dir, fmt.Sprintf("sys/class/net/eth0/queues/rx-%d/rps_cpus", cpu), "0\n")
	}
	for node := range 2 {
		at := fmt.Sprintf("sys/devices/system/node/node%d/", node)
		first := node * half / 2
		write(t, dir, at+"cpulist", fmt.Sprintf("%d-%d,%d-%d\n", first, first+half/2-1, first+half, first+half+half/2-1))
		write(t, dir, at+"meminfo", fmt.Sprintf("Node %d MemTotal: 1048576 kB\n", node))
	}
	write(t, dir, "sys/devices/system/cpu/online", fmt.Sprintf("0-%d\n", cpus-1))
	write(t, dir, "sys/devices/system/cpu/present", fmt.Sprintf("0-%d\n", cpus-1))
	write(t, dir, "sys/class/net/eth0/device/numa_node", "0\n")
	write(t, dir, "sys/kernel/debug/sched/base_slice_ns", "2800000\n")
	write(t, dir, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
	write(t, dir, "proc/sys/kernel/numa_balancing", "1\n")
	write(t, dir, "proc/irq/default_smp_affinity", "ff\n")
	write(t, dir, "proc/cmdline", "quiet\n")
	return dir
}

// BenchmarkTunePlan plans every built-in kind of knob at 512 CPUs, and a unit with 1,000 threads, from the files of a
// directory. The goal is 200 ms. On a busy machine its CPU time is what to compare.
func BenchmarkTunePlan(b *testing.B) {
	dir := bigHost(b, 512)
	group := "sys/fs/cgroup/system.slice/db.service/"
	var threads strings.Builder
	for tid := 10_000; tid < 11_000; tid++ {
		fmt.Fprintln(&threads, tid)
		write(b, dir, fmt.Sprintf("proc/%d/task/%[1]d/stat", tid), fmt.Sprintf("%d (db) S%s\n", tid, strings.Repeat(" 0", 49)))
	}
	write(b, dir, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n")
	write(b, dir, group+"cpuset.cpus", "0-511\n")
	write(b, dir, group+"cgroup.threads", threads.String())
	write(b, dir, "p.yaml", `apiVersion: berth.dev/v1alpha1
kind: Profile
metadata: {name: p}
spec: {inherit: dpdk, units: [{unit: db.service, cpus: fast, policy: "fifo:40"}]}
`)
	before := cpuTime(b)
	defer func() { b.ReportMetric(float64((cpuTime(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op") }()
	for b.Loop() {
		args := []string{"tune", "plan", filepath.Join(dir, "p.yaml"), "--root", dir}
		if code := cli.Run(b.Context(), args, cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: os.Stderr}, "test"); code != 0 {
			b.Fatal("exit code", code)
		}
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
