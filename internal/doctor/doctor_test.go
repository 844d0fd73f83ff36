package doctor_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/doctor"
)

// fault is an invented machine with a fault, or nearly one.
type fault struct {
	code string
	want doctor.Severity // "" if the check must find nothing
	what string
	make func(host)
}

func TestHealthyHost(t *testing.T) {
	h := healthy(t)
	report := doctor.Examine(sample(t, h.before), sample(t, h.now))
	if diff := cmp.Diff(map[string]doctor.Severity{"not-overloaded": doctor.Info}, codes(report)); diff != "" {
		t.Errorf("a healthy host (-want +got):\n%s\n%+v", diff, report.Findings)
	}
	if report.Skipped == nil || len(report.Skipped) > 0 {
		t.Errorf("not checked: %#v, want an empty list, which is no null in JSON", report.Skipped)
	}
}

// TestChecks checks that every check finds its fault, and finds none in a case that is nearly a fault.
func TestChecks(t *testing.T) {
	red, green := map[string]bool{}, map[string]bool{}
	base := healthy(t)
	for _, f := range slices.Concat(waitFaults(), limitFaults(), memoryFaults(), isolationFaults(), knobFaults()) {
		t.Run(f.code+" "+f.what, func(t *testing.T) {
			h := base.clone()
			f.make(h)
			report := h.examine(t)
			if got := codes(report)[f.code]; got != f.want {
				t.Errorf("severity %q, want %q: %+v, not checked %+v", got, f.want, report.Findings, report.Skipped)
			}
			if f.want != "" && f.want != doctor.Info && report.Findings[0].Code != f.code {
				t.Errorf("%s comes first: %+v", report.Findings[0].Code, report.Findings)
			}
		})
		if f.want == "" {
			green[f.code] = true
		} else {
			red[f.code] = true
		}
	}
	for _, c := range doctor.Checks() {
		if !red[c.Code] || !green[c.Code] {
			t.Errorf("%s: found in a case: %v, not found in a case: %v", c.Code, red[c.Code], green[c.Code])
		}
	}
}

