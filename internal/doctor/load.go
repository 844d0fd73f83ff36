package doctor

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// Limits of the checks of load; (H) in the catalogue.
const (
	minWaiting   = 0.5  // threads that wait all the time, of a set of CPUs
	minIdle      = 0.5  // CPUs idle at the same time
	fullIdle     = 5    // percent, of CPUs that are all busy
	fullWaiting  = 0.25 // threads that wait all the time, per such CPU
	mostNamed    = 3    // programs
	minStuck     = 2    // threads in uninterruptible sleep
	minPeriods   = 5    // of a quota, in the interval
	maxThrottled = 25   // percent
	mostPeriods  = 50   // percent
	maxSteal     = 10   // percent
	maxRealtime  = 80   // percent
	maxForced    = 50   // percent
	maxDelay     = 25   // percent
)

// notOverloaded finds a host with fewer tasks than CPUs.
func notOverloaded(v *view) outcome {
	fields := strings.Fields(v.now.files[loadFile])
	running := keyed(v.now.files[statFile])["procs_running"]
	n := float64(v.machine.Online.Size())
	if len(fields) == 0 || number(fields[0]) >= n || running > n {
		return outcome{}
	}
	found := []Evidence{seen(loadFile, "%s", strings.Join(fields[:min(3, len(fields))], " ")), seen(onlineFile, "%s", v.machine.Online)}
	if all, ok := v.cpus[-1]; ok {
		found = append(found, seen(statFile, "CPUs busy for %.0f %% of the time", share(all.total-all.idle-all.steal, all.total)))
	}
	return outcome{evidence: found}
}

// uninterruptible finds threads that raise the load but use no CPU.
func uninterruptible(v *view) outcome {
	var found []Evidence
	runnable := 0
	for _, t := range v.threads {
		switch {
		case t.thread.state == 'R':
			runnable++
		case t.stuck && !strings.Contains(t.thread.wchan, "refrigerator"): // a frozen thread is paused
			where := cmp.Or(strings.Trim(t.thread.wchan, "0"), "the kernel")
			found = append(found, seen(t.dir+"/stat", "%s: state D both times, waits in %s", t.thread.comm, where))
		}
	}
	if len(found) < minStuck || len(found) < runnable {
		return outcome{}
	}
	for _, what := range []string{"io", "memory"} {
		file := "proc/pressure/" + what
		if stall := v.now.stall(file) - v.before.stall(file); stall > 0 {
			e := seen(file, "all tasks stalled for %.0f %% of the time", min(100, share(stall/1e6, v.seconds)))
			found = slices.Insert(found, min(2, len(found)), e)
		}
	}
	return outcome{evidence: found}
}

// stall returns for how long all tasks stalled, in microseconds.
func (s *Sample) stall(file string) float64 {
	_, total, _ := strings.Cut(value(s.files[file], "full"), "total=")
	return number(total)
}

// confined finds threads that wait for their CPUs while other CPUs are idle.
func confined(v *view) outcome {
	type queue struct {
		waiting float64
		worst   change
	}
	queues := map[cpuset.Set]queue{}
	for _, t := range v.threads {
		usable := t.thread.allowed.Intersect(v.machine.Online)
		if t.thread.kernel || !t.timed || usable.IsEmpty() || usable == v.machine.Online || usable.IsSubsetOf(v.unbalanced) {
			continue
		}
		q := queues[usable]
		q.waiting += t.waited / v.seconds
		if q.worst.dir == "" || t.waited > q.worst.waited {
			q.worst = t
		}
		queues[usable] = q
	}
	var found []Evidence
	sets := slices.SortedFunc(maps.Keys(queues), func(a, b cpuset.Set) int { return cmp.Compare(queues[b].waiting, queues[a].waiting) })
	for _, set := range sets {
		q, others := queues[set], v.machine.Online.Difference(set).Difference(v.unbalanced)
		if idle := v.idle(others); q.waiting >= minWaiting && idle >= minIdle {
			found = append(found,
				seen(q.worst.dir+"/status", "Cpus_allowed_list %s: %.1f threads wait there, %s the most", set, q.waiting, q.worst.thread.comm),
				seen(statFile, "of CPUs %s %.1f are idle", others, idle))
		}
	}
	return outcome{evidence: found}
}

// overloaded finds more work than CPUs: no shared CPU is idle, and threads wait. It names the programs that ran the
// most.
func overloaded(v *view) outcome {
	shared := v.machine.Online.Difference(v.unbalanced)
	n, waiting := float64(shared.Size()), 0.0
	ran, counts := map[string]float64{}, map[string]int{}
	for _, t := range v.threads {
		if t.timed && !t.thread.kernel {
			waiting += t.waited / v.seconds
			ran[t.thread.comm] += t.ran / v.seconds
			counts[t.thread.comm]++
		}
	}
	if share(v.idle(shared), n) >= fullIdle || waiting < max(1, fullWaiting*n) {
		return outcome{}
	}
	found := []Evidence{seen(statFile, "CPUs %s busy for %.0f %% of the time", shared, 100-share(v.idle(shared), n))}
	if fields := strings.Fields(v.now.files[loadFile]); len(fields) > 0 {
		found = append(found, seen(loadFile, "%s on %.0f CPUs", fields[0], n))
	}
	found = append(found, seen(schedstats, "%.1f threads waited for a CPU all the time", waiting))
	names := slices.SortedFunc(maps.Keys(ran), func(a, b string) int { return cmp.Or(cmp.Compare(ran[b], ran[a]), cmp.Compare(a, b)) })
	for _, comm := range names[:min(mostNamed, len(names))] {
		found = append(found, seen(schedstats, "%s: %d thread(s) used %.1f CPUs", comm, counts[comm], ran[comm]))
	}
	return outcome{evidence: found}
}

