package doctor

import "slices"

// Checks returns all checks, in the order of evaluation. A check that hides others comes before them, and among checks
// of one severity a cause comes before its effects.
func Checks() []Check {
	return slices.Concat(loadChecks(), memoryChecks(), isolationChecks(), knobChecks())
}

const (
	threads    = "proc/*/task/*/stat"
	schedstats = "proc/*/task/*/schedstat"
	statuses   = "proc/*/task/*/status"
	numastats  = "sys/devices/system/node/node*/numastat"
	meminfos   = "sys/devices/system/node/node*/meminfo"
	effective  = "proc/irq/*/effective_affinity_list"
	cpuStats   = "sys/fs/cgroup/*/cpu.stat"
	partitions = "[sys/fs/cgroup/*/cpuset.cpus.partition]"
)

// loadChecks returns the checks of firmware, hypervisor and heat, of quotas and of waiting.
func loadChecks() []Check {
	return []Check{
		{find: firmware, Files: []string{"proc/cpuinfo", "[" + smtFile + "]", "sys/devices/system/node/node*/meminfo"}, About: About{
			Code: "firmware", Severity: Warning, Title: "The firmware hides NUMA nodes, or SMT is off", Symptom: "fewer CPUs or nodes than the machine has",
			Formula: "sockets > 1 and nodes = 1; smt/control is off", Threshold: "any; SMT that is off is info", Source: "kernel: admin-guide/mm/numaperf, sysfs-devices-system-cpu",
			Remedy: "Switch node interleaving off in the firmware, and numa=off out of the boot arguments; check with berth topology.", Risk: "a reboot; memory of one node can run out while the other has room",
			Hides: "numa-mismatch, numa-remote, numa-full, nic-remote",
		}},
		{find: steal, rates: true, Files: []string{statFile, uptimeFile}, About: About{
			Code: "steal", Severity: Warning, Title: "The hypervisor gives the CPUs to others", Symptom: "everything is slow, also while load is low",
			Formula: "d steal / d all", Threshold: "> 10 %", Source: "netdata 20min_steal_cpu",
			Remedy: "Nothing on this host helps: ask for dedicated CPUs, or move the machine. Slow its peaks with a lower limit.", Risk: "none",
			Hides: "confined, overloaded, over-preempted, migration-cost",
		}},
		{find: hwThrottled, rates: true, Files: []string{"sys/devices/system/cpu/*/thermal_throttle/core_throttle_count"}, About: About{
			Code: "hw-throttled", Severity: Warning, Title: "CPUs are slowed down because of heat or power", Symptom: "the same work takes longer",
			Formula: "d throttle_count", Threshold: "> 0", Source: "kernel: thermal_throttle of x86",
			Remedy: "Check fans, inlet temperature and power caps; until then spread the load (berth place shows cores of several L3 domains).", Risk: "none",
		}},
		{find: partitionInvalid, Files: []string{"sys/fs/cgroup/*/cpuset.cpus.partition"}, About: About{
			Code: "partition-invalid", Severity: Critical, Title: "The kernel does not keep a CPU partition", Symptom: "isolated CPUs run other tasks",
			Formula: "the file contains \"invalid\"", Threshold: "any", Source: "kernel: cgroup-v2.rst, cpuset.cpus.partition (the write succeeds all the same)",
			Remedy: "Do what the reason in brackets asks: take the CPUs out of the sibling groups, leave the parent some.", Risk: "sibling groups shrink",
		}},
		{find: rtHog, rates: true, Files: []string{threads, uptimeFile}, About: About{
			Code: "rt-hog", Severity: Critical, Title: "A real-time thread takes a whole CPU", Symptom: "single tasks hang for seconds, others are fine",
			Formula: "d run / dt of a FIFO, RR or DEADLINE thread outside isolated CPUs", Threshold: "> 80 % (H)", Source: "kernel: sched-rt-group.rst leaves fair tasks 5 %",
			Remedy: "Give it a CPU of its own (taskset -p, or an isolated partition), or a normal policy: chrt -o -p 0 TID.", Risk: "a thread without its policy misses deadlines",
			Hides: "confined, over-preempted",
		}},
		{find: throttled, rates: true, Files: []string{cpuStats}, About: About{
			Code: "throttled", Severity: Warning, Title: "A CPU quota stops a workload in many of its periods", Symptom: "load and CPU use are low, latency is high",
			Formula: "d nr_throttled / d nr_periods, of 5 periods and more", Threshold: "> 25 %; > 50 % (H) is critical", Source: "kubernetes-mixin CPUThrottlingHigh",
			Remedy: "Let it burst (docs/burst.md: berth agent), raise or remove the limit, or run fewer threads (GOMAXPROCS). Limits of the groups above count too.", Risk: "its neighbours get less CPU in its peaks",
			Hides: "not-overloaded",
		}},
		{find: uninterruptible, rates: true, Files: []string{threads, "[proc/*/task/*/wchan]", "[proc/pressure/io]", "[proc/pressure/memory]"}, About: About{
			Code: "uninterruptible", Severity: Warning, Title: "Most of the load waits for I/O or locks in the kernel", Symptom: "load high, CPU low",
			Formula: "threads in state D in both samples, against those in R", Threshold: ">= 2, and at least as many (H)", Source: "kernel: loadavg.c counts runnable and uninterruptible",
			Remedy: "Look at disks, NFS, memory reclaim and locks: the place in the kernel is in the evidence. No scheduler setting and no quota helps.", Risk: "none",
		}},
		{find: confined, rates: true, Files: []string{statuses, schedstats, statFile, uptimeFile}, About: About{
			Code: "confined", Severity: Warning, Title: "Threads wait for the few CPUs that they may use, while others are idle", Symptom: "load high, CPU low",
			Formula: "sum of d wait / dt of threads with one set of CPUs; idle CPUs outside of it", Threshold: ">= 0.5 threads and >= 0.5 CPUs (H)", Source: "kernel: sched-stats.rst",
			Remedy: "Widen the set: cpuset.cpus of the group, CPUAffinity= of the unit, taskset -p; berth explain WORKLOAD says which CPUs Berth gave it, and why.", Risk: "it shares caches with more neighbours",
		}},
		{find: overloaded, rates: true, Files: []string{statFile, schedstats, uptimeFile}, About: About{
			Code: "overloaded", Severity: Warning, Title: "More threads want to run than there are CPUs", Symptom: "everything is slow, load and CPU use are high",
			Formula: "d idle / d all of the CPUs that are not isolated; sum of d wait / dt of threads", Threshold: "< 5 %, and >= 1 thread and >= 0.25 a CPU (H)", Source: "kernel: sched-stats.rst; the node exporter's mixin warns at a load of 2 a CPU",
			Remedy: "Move work away or add CPUs. What may wait gets less: a lower CPUWeight= of its unit, or nice; what must not wait gets CPUs of its own (docs/node.md). A shorter slice spreads the waiting and removes none.", Risk: "what may wait takes longer",
			Hides: "not-overloaded",
		}},
		{find: overPreempted, rates: true, Files: []string{schedstats, statuses, uptimeFile}, About: About{
			Code: "over-preempted", Severity: Warning, Title: "Threads are stopped again and again after a short turn", Symptom: "throughput falls although all CPUs are busy",
			Formula: "d nonvoluntary / d all switches; d run / d turns; d wait / (d wait + d run); turns/s", Threshold: "> 50 %, < half a base slice, > 25 %, >= 200 (H)", Source: "kernel: sched-stats.rst",
			Remedy: "Run fewer threads; make batch tasks SCHED_BATCH (chrt -b -p 0 TID); raise the fair slice: fair.slice in a profile, then berth tune apply.", Risk: "a longer slice makes others wait longer",
		}},
	}
}