func waitFaults() []fault {
	hogs := func(h host, n int, allowed string, wait float64) {
		for i := range n {
			h.runs(task{pid: 200 + i, comm: "hog", state: 'R', cpu: 0, allowed: allowed, run: 2.5, wait: wait, turns: 100, forced: 90, given: 10})
		}
		h.busy(only(0, 1), each(0), each(0))
	}
	stuck := func(h host, n int, wchan string) {
		for i := range n {
			h.runs(task{pid: 300 + i, comm: "fio", state: 'D', allowed: "0-7", wchan: wchan})
		}
	}
	preempted := func(h host, turns, forced int, wait float64) {
		h.runs(task{pid: 400, comm: "batch", state: 'R', cpu: 2, allowed: "0-7", run: 2, wait: wait, turns: turns, forced: forced, given: turns - forced})
	}
	return []fault{
		{"not-overloaded", "", "load of 2 a CPU", func(h host) { h.both("proc/loadavg", "16.00 1 1 1/9 9\n") }},
		{"not-overloaded", doctor.Info, "load of 0.1", func(host) {}},
		{"uninterruptible", doctor.Warning, "four in I/O", func(h host) { stuck(h, 4, "folio_wait_bit") }},
		{"uninterruptible", "", "one in I/O", func(h host) { stuck(h, 1, "folio_wait_bit") }},
		{"uninterruptible", "", "a paused container", func(h host) { stuck(h, 4, "__refrigerator") }},
		{"uninterruptible", "", "more that run", func(h host) {
			stuck(h, 2, "folio_wait_bit")
			hogs(h, 4, "0-7", 0)
		}},
		{"confined", doctor.Warning, "two hogs on one CPU", func(h host) { hogs(h, 2, "0", 2.5) }},
		{"confined", "", "two hogs that may go anywhere", func(h host) { hogs(h, 2, "0-7", 2.5) }},
		{"confined", "", "nothing is idle", func(h host) {
			hogs(h, 2, "0", 2.5)
			h.busy(each(0.97), each(0), each(0))
		}},
		{"confined", "", "the hypervisor takes the CPUs", func(h host) {
			hogs(h, 2, "0", 2.5)
			h.busy(each(0.1), each(0), each(0.2))
		}},
		{"overloaded", doctor.Warning, "twelve hogs on eight CPUs", func(h host) { full(h, 12, 0) }},
		{"overloaded", doctor.Warning, "a load that began a moment ago", func(h host) {
			full(h, 12, 0)
			h.both("proc/loadavg", "2.00 1 1 9/9 9\n")
		}},
		{"overloaded", "", "eight hogs on eight CPUs", func(h host) { full(h, 8, 0) }},
		{"overloaded", "", "a tenth is idle", func(h host) { full(h, 12, 0.1) }},
		{"overloaded", "", "the hypervisor takes the CPUs", func(h host) {
			full(h, 12, 0)
			h.busy(each(0.7), each(0), each(0.3))
		}},
		{"not-overloaded", "", "a load that began a moment ago", func(h host) {
			full(h, 12, 0)
			h.both("proc/loadavg", "2.00 1 1 9/9 9\n")
		}},
		{"over-preempted", doctor.Warning, "5,000 short turns", func(h host) { preempted(h, 5000, 4000, 2) }},
		{"over-preempted", "", "it gives way by itself", func(h host) { preempted(h, 5000, 1000, 2) }},
		{"over-preempted", "", "it waits little", func(h host) { preempted(h, 5000, 4000, 0.2) }},
		{"over-preempted", "", "whole slices", func(h host) { preempted(h, 700, 600, 2) }},
		{"migration-cost", doctor.Warning, "8 ms, work waits beside idle CPUs", func(h host) {
			h.both(debugDir+"migration_cost_ns", "8000000\n")
			hogs(h, 2, "0-7", 2.5)
		}},
		{"migration-cost", doctor.Info, "8 ms, nothing waits", func(h host) { h.both(debugDir+"migration_cost_ns", "8000000\n") }},
		{"migration-cost", "", "5 ms", func(h host) { h.both(debugDir+"migration_cost_ns", "5000000\n") }},
	}
}

func limitFaults() []fault {
	throttled := func(h host, times int) {
		h.now[groupDir+"cpu.stat"] = fmt.Sprintf("nr_periods 50\nnr_throttled %d\nthrottled_usec 900000\n", times)
	}
	realtime := func(h host, run float64, cpu, policy int) {
		h.runs(task{pid: 500, comm: "agent", state: 'R', cpu: cpu, policy: policy, prio: 50, allowed: "0-7", run: run})
	}
	return []fault{
		{"throttled", doctor.Critical, "45 of 50 periods", func(h host) { throttled(h, 45) }},
		{"throttled", doctor.Warning, "13 of 50 periods", func(h host) { throttled(h, 13) }},
		{"throttled", "", "12 of 50 periods", func(h host) { throttled(h, 12) }},
		{"throttled", doctor.Critical, "as v1 counts", func(h host) {
			h.now[groupDir+"cpu.stat"] = "nr_periods 50\nnr_throttled 40\nthrottled_time 900000000\n"
			for _, files := range []map[string]string{h.before, h.now} {
				delete(files, groupDir+"cpu.max")
			}
			h.both(groupDir+"cpu.cfs_quota_us", "20000\n")
			h.both(groupDir+"cpu.cfs_period_us", "100000\n")
		}},
		{"not-overloaded", "", "throttled tasks do not count", func(h host) { throttled(h, 45) }},
		{"rt-hog", doctor.Critical, "FIFO 50 all the time", func(h host) { realtime(h, 4.9, 1, 1) }},
		{"rt-hog", "", "FIFO 50 half the time", func(h host) { realtime(h, 2.5, 1, 1) }},
		{"rt-hog", "", "a fair hog", func(h host) { realtime(h, 4.9, 1, 0) }},
		{"rt-hog", "", "on an isolated CPU", func(h host) {
			h.group("0-1", "0", "isolated")
			realtime(h, 4.9, 1, 1)
		}},
		{"steal", doctor.Warning, "20 % stolen", func(h host) { h.busy(each(0.1), each(0), each(0.2)) }},
		{"steal", "", "5 % stolen", func(h host) { h.busy(each(0.1), each(0), each(0.05)) }},
		{"hw-throttled", doctor.Warning, "two more", func(h host) { h.now[cpuDir+"cpu3/thermal_throttle/core_throttle_count"] = "5\n" }},
		{"hw-throttled", "", "some since boot", func(host) {}},
		{"partition-invalid", doctor.Critical, "not exclusive", func(h host) { h.group("0-1", "0", "isolated invalid (Cpu list in cpuset.cpus not exclusive)") }},
		{"partition-invalid", "", "a valid one", func(h host) { h.group("0-1", "0", "isolated") }},
	}
}

