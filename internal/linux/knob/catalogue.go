package knob

import (
	"path"
	"slices"
)

const (
	micro  = int64(1000)
	milli  = 1000 * micro
	second = 1000 * milli

	sysctls = "/proc/sys"
	debugfs = "/sys/kernel/debug"
	sched   = debugfs + "/sched"
	// schedDebug shows settings of the scheduler, also under lockdown.
	schedDebug = sched + "/debug"
	policies   = "/sys/devices/system/cpu/cpufreq/policy[0-9]*"
	thp        = "/sys/kernel/mm/transparent_hugepage"

	// again is the file whose write makes the kernel remember the current values for each number of CPUs
	// (sched_update_scaling in kernel/sched/fair.c).
	again = sched + "/tunable_scaling"

	upTo512  = "Linux 5.12 and older"
	from513  = "Linux 5.13 and newer"
	upTo65   = "Linux 5.13 to 6.5"
	from66   = "Linux 6.6 and newer"
	anyLinux = "any"
)

// PolicyCPUs is the file of a frequency policy that lists the policy's online CPUs. It is empty if there are none (cpus
// of struct cpufreq_policy, policy_is_inactive).
const PolicyCPUs = "affected_cpus"

// InPolicy reports whether a file belongs to a frequency policy. A policy without an online CPU is inactive, and all of
// its files return EBUSY (show and store in drivers/cpufreq/cpufreq.c). Older kernels still show the former value and
// return EINVAL for a write; there, only PolicyCPUs shows that the policy is inactive.
func InPolicy(file string) bool {
	is, err := path.Match(policies, path.Dir(file))
	return err == nil && is
}

// Catalogue returns the named knobs. Their values come from the kernel sources and from running kernels 5.10, 6.1,
// 6.12, 6.18 and 7.2.
func Catalogue() []Knob {
	return slices.Concat(turns(), fair(), realtime(), devices())
}

// turns returns the knobs that decide when tasks of the fair class take turns (kernel/sched/fair.c). The ranges of
// knobs that ended with Linux 6.6 come from their sysctls (kern_table in kernel/sysctl.c of 5.12); debugfs accepts any
// 32-bit number.
func turns() []Knob {
	return []Knob{
		{
			Name: "fair.slice", About: "how long a task of the fair class runs before an equal one",
			Unit: Duration, Low: 100 * micro, High: 100 * milli, SafeLow: milli, SafeHigh: 12 * milli,
			Effective: "the file; under lockdown sched/debug; on Linux 6.12 and newer also sched_getattr(2) of a thread without a slice of its own",
			Class:     Exact, Risk: Medium, Phase: Slices,
			Trap: "a CPU that comes or goes, and a cpuset partition, reset it unless tunable_scaling is written after it; less than a tick acts at ticks and wakeups only",
			Places: []Place{
				{Kernels: upTo512, File: sysctls + "/kernel/sched_min_granularity_ns", Scaled: true},
				{Kernels: upTo65, File: sched + "/min_granularity_ns", Again: again, Scaled: true},
				{
					Kernels: from66, File: sched + "/base_slice_ns", Again: again, Scaled: true,
					Shown: &Shown{File: schedDebug, Line: ".sysctl_sched_base_slice", Scale: milli},
				},
			},
		},
		{
			Name: "fair.latency", About: "in how long each task that is ready to run on a CPU gets its turn",
			Unit: Duration, Low: 100 * micro, High: second, SafeLow: 3 * milli, SafeHigh: 48 * milli,
			Effective: "the file", Class: Exact, Risk: Medium, Phase: Slices,
			Trap: "a CPU that comes or goes resets it unless tunable_scaling is written after it; with more tasks than fit, each gets fair.slice",
			Places: []Place{
				{Kernels: upTo512, File: sysctls + "/kernel/sched_latency_ns", Scaled: true},
				{Kernels: upTo65, File: sched + "/latency_ns", Again: again, Scaled: true},
			},
		},
		{
			Name: "fair.wakeupGranularity", About: "how far behind the running task one that wakes up must be to take its place",
			Unit: Duration, Low: 0, High: second, SafeLow: 500 * micro, SafeHigh: 15 * milli,
			Effective: "the file", Class: Exact, Risk: Medium, Phase: Slices,
			Trap: "a CPU that comes or goes resets it unless tunable_scaling is written after it; less means more switches, more means later answers",
			Places: []Place{
				{Kernels: upTo512, File: sysctls + "/kernel/sched_wakeup_granularity_ns", Scaled: true},
				{Kernels: upTo65, File: sched + "/wakeup_granularity_ns", Again: again, Scaled: true},
			},
		},
	}
}

