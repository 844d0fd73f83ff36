package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Limits of the checks of isolation and interrupts; (H) in the catalogue.
const (
	minForeign    = 0.5  // percent of the time
	maxStacked    = 10   // percent of the time
	maxTicks      = 10   // a second
	minBusy       = 50   // percent
	maxTheft      = 1.15 // dt / (dt - irq - softirq)
	maxDrops      = 10   // a minute
	minDrops      = 5    // in the interval
	minExit       = 100  // microseconds
	minExits      = 10   // a second
	maxMispredict = 20   // percent
)

// isolationLeak finds threads that run or wait on isolated CPUs although they should not.
func isolationLeak(v *view) outcome {
	var found []Evidence
	for _, t := range v.threads {
		if !t.known || !v.isolated.Contains(t.thread.cpu) {
			continue
		}
		used, waited := share(t.ran, v.seconds), share(t.waited, v.seconds)
		switch {
		case v.foreign(t) && used >= minForeign:
			found = append(found, seen(t.dir+"/stat", "%s ran on isolated CPU %d for %.1f %% of the time", t.thread.comm, t.thread.cpu, used))
		case !t.thread.kernel && waited > maxStacked && t.thread.allowed.IsSubsetOf(v.unbalanced):
			found = append(found, seen(t.dir+"/schedstat", "%s waited on isolated CPU %d for %.0f %% of the time: nothing balances there", t.thread.comm, t.thread.cpu, waited))
		}
	}
	return outcome{evidence: append(found, v.ticking()...)}
}

// foreign reports whether a thread that runs on an isolated CPU could run elsewhere. A worker of an unbound workqueue
// could, although its thread is marked as bound: the workqueue decides about its CPUs.
func (v *view) foreign(t change) bool {
	if t.thread.kernel {
		return !t.thread.bound || strings.HasPrefix(t.thread.comm, "kworker/u")
	}
	return !t.thread.allowed.IsSubsetOf(v.isolated)
}

// ticking finds busy CPUs of nohz_full that the timer still interrupts.
func (v *view) ticking() []Evidence {
	var found []Evidence
	now, then := parseCounts(v.now.files[interruptsFile])["LOC"], parseCounts(v.before.files[interruptsFile])["LOC"]
	for cpu := range v.machine.NoHzFull.Intersect(v.machine.Online).All() {
		ticks := (now.perCPU[cpu] - then.perCPU[cpu]) / v.seconds
		if t := v.cpus[cpu]; ticks > maxTicks && share(t.total-t.idle, t.total) > minBusy {
			found = append(found, seen(interruptsFile, "LOC: %.0f ticks/s on CPU %d of nohz_full", ticks, cpu))
		}
	}
	return found
}

// splitCore finds isolated sets with some but not all threads of a core.
func splitCore(v *view) outcome {
	var found []Evidence
	look := func(file string, set cpuset.Set) {
		for _, core := range v.machine.Cores {
			if inside := core.CPUs.Intersect(set); !inside.IsEmpty() && inside != core.CPUs {
				found = append(found, seen(file, "CPU %s without %s, of the same core", inside, core.CPUs.Difference(set)))
			}
		}
	}
	look("sys/devices/system/cpu/isolated", v.machine.Isolated)
	look("sys/devices/system/cpu/nohz_full", v.machine.NoHzFull)
	for _, dir := range v.groups {
		if kind := v.partition(dir); kind == "isolated" || kind == "root" {
			cpus, file := v.cpusOf(dir)
			look(file, cpus)
		}
	}
	return outcome{evidence: found}
}

// interrupt is an interrupt line with an affinity of its own.
type interrupt struct {
	number, file, what string
	place              cpuset.Set
	perCPU             map[int]float64 // differences, or since boot with one sample
}

// interrupts returns the interrupt lines of the host, sorted by name.
func (v *view) interrupts() []interrupt {
	now := parseCounts(v.now.files[interruptsFile])
	var then map[string]count
	if v.before != nil {
		then = parseCounts(v.before.files[interruptsFile])
	}
	var all []interrupt
	for _, irq := range slices.Sorted(maps.Keys(now)) {
		file := "proc/irq/" + irq + "/effective_affinity_list"
		place, ok := v.now.files[file]
		if !ok {
			continue
		}
		one := interrupt{number: irq, file: file, what: now[irq].what, place: list(place), perCPU: map[int]float64{}}
		for cpu, n := range now[irq].perCPU {
			one.perCPU[cpu] = max(0, n-then[irq].perCPU[cpu])
		}
		all = append(all, one)
	}
	return all
}

// on returns how many interrupts the CPUs of a set served.
func (i interrupt) on(set cpuset.Set) (n float64) {
	for cpu := range set.All() {
		n += i.perCPU[cpu]
	}
	return n
}

// irqOnIsolated finds interrupts that isolated CPUs serve.
func irqOnIsolated(v *view) outcome {
	var found []Evidence
	for _, irq := range v.interrupts() {
		place := irq.place.Intersect(v.isolated)
		n := irq.on(place)
		if n == 0 {
			continue
		}
		rate := fmt.Sprintf("%.0f since boot", n)
		if v.before != nil {
			rate = fmt.Sprintf("%.1f/s", n/v.seconds)
		}
		found = append(found, seen(irq.file, "isolated CPU %s serves it, %s: %s", place, rate, irq.what))
	}
	return outcome{evidence: found}
}