func memoryFaults() []fault {
	remote := func(h host, pages int) {
		h.now["sys/devices/system/node/node1/numastat"] = fmt.Sprintf("local_node 100000\nother_node %d\n", pages)
	}
	free := func(h host, kib int) {
		h.both("sys/devices/system/node/node0/meminfo", fmt.Sprintf("Node 0 MemTotal: 1000000 kB\nNode 0 MemFree: %d kB\n", kib))
	}
	return []fault{
		{"numa-mismatch", doctor.Critical, "CPUs of one node, memory of the other", func(h host) { h.group("4-7", "0", "member") }},
		{"numa-mismatch", doctor.Warning, "the seed's: some CPUs of the other node", func(h host) { h.group("2-7", "1", "member") }},
		{"numa-mismatch", "", "more memory than needed", func(h host) { h.group("0-3", "0-1", "member") }},
		{"numa-mismatch", "", "an empty group", func(h host) {
			h.group("4-7", "0", "member")
			h.both(groupDir+"cgroup.events", "populated 0\n")
		}},
		{"numa-remote", doctor.Critical, "a third", func(h host) { remote(h, 100000) }},
		{"numa-remote", doctor.Warning, "9 %", func(h host) { remote(h, 20000) }},
		{"numa-remote", "", "2 %", func(h host) { remote(h, 4000) }},
		{"numa-full", doctor.Warning, "3 % free", func(h host) { free(h, 30000) }},
		{"numa-full", "", "6 % free", func(h host) { free(h, 60000) }},
		{"firmware", doctor.Warning, "two sockets, one node", func(h host) { oneNode(h, "fpu ht") }},
		{"firmware", "", "a virtual machine", func(h host) { oneNode(h, "fpu hypervisor") }},
		{"firmware", doctor.Info, "SMT off", func(h host) { h.both(cpuDir+"smt/control", "forceoff\n") }},
	}
}

// oneNode removes node 1.
func oneNode(h host, flags string) {
	for _, files := range []map[string]string{h.before, h.now} {
		maps.DeleteFunc(files, func(name, _ string) bool { return strings.Contains(name, "/node1/") })
	}
	h.both("sys/devices/system/node/online", "0\n")
	h.both("sys/devices/system/node/node0/cpulist", "0-7\n")
	h.both("proc/cpuinfo", "flags : "+flags+"\n")
}