// memoryChecks returns the checks of NUMA nodes.
func memoryChecks() []Check {
	return []Check{
		{find: numaMismatch, Files: []string{"sys/fs/cgroup/*/cgroup.events", "[sys/fs/cgroup/*/cpuset.cpus.effective]", "[sys/fs/cgroup/*/cpuset.mems.effective]", meminfos}, About: About{
			Code: "numa-mismatch", Severity: Warning, Title: "A group has CPUs of one NUMA node and memory of another", Symptom: "a NUMA node starves; memory is slow",
			Formula: "nodes of its CPUs without its memory nodes", Threshold: "any; nothing in common is critical", Source: "kernel: cgroup-v2.rst, cpuset",
			Remedy: "Move CPUs and memory together: AllowedCPUs= and AllowedMemoryNodes= of the unit, or berth agent with cpu-policy; then berth memory migrate.", Risk: "pages move, and that is not undone",
		}},
		{find: numaRemote, rates: true, Files: []string{numastats}, About: About{
			Code: "numa-remote", Severity: Warning, Title: "Memory comes from other NUMA nodes", Symptom: "memory is slow although nodes have room",
			Formula: "d other_node / (d local_node + d other_node), of 10,000 pages and more", Threshold: "> 5 %; > 20 % is critical (H)", Source: "kernel: numastat.rst",
			Remedy: "berth memory show names the workloads; keep CPUs and memory on one node (numactl -N and -m, berth agent), or interleave what is larger than a node.", Risk: "a group bound to a node can run out of memory there",
		}},
		{find: numaFull, Files: []string{meminfos}, About: About{
			Code: "numa-full", Severity: Warning, Title: "A NUMA node is full while another has room", Symptom: "reclaim and swap with free memory on the host",
			Formula: "(MemFree + Active(file) + Inactive(file)) / MemTotal of each node", Threshold: "< 5 %, and > 20 % on another (H)", Source: "numad leaves a node 15 %",
			Remedy: "Give a workload there two nodes, or move it with its CPUs (berth memory migrate --to); prefer a node instead of binding to it.", Risk: "pages move, and that is not undone",
		}},
	}
}