// irqbalanceBlind finds isolated CPUs to which irqbalance may move interrupts. irqbalance reads the boot arguments, or
// its own list instead, but not partitions.
func irqbalanceBlind(v *view) outcome {
	at := slices.IndexFunc(v.threads, func(t change) bool { return !t.thread.kernel && t.thread.comm == "irqbalance" })
	if at < 0 {
		return outcome{}
	}
	spared, source := v.machine.Isolated.Union(v.machine.NoHzFull), "sys/devices/system/cpu/isolated"
	for _, file := range []string{"etc/default/irqbalance", "etc/sysconfig/irqbalance"} {
		if banned := value(v.now.files[file], "IRQBALANCE_BANNED_CPULIST="); banned != "" {
			spared, source = list(strings.Trim(banned, `"'`)), file
		}
	}
	open := v.isolated.Difference(spared)
	if open.IsEmpty() {
		return outcome{}
	}
	o := outcome{evidence: []Evidence{
		seen(v.threads[at].dir+"/stat", "irqbalance runs"),
		seen(source, "spares %s, not isolated %s", cmp.Or(spared.String(), "none"), open),
	}}
	if !slices.ContainsFunc(v.interrupts(), func(irq interrupt) bool { return irq.place.Intersects(open) }) {
		o.severity = Info
	}
	return o
}

// nicRemote finds network cards whose interrupts are served on another NUMA node.
func nicRemote(v *view) outcome {
	lines := v.interrupts()
	var found []Evidence
	for _, file := range slices.Sorted(maps.Keys(v.now.files)) {
		dir, ok := strings.CutSuffix(file, "/device/numa_node")
		node, err := strconv.Atoi(strings.TrimSpace(v.now.files[file]))
		if !ok || err != nil || node < 0 || !strings.HasPrefix(file, "sys/class/net/") {
			continue
		}
		near, far := v.served(dir+"/device/msi_irqs/", lines, topology.NodeID(node))
		if far/v.seconds >= minInterrupts && share(far, near+far) > maxRemoteNIC {
			found = append(found, seen(file, "%s is at node %d, other nodes serve %.0f %% of its %.0f interrupts/s", path.Base(dir), node, share(far, near+far), (near+far)/v.seconds))
		}
	}
	return outcome{evidence: found}
}

// served counts the interrupts of a card that its own node and other nodes served.
func (v *view) served(dir string, lines []interrupt, node topology.NodeID) (near, far float64) {
	for _, irq := range lines {
		if _, mine := v.now.files[dir+irq.number]; !mine {
			continue
		}
		for cpu, n := range irq.perCPU {
			if v.node(cpu) == node {
				near += n
			} else {
				far += n
			}
		}
	}
	return near, far
}

// softirqTheft finds CPUs that spend their time on interrupts, and lost packets.
func softirqTheft(v *view) outcome {
	var found []Evidence
	now, then := parseCounts(v.now.files[softirqsFile])["NET_RX"], parseCounts(v.before.files[softirqsFile])["NET_RX"]
	for cpu := range v.machine.Online.All() {
		t := v.cpus[cpu]
		mine := t.total - t.steal
		if mine <= 0 || mine/max(mine-t.interrupts, mine/20) <= maxTheft {
			continue
		}
		found = append(found, seen(statFile, "cpu%d: interrupts take %.0f %% of its time", cpu, share(t.interrupts, mine)),
			seen(softirqsFile, "NET_RX: %.0f/s on CPU %d", (now.perCPU[cpu]-then.perCPU[cpu])/v.seconds, cpu))
	}
	for i, what := range []string{"packets dropped", "times out of its time slice"} {
		n := v.now.softnet(1+i) - v.before.softnet(1+i)
		if n >= minDrops && n*60/v.seconds > maxDrops {
			found = append(found, seen(softnetFile, "%.0f %s", n, what))
		}
	}
	return outcome{evidence: found}
}

// softnet sums a hexadecimal column over all CPUs.
func (s *Sample) softnet(column int) (sum float64) {
	for line := range strings.Lines(s.files[softnetFile]) {
		if fields := strings.Fields(line); len(fields) > column {
			n, err := strconv.ParseUint(fields[column], 16, 32)
			if err == nil {
				sum += float64(n)
			}
		}
	}
	return sum
}

// cstate finds deep sleep on CPUs that must respond at once.
func cstate(v *view) outcome {
	urgent := v.isolated
	for _, t := range v.threads {
		if !t.thread.kernel && t.thread.realtime() && t.thread.allowed != v.machine.Online && t.thread.allowed.IsSubsetOf(v.machine.Online) {
			urgent = urgent.Union(t.thread.allowed)
		}
	}
	var found []Evidence
	for _, file := range slices.Sorted(maps.Keys(v.now.files)) {
		var cpu, state int
		n, _ := fmt.Sscanf(file, "sys/devices/system/cpu/cpu%d/cpuidle/state%d/usage", &cpu, &state)
		if n != 2 || path.Base(file) != "usage" || !urgent.Contains(cpu) {
			continue
		}
		dir := path.Dir(file)
		delta := func(name string) float64 { return number(v.now.files[dir+name]) - number(v.before.files[dir+name]) }
		used, wrong := delta("/usage"), delta("/above")
		latency := number(v.now.files[dir+"/latency"])
		if latency >= minExit && used/v.seconds >= minExits && share(wrong, used) > maxMispredict {
			name := strings.TrimSpace(v.now.files[dir+"/name"])
			found = append(found, seen(dir+"/above", "%s, %.0f us to wake: %.0f/s, %.0f %% of them too deep", name, latency, used/v.seconds, share(wrong, used)))
		}
	}
	return outcome{evidence: found}
}