// idle returns how many CPUs of a set were idle, on average.
func (v *view) idle(set cpuset.Set) float64 {
	var sum float64
	for cpu := range set.All() {
		sum += share(v.cpus[cpu].idle, v.cpus[cpu].total) / 100
	}
	return sum
}

// throttled finds groups that their quota stops in many periods. It does not use the throttled time, which is not
// comparable between kernels: since Linux 6.18 a thread that continues in kernel mode is counted late.
func throttled(v *view) outcome {
	type held struct {
		ratio    float64
		evidence []Evidence
	}
	var all []held
	for _, dir := range v.groups {
		file := path.Join(dir, "cpu.stat")
		now, then := keyed(v.now.files[file]), keyed(v.before.files[file])
		periods, times := now["nr_periods"]-then["nr_periods"], now["nr_throttled"]-then["nr_throttled"]
		ratio := share(times, periods)
		if periods < minPeriods || ratio <= maxThrottled {
			continue
		}
		all = append(all, held{ratio, []Evidence{
			seen(file, "%.0f of %.0f periods throttled (%.0f %%)", times, periods, ratio),
			v.quota(dir),
		}})
	}
	slices.SortStableFunc(all, func(a, b held) int { return cmp.Compare(b.ratio, a.ratio) })
	var o outcome
	for _, h := range all {
		o.evidence = append(o.evidence, h.evidence...)
		if h.ratio > mostPeriods {
			o.severity = Critical
		}
	}
	return o
}

// quota returns the limit of a group, as in its file.
func (v *view) quota(dir string) Evidence {
	if text, ok := v.now.files[dir+"/cpu.max"]; ok {
		return seen(dir+"/cpu.max", "%s", strings.TrimSpace(text))
	}
	period := strings.TrimSpace(v.now.files[dir+"/cpu.cfs_period_us"])
	return seen(dir+"/cpu.cfs_quota_us", "%s of %s", strings.TrimSpace(v.now.files[dir+"/cpu.cfs_quota_us"]), period)
}

// overPreempted finds threads that are often preempted after a short turn.
func overPreempted(v *view) outcome {
	if why := v.now.fairUnused(); why != "" {
		return outcome{skip: why}
	}
	slice, _ := v.now.setting(sliceKnob)
	if slice == 0 {
		slice = defaultSlice
	}
	var worst []change
	for _, t := range v.threads {
		if t.thread.kernel || !t.timed || t.turns < 1 || t.thread.realtime() {
			continue
		}
		short := t.ran*nanos/t.turns < slice/2
		often := t.turns/v.seconds >= minTurns
		if short && often && share(t.lost, t.lost+t.gave) > maxForced && share(t.waited, t.waited+t.ran) > maxDelay {
			worst = append(worst, t)
		}
	}
	slices.SortStableFunc(worst, func(a, b change) int { return cmp.Compare(b.waited, a.waited) })
	var found []Evidence
	for _, t := range worst {
		found = append(found,
			seen(t.dir+"/schedstat", "%s: %.0f turns/s of %.2f ms, waited for %.0f %% of the time", t.thread.comm, t.turns/v.seconds, 1000*t.ran/t.turns, share(t.waited, t.waited+t.ran)),
			seen(t.dir+"/status", "%.0f %% of its context switches are forced", share(t.lost, t.lost+t.gave)))
	}
	return outcome{evidence: found}
}

// rtHog finds real-time threads that leave other threads no time.
func rtHog(v *view) outcome {
	var found []Evidence
	for _, t := range v.threads {
		used := share(t.ran, v.seconds)
		if t.thread.kernel || !t.known || !t.thread.realtime() || used <= maxRealtime || v.isolated.Contains(t.thread.cpu) {
			continue
		}
		name := map[int]string{policyFIFO: "FIFO", policyRR: "RR", policyDeadline: "DEADLINE"}[t.thread.policy]
		found = append(found, seen(t.dir+"/stat", "%s: %s %d on CPU %d, ran for %.0f %% of the time", t.thread.comm, name, t.thread.priority, t.thread.cpu, min(100, used)))
	}
	return outcome{evidence: found}
}

// steal finds a hypervisor that runs other machines on this host's CPUs.
func steal(v *view) outcome {
	all := v.cpus[-1]
	stolen := share(all.steal, all.total)
	if stolen <= maxSteal {
		return outcome{}
	}
	return outcome{evidence: []Evidence{seen(statFile, "cpu: %.0f %% stolen", stolen)}}
}

// hwThrottled finds CPUs that were slowed down because of heat or power.
func hwThrottled(v *view) outcome {
	var found []Evidence
	for _, file := range slices.Sorted(maps.Keys(v.now.files)) {
		if n := number(v.now.files[file]) - number(v.before.files[file]); strings.HasSuffix(file, "_throttle_count") && n > 0 {
			found = append(found, seen(file, "%.0f times", n))
		}
	}
	return outcome{evidence: found}
}