func isolationFaults() []fault {
	const irq = "proc/irq/24/effective_affinity_list"
	isolated := func(h host) { h.group("2-3", "0", "isolated") }
	interrupts := func(h host, cpu, n int) {
		h.now["proc/interrupts"] = counts(row("24:", cpu, n, "PCI-MSIX eth0-rx"), row("LOC:", 0, 9, "Local timer interrupts"))
	}
	balance := func(h host) { h.runs(task{pid: 600, comm: "irqbalance", allowed: "0-7"}) }
	stray := func(h host, t task) {
		isolated(h)
		t.pid, t.cpu = 700, 2
		h.runs(t)
	}
	return []fault{
		{"isolation-leak", doctor.Warning, "a thread from elsewhere", func(h host) { stray(h, task{comm: "cron", allowed: "0-7", run: 0.1}) }},
		{"isolation-leak", doctor.Warning, "an unbound worker", func(h host) { stray(h, task{comm: "kworker/u8:1", flags: kernelThread | bound, run: 0.1}) }},
		{"isolation-leak", doctor.Warning, "two on one CPU", func(h host) { stray(h, task{comm: "pmd", allowed: "2", run: 2.5, wait: 2.5}) }},
		{"isolation-leak", doctor.Warning, "ticks", func(h host) {
			h.both(cpuDir+"nohz_full", "2-3\n")
			h.busy(only(2, 1), each(0), each(0))
			h.now["proc/interrupts"] = counts(row("24:", 0, 5, "PCI-MSIX eth0-rx"), row("LOC:", 2, 5000, "Local timer interrupts"))
		}},
		{"isolation-leak", "", "two on one CPU that is balanced", func(h host) {
			h.both(cpuDir+"nohz_full", "2-3\n")
			h.runs(task{pid: 700, comm: "pod", cpu: 2, allowed: "2-3", run: 2.5, wait: 2.5})
		}},
		{"isolation-leak", "", "its own thread and its own kernel thread", func(h host) {
			stray(h, task{comm: "pmd", allowed: "2", run: 5})
			h.runs(task{pid: 701, comm: "ksoftirqd/2", flags: kernelThread | bound, cpu: 2, run: 0.5})
		}},
		{"split-core", doctor.Warning, "one thread of a core", func(h host) { h.group("1-3", "0", "isolated") }},
		{"split-core", "", "whole cores", isolated},
		{"irq-on-isolated", doctor.Warning, "it serves interrupts", func(h host) {
			isolated(h)
			h.both(irq, "2\n")
			interrupts(h, 2, 5000)
		}},
		{"irq-on-isolated", "", "none came", func(h host) {
			isolated(h)
			h.both(irq, "2\n")
		}},
		{"irqbalance-blind", doctor.Warning, "a partition, with an interrupt there", func(h host) {
			isolated(h)
			balance(h)
			h.both(irq, "2\n")
		}},
		{"irqbalance-blind", doctor.Info, "a partition", func(h host) {
			isolated(h)
			balance(h)
		}},
		{"irqbalance-blind", "", "banned", func(h host) {
			isolated(h)
			balance(h)
			h.both("etc/default/irqbalance", "# SECRET\nIRQBALANCE_BANNED_CPULIST=\"2-3\"\n")
		}},
		{"nic-remote", doctor.Warning, "the other node serves it", func(h host) {
			h.both(irq, "5\n")
			interrupts(h, 5, 5000)
		}},
		{"nic-remote", "", "its own node serves it", func(h host) { interrupts(h, 1, 5000) }},
		{"softirq-theft", doctor.Warning, "a third of a CPU", func(h host) { h.busy(each(0.1), only(1, 0.33), each(0)) }},
		{"softirq-theft", doctor.Warning, "drops", func(h host) { h.now["proc/net/softnet_stat"] = "00000010 0000000a 00000000\n" }},
		{"softirq-theft", "", "a tenth of a CPU", func(h host) { h.busy(each(0.1), only(1, 0.1), each(0)) }},
		{"cstate", doctor.Warning, "too deep on isolated CPUs", isolated},
		{"cstate", doctor.Warning, "too deep below a pinned real-time thread", func(h host) {
			h.runs(task{pid: 800, comm: "plc", policy: 1, prio: 40, allowed: "3"})
		}},
		{"cstate", "", "too deep on ordinary CPUs", func(host) {}},
	}
}