// isolationChecks returns the checks of isolated CPUs and of interrupts.
func isolationChecks() []Check {
	return []Check{
		{find: isolationLeak, rates: true, Files: []string{threads, statFile, uptimeFile, "[" + interruptsFile + "]"}, About: About{
			Code: "isolation-leak", Severity: Warning, Title: "Isolated CPUs do other work", Symptom: "packets are lost, latency has spikes",
			Formula: "d run / dt of threads that may run elsewhere; d wait / dt of two on one CPU; d LOC / dt where nohz_full", Threshold: ">= 0.5 %; > 10 %; > 10 ticks/s (H)", Source: "kernel: cpu-isolation.rst; 1 tick/s is normal",
			Remedy: "Move them away (an isolated partition; workqueue.cpus without these CPUs in a profile, then berth tune apply); pin one thread a CPU; set fair_server/cpuN/runtime to 0 where nohz_full ticks.", Risk: "a busy loop there can starve the fair tasks of its CPU. While a runtime is 0 Berth moves no memory, unless its agent is in a pod: that sees no runtime and moves on, except where kernel.sched_rt_runtime_us is -1",
		}},
		{find: splitCore, Files: []string{"[sys/devices/system/cpu/isolated]", partitions}, About: About{
			Code: "split-core", Severity: Warning, Title: "An isolated set has one thread of a core and not the other", Symptom: "isolated tasks are slowed down by their sibling",
			Formula: "set and core have common threads, and core has others", Threshold: "any", Source: "OpenShift PerformanceProfile wants whole siblings",
			Remedy: "Use whole cores: berth topology shows the siblings.", Risk: "the set grows or shrinks by a thread a core",
		}},
		{find: irqbalanceBlind, Files: []string{threads, partitions}, About: About{
			Code: "irqbalance-blind", Severity: Warning, Title: "irqbalance does not know the isolated CPUs", Symptom: "interrupts come back to isolated CPUs",
			Formula: "isolated by a partition, and not spared by irqbalance", Threshold: "any; info while no interrupt is there", Source: "irqbalance reads boot arguments or its own list, no partitions",
			Remedy: "Keep irqbalance and ban the set: IRQBALANCE_BANNED_CPULIST in /etc/default/irqbalance (/etc/sysconfig/irqbalance); then restart it.", Risk: "the list replaces what it spares by itself",
		}},
		{find: irqOnIsolated, Files: []string{interruptsFile, effective}, About: About{
			Code: "irq-on-isolated", Severity: Warning, Title: "Isolated CPUs serve interrupts", Symptom: "packets are lost, latency has spikes",
			Formula: "effective_affinity_list and isolated have common CPUs that served it", Threshold: "> 0", Source: "kernel: cpu-isolation.rst",
			Remedy: "Set irq.affinity to CPUs that are not isolated in a profile, then berth tune apply. One that cannot move (managed): fewer queues (ethtool -L), or isolcpus=managed_irq at boot.", Risk: "other CPUs serve more interrupts",
		}},
		{find: nicRemote, rates: true, Files: []string{"[sys/class/net/*/device/numa_node]", interruptsFile, uptimeFile}, About: About{
			Code: "nic-remote", Severity: Warning, Title: "Another NUMA node serves a network card", Symptom: "packets are lost at high rates",
			Formula: "d interrupts on CPUs of other nodes / d all of the card, at 100/s and more", Threshold: "> 50 % (H)", Source: "kernel: networking/scaling.rst",
			Remedy: "Put the workload at the card's node, and the interrupts: /proc/irq/N/smp_affinity_list, or irq.affinity in a profile, then berth tune apply.", Risk: "that node gets more work",
		}},
		{find: softirqTheft, rates: true, Files: []string{statFile, uptimeFile, "[" + softirqsFile + "]", "[" + softnetFile + "]"}, About: About{
			Code: "softirq-theft", Severity: Warning, Title: "Interrupts take a CPU from its tasks, or packets are dropped", Symptom: "packets are lost, latency has spikes",
			Formula: "dt / (dt - irq - softirq) of a CPU; d dropped, d time_squeeze a minute", Threshold: "> 1.15 (H); > 10", Source: "netdata health.d/softnet.conf",
			Remedy: "Spread the queues (ethtool -L, rps_cpus of the queues, /proc/irq/N/smp_affinity_list), and keep the workload off these CPUs (reservedCPUs of berth agent).", Risk: "more CPUs are interrupted",
		}},
		{find: cstate, rates: true, Files: []string{threads, uptimeFile, "sys/devices/system/cpu/*/cpuidle/state0/usage"}, About: About{
			Code: "cstate", Severity: Warning, Title: "CPUs that must answer at once sleep too deep", Symptom: "the first packet after a pause is late",
			Formula: "d above / d usage of states with latency >= 100 us, on isolated CPUs and those of pinned real-time threads", Threshold: "> 20 %, at 10/s and more (H)", Source: "kernel: cpuidle.rst",
			Remedy: "Write the longest wake-up that these CPUs may take, in microseconds, to their power/pm_qos_resume_latency_us; for all CPUs: cpu.resumeLatency in a profile, then berth tune apply.", Risk: "more power, less turbo for the others",
		}},
	}
}