// fair returns the other knobs of kernel/sched/fair.c, and the knobs that concern all tasks.
func fair() []Knob {
	return []Knob{
		{
			Name: "fair.migrationCost", About: "how long after its last run a task counts as cache-hot and stays where it is",
			Unit: Duration, Low: 0, High: second, SafeLow: 50 * micro, SafeHigh: 5 * milli,
			Effective: "the file", Class: Exact, Risk: Medium, Phase: Plain,
			Harm: "idle CPUs leave waiting tasks where they are: the load is high and the CPUs are idle",
			Places: []Place{
				{Kernels: upTo512, File: sysctls + "/kernel/sched_migration_cost_ns"},
				{Kernels: from513, File: sched + "/migration_cost_ns"},
			},
		},
		{
			Name: "fair.nrMigrate", About: "how many tasks one pass of the balancer looks at, with the run queue locked",
			Unit: Count, Low: 1, High: 4096, SafeLow: 8, SafeHigh: 128,
			Effective: "the file", Class: Exact, Risk: Low, Phase: Plain,
			Places: []Place{
				{Kernels: upTo512, File: sysctls + "/kernel/sched_nr_migrate"},
				{Kernels: from513, File: sched + "/nr_migrate"},
			},
		},
		{
			Name: "sched.preempt", About: "when the kernel itself lets itself be interrupted",
			Unit: Choice, Effective: "the word in parentheses", Class: Exact, Risk: Medium, Phase: Plain,
			Trap:   "only kernels built with PREEMPT_DYNAMIC have it; which words it takes differs",
			Places: []Place{{Kernels: from513, File: sched + "/preempt"}},
		},
		{
			Name: "sched.autogroup", About: "a group for each session of a terminal",
			Unit: Choice, Words: []Word{{"on", "1"}, {"off", "0"}},
			Effective: "the file", Class: Exact, Risk: Low, Phase: Plain,
			Trap:   "only tasks in the root group are in a session's group: none that systemd started",
			Places: []Place{{Kernels: anyLinux, File: sysctls + "/kernel/sched_autogroup_enabled"}},
		},
		{
			Name: "numa.balancing", About: "the kernel moves pages to the tasks that use them, and tasks to their pages",
			Unit: Choice, Words: []Word{{"on", "1"}, {"off", "0"}, {"tiering", "2"}},
			Effective: "the file; not verified: that numa_hint_faults in /proc/vmstat moves", Class: SideEffects, Risk: Medium, Phase: Plain,
			Trap:   "off is right where everything is pinned, and costs locality everywhere else",
			Places: []Place{{Kernels: anyLinux, File: sysctls + "/kernel/numa_balancing"}},
		},
		{
			Name: "thp.enabled", About: "huge pages for ordinary memory",
			Unit: Choice, Words: same("always", "madvise", "never"),
			Effective: "the word in brackets", Class: SideEffects, Risk: Low, Phase: Plain, WaitsForThread: true,
			Places: []Place{{Kernels: anyLinux, File: thp + "/enabled"}},
		},
		{
			Name: "thp.defrag", About: "whether a page fault waits for a huge page",
			Unit: Choice, Words: same("always", "defer", "defer+madvise", "madvise", "never"),
			Effective: "the word in brackets", Class: Exact, Risk: Low, Phase: Plain,
			Places: []Place{{Kernels: anyLinux, File: thp + "/defrag"}},
		},
	}
}