func knobFaults() []fault {
	slice := func(text string) func(host) {
		return func(h host) { h.both(debugDir+"base_slice_ns", text+"\n") }
	}
	return []fault{
		{"base-slice", doctor.Critical, "0", slice("0")},
		{"base-slice", doctor.Critical, "4 s", slice("4294967295")},
		{"base-slice", doctor.Warning, "0.2 ms", slice("200000")},
		{"base-slice", "", "0.7 ms", slice("700000")},
		{"base-slice", doctor.Warning, "locked down", func(h host) {
			for _, files := range []map[string]string{h.before, h.now} {
				delete(files, debugDir+"base_slice_ns")
			}
			h.both(debugDir+"debug", "Sched Debug Version\n  .sysctl_sched_base_slice     : 30.000000\n")
		}},
		{"base-slice", "", "locked down, as a recording has it", func(h host) {
			h.both(debugDir+"base_slice_ns", "")
			h.both(debugDir+"debug", "Sched Debug Version\n  .sysctl_sched_base_slice     : 3.000000\n")
		}},
		{"knob-drift", doctor.Warning, "another value", func(h host) {
			h.both("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")
		}},
		{"knob-drift", "", "another spelling", func(h host) {
			h.both("sys/kernel/mm/transparent_hugepage/enabled", "madvise\n")
		}},
		{"other-tuners", doctor.Info, "TuneD", func(h host) { h.runs(task{pid: 900, comm: "tuned", allowed: "0-7"}) }},
		{"other-tuners", doctor.Info, "a name that the kernel cut", func(h host) {
			h.runs(task{pid: 900, comm: "nri-resource-po", allowed: "0-7"})
		}},
		{"other-tuners", "", "a kernel thread of that name", func(h host) {
			h.runs(task{pid: 900, comm: "numad", flags: kernelThread})
		}},
		{"other-tuners", "", "irqbalance", func(h host) { h.runs(task{pid: 900, comm: "irqbalance", allowed: "0-7"}) }},
	}
}

// TestOneSample checks that a single sample skips exactly the checks that need two.
func TestOneSample(t *testing.T) {
	report := doctor.Examine(nil, sample(t, healthy(t).now))
	skipped := map[string]string{}
	for _, s := range report.Skipped {
		skipped[s.Code] = s.Why
	}
	for _, code := range []string{"throttled", "steal", "confined", "numa-remote", "cstate"} {
		if skipped[code] != "one sample has no rates" {
			t.Errorf("%s: %q", code, skipped[code])
		}
	}
	for _, code := range []string{"numa-mismatch", "split-core", "base-slice", "knob-drift", "not-overloaded"} {
		if why, skip := skipped[code]; skip {
			t.Errorf("%s is skipped: %s", code, why)
		}
	}
}

// full adds n threads that always want to run, on CPUs of which a share is idle.
func full(h host, n int, idle float64) {
	run := float64(interval) * cpus * (1 - idle) / float64(n)
	for i := range n {
		h.runs(task{pid: 200 + i, comm: "make", state: 'R', cpu: i % cpus, allowed: "0-7", run: run, wait: interval - run, turns: 1000, forced: 900, given: 100})
	}
	h.both("proc/loadavg", fmt.Sprintf("%d.00 1 1 9/9 9\n", n))
	h.busy(each(1-idle), each(0), each(0))
}

// TestHiddenIsNotImpossible checks that a check which a finding hides counts as possible.
func TestHiddenIsNotImpossible(t *testing.T) {
	h := healthy(t)
	full(h, 12, 0)
	report := h.examine(t)
	i := slices.IndexFunc(report.Skipped, func(s doctor.Skipped) bool { return s.Code == "not-overloaded" })
	if i < 0 || report.Skipped[i].HiddenBy != "overloaded" {
		t.Fatalf("skipped %+v, want not-overloaded, hidden by overloaded", report.Skipped)
	}
	if n := report.Impossible(); n != 0 {
		t.Errorf("%d checks were impossible, want 0: %+v", n, report.Skipped)
	}
}

// TestNoDebugfs checks that the reason names the only cause that the mounts show.
func TestNoDebugfs(t *testing.T) {
	const cgroups = "30 20 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	for mounts, want := range map[string]string{
		cgroups: "debugfs is not mounted at /sys/kernel/debug",
		cgroups + "31 20 0:7 / /sys/kernel/debug rw - debugfs debugfs rw\n": "is not there, nor is what other kernels have",
	} {
		h := healthy(t)
		for _, files := range []map[string]string{h.before, h.now} {
			maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasPrefix(name, "sys/kernel/debug/") })
		}
		h.both("proc/self/mountinfo", mounts)
		skipped := h.examine(t).Skipped
		i := slices.IndexFunc(skipped, func(s doctor.Skipped) bool { return s.Code == "migration-cost" })
		if i < 0 || !strings.Contains(skipped[i].Why, want) {
			t.Errorf("%s%+v, want %q of migration-cost", mounts, skipped, want)
		}
	}
}