// knobChecks returns the checks of settings, and of a host without faults.
func knobChecks() []Check {
	return []Check{
		{find: migrationCost, Files: append(optional(migrationKnob), "["+schedstats+"]"), About: About{
			Code: "migration-cost", Severity: Warning, Title: "A setting keeps idle CPUs from taking work", Symptom: "load high, CPU low",
			Formula: "migration cost; waiting threads and idle CPUs at the same time", Threshold: "> 5 ms; info while nothing waits", Source: "kernel: fair.c, newidle_balance and task_hot; default 0.5 ms",
			Remedy: "Set fair.migrationCost to 500us in a profile, then berth tune apply; remove the line that sets it from /etc/sysctl.d.", Risk: "more migrations",
		}},
		{find: baseSlice, Files: optional(sliceKnob), About: About{
			Code: "base-slice", Severity: Warning, Title: "The fair slice is one that no kernel would choose", Symptom: "latency or throughput changed after tuning",
			Formula: "base_slice_ns", Threshold: "outside 0.7 to 12 ms (H); outside 0.1 to 100 ms, also 0, is critical", Source: "kernel: fair.c clamps one thread to 0.1 to 100 ms, the host to nothing",
			Remedy: "Set fair.slice to 3ms in a profile, then berth tune apply, which lets it outlive CPU hotplug; a single service gets its own slice instead.", Risk: "a longer slice makes others wait longer",
		}},
		{find: knobDrift, Files: []string{"[every file that a committed profile set]"}, About: About{
			Code: "knob-drift", Severity: Warning, Title: "A kernel setting is no longer what Berth set", Symptom: "an old problem is back",
			Formula: "value now against value set", Threshold: "any difference", Source: "Berth's journal",
			Remedy: "Find what writes it (TuneD, sysctl.d, CPU hotplug); berth tune verify shows all of the profile, berth tune apply sets it again.", Risk: "the other writer may have had a reason",
		}},
		{find: otherTuners, Files: []string{threads}, About: About{
			Code: "other-tuners", Severity: Info, Title: "Another program sets CPUs, interrupts or kernel settings of this host", Symptom: "a setting changes again after it was set",
			Formula: "names of the programs that run", Threshold: "any of a list (H)", Source: "the programs' own documents; irqbalance has a check of its own",
			Remedy: "Let one program set each setting: leave it out of the other's profile, or stop the other. For TuneD, tuned-adm active names the profile.", Risk: "the other program may have had a reason",
		}},
		{find: notOverloaded, Files: []string{loadFile, statFile}, About: About{
			Code: "not-overloaded", Severity: Info, Title: "Not overloaded: fewer tasks want to run than there are CPUs", Symptom: "load looks high",
			Formula: "load1 / CPUs", Threshold: "< 1", Source: "node_exporter mixin NodeSystemSaturation warns above 2",
			Remedy: "Nothing to tune in the scheduler. Where latency is high all the same, look at the findings above, at locks and at the network.", Risk: "none",
		}},
	}
}