func realtime() []Knob {
	return []Knob{
		{
			Name: "rt.runtime", About: "how much of a period (1 s by default) real-time tasks may take",
			Unit: Duration, Low: milli, High: second, Step: micro, SafeLow: 500 * milli, SafeHigh: second,
			Words:     []Word{{"unlimited", "-1"}},
			Effective: "the file; on Linux 6.12 and newer the fair server of each CPU protects other tasks", Class: Exact, Risk: High, Phase: RealTime,
			Harm:   "one real-time task that does not sleep takes its CPU for good",
			Places: []Place{{Kernels: anyLinux, File: sysctls + "/kernel/sched_rt_runtime_us", Scale: micro}},
		},
		{
			Name: "rr.slice", About: "how long a task of SCHED_RR runs before an equal one",
			Unit: Duration, Low: milli, High: 10 * second, Step: milli,
			Effective: "sched_rr_get_interval(2); the file shows what was written", Class: Exact, Risk: Low, Phase: Plain,
			Trap:   "the kernel keeps ticks: less than one tick is one tick, and the file does not say so",
			Places: []Place{{Kernels: anyLinux, File: sysctls + "/kernel/sched_rr_timeslice_ms", Scale: milli}},
		},
	}
}

func devices() []Knob {
	return []Knob{
		{
			Name: "cpu.governor", About: "who chooses the frequency of a CPU",
			Unit: Choice, Effective: "the file of each policy", Class: Lossy, Risk: Low, Phase: Governors,
			Trap:   "the kernel may set the preference (cpu.epp) and the governor's own files again, such as rate_limit_us or up_threshold; with cpu.epp in the profile the preference goes back as well",
			Places: []Place{{Kernels: anyLinux, File: policies + "/scaling_governor", Allowed: "scaling_available_governors"}},
		},
		{
			Name: "cpu.epp", About: "what the hardware prefers: speed or energy",
			Unit: Choice, Effective: "the file of each policy", Class: Exact, Risk: Low, Phase: Preferences,
			Trap: "EBUSY while the governor is performance; it is written after the governor",
			Places: []Place{{
				Kernels: anyLinux, File: policies + "/energy_performance_preference",
				Allowed: "energy_performance_available_preferences",
			}},
		},
		{
			Name: "cpu.resumeLatency", About: "the longest wake-up from an idle state that a CPU may take",
			Unit: Duration, Low: micro, High: second, Step: micro,
			Words:     []Word{{"any", "0"}, {"none", "n/a"}},
			Effective: "the file; whether the CPU leaves deeper idle states, as cpuidle counts between two looks", Class: Exact, Risk: Medium, Phase: Governors,
			Trap:   "any is no limit; none is no idle state at all, and the CPU stays hot. In the file these are 0 and n/a",
			Places: []Place{{Kernels: anyLinux, File: "/sys/devices/system/cpu/cpu[0-9]*/power/pm_qos_resume_latency_us", Scale: micro}},
		},
		{
			Name: "workqueue.cpus", About: "where the kernel's unbound work runs",
			Unit: CPUs, Effective: "cpumask, which is the requested mask less isolated partitions", Class: Exact, Risk: Low, Phase: Workqueues, WaitsForThread: true,
			Places: []Place{{Kernels: anyLinux, File: "/sys/devices/virtual/workqueue/cpumask", Mask: true, Now: "cpumask_requested", Effective: "cpumask"}},
		},
		{
			Name: "irq.affinity", About: "which CPUs serve the interrupts of devices",
			Unit: CPUs, Effective: "effective_affinity_list of each interrupt", Class: Exact, Risk: Medium, Phase: Interrupts,
			Trap:   "an interrupt that the kernel manages cannot be moved: fewer queues, or isolcpus=managed_irq at boot",
			Places: []Place{{Kernels: anyLinux, File: "/proc/irq/[0-9]*/smp_affinity_list", Effective: "effective_affinity_list"}},
		},
		{
			Name: "irq.default", About: "which CPUs serve interrupts that devices ask for later",
			Unit: CPUs, Effective: "the file", Class: Exact, Risk: Low, Phase: Interrupts,
			Places: []Place{{Kernels: anyLinux, File: "/proc/irq/default_smp_affinity", Mask: true}},
		},
		{
			Name: "net.rps", About: "which CPUs handle received packets after the interrupt",
			Unit: CPUs, Effective: "the file of each queue", Class: Exact, Risk: Low, Phase: Interrupts,
			Places: []Place{{Kernels: anyLinux, File: "/sys/class/net/*/queues/rx-[0-9]*/rps_cpus", Mask: true, Only: "/sys/class/net/*/device"}},
		},
	}
}

// same returns words that have the same text in the catalogue and in the file.
func same(words ...string) []Word {
	var all []Word
	for _, w := range words {
		all = append(all, Word{w, w})
	}
	return all
}