// TestWhatCannotBeRead checks that a skipped check names the file and the reason.
func TestWhatCannotBeRead(t *testing.T) {
	h := healthy(t)
	for _, files := range []map[string]string{h.before, h.now} {
		delete(files, debugDir+"base_slice_ns")
		delete(files, "proc/berth/managed")
		maps.DeleteFunc(files, func(name, text string) bool {
			kernel := strings.HasPrefix(name, "proc/2/") || strings.HasPrefix(name, "proc/3/")
			return kernel || strings.HasPrefix(name, "sys/fs/cgroup") || strings.Contains(name, "thermal")
		})
	}
	h.both("sys/kernel/sched_ext/state", "enabled\n")
	skipped := map[string]string{}
	for _, s := range h.examine(t).Skipped {
		skipped[s.Code] = s.Why
	}
	for code, why := range map[string]string{
		"rt-hog": "a container", "confined": "a container", "throttled": "none here", "numa-mismatch": "none here",
		"hw-throttled": "none here", "migration-cost": "sched_ext", "base-slice": "sched_ext", "knob-drift": "Berth has set no kernel file",
	} {
		if !strings.Contains(skipped[code], why) {
			t.Errorf("%s: %q, want %q in it", code, skipped[code], why)
		}
	}
}

// TestBundle checks that a bundle gives the same report and contains no secret.
func TestBundle(t *testing.T) {
	h := healthy(t)
	h.group("1-3", "1", "isolated")
	h.now[groupDir+"cpu.stat"] = "nr_periods 50\nnr_throttled 45\nthrottled_usec 900000\n"
	h.runs(task{pid: 900, comm: "web01-worker", state: 'R', cpu: 1, policy: 1, prio: 50, allowed: "0-7", run: 5})
	h.both("sys/fs/cgroup/web01.slice/cpu.max", "max 100000\n")
	h.both("etc/default/irqbalance", "# SECRET\nIRQBALANCE_BANNED_CPULIST=2\n")
	before, now := sample(t, h.before), sample(t, h.now)
	want := doctor.Examine(before, now)
	bundle := doctor.Bundle(before, now)
	for _, secret := range []string{"web01", "example.org", "secret", "SECRET", "password", "model name", "hostname"} {
		if strings.Contains(string(bundle), secret) {
			t.Errorf("the bundle holds %q", secret)
		}
	}
	root := unpacked(t, bundle)
	first, second, err := doctor.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	got := doctor.Examine(first, second)
	for i := range want.Findings {
		for k, e := range want.Findings[i].Evidence {
			want.Findings[i].Evidence[k].Value = regexp.MustCompile(`\bweb01\b`).ReplaceAllString(e.Value, "HOST")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the bundle says something else (-host +bundle):\n%s", diff)
	}
}

// TestCatalogue checks the form of the checks' texts.
func TestCatalogue(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range doctor.Checks() {
		if seen[c.Code] || !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(c.Code) {
			t.Errorf("code %q", c.Code)
		}
		for name, text := range map[string]string{
			"title": c.Title, "symptom": c.Symptom, "formula": c.Formula, "threshold": c.Threshold,
			"source": c.Source, "remedy": c.Remedy, "risk": c.Risk, "files": strings.Join(c.Files, ""),
		} {
			if text == "" || strings.ContainsAny(text, "|\n") {
				t.Errorf("%s: %s %q", c.Code, name, text)
			}
		}
		for hidden := range strings.SplitSeq(c.Hides, ", ") {
			if seen[hidden] {
				t.Errorf("%s hides %s, which is evaluated before it", c.Code, hidden)
			}
		}
		seen[c.Code] = true
	}
	for code := range map[string]bool{"not-overloaded": true, "firmware": true} {
		if !seen[code] {
			t.Errorf("no check %s", code)
		}
	}
	const want = 25
	if len(seen) != want {
		t.Errorf("%d checks, want %d", len(seen), want)
	}
}
