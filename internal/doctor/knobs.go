package doctor

import (
	"slices"
	"strconv"
	"strings"
)

// Limits of the scheduler's settings, in nanoseconds.
const (
	maxMigrationCost = 5e6
	minSlice         = 0.1e6 // the kernel's own range for one thread
	maxSlice         = 100e6
	shortSlice       = 0.7e6 // the kernel's default on one CPU
	longSlice        = 12e6
	defaultSlice     = 2.8e6 // the kernel's default on eight CPUs and more
	minTurns         = 200   // a second
)

// fairUnused says that the settings of the fair class have no effect.
func (s *Sample) fairUnused() string {
	if state := strings.TrimSpace(s.files[schedExtFile]); state == "enabled" || state == "enabling" {
		return "/" + schedExtFile + ": a sched_ext scheduler runs, and fair slices mean nothing"
	}
	return ""
}

// setting returns the value of the first of the files that is there; file is "" if none.
func (s *Sample) setting(files ...string) (value float64, file string) {
	for _, file := range files {
		if text, ok := s.files[file]; ok {
			return number(text), file
		}
	}
	return 0, ""
}

// unreadable says why none of these files is there.
func (s *Sample) unreadable(files ...string) string {
	for _, file := range files {
		if why := s.absent(file); s.denied[file] != "" {
			if lock := s.files[lockdownFile]; strings.Contains(lock, "[integrity]") || strings.Contains(lock, "[confidentiality]") {
				return why + " (kernel lockdown)"
			}
			return why
		}
	}
	return "/" + files[0] + " is not there: an older or newer kernel, no debugfs, or a container"
}

func migrationCostFiles() []string {
	return []string{"sys/kernel/debug/sched/migration_cost_ns", "proc/sys/kernel/sched_migration_cost_ns"}
}

// migrationCost finds a setting that keeps idle CPUs from taking work.
func migrationCost(v *view) outcome {
	if why := v.now.fairUnused(); why != "" {
		return outcome{skip: why}
	}
	cost, file := v.now.setting(migrationCostFiles()...)
	if file == "" {
		return outcome{skip: v.now.unreadable(migrationCostFiles()...)}
	}
	if cost >= 0 && cost <= maxMigrationCost {
		return outcome{}
	}
	o := outcome{severity: Info, evidence: []Evidence{seen(file, "%s ns", strings.TrimSpace(v.now.files[file]))}}
	if v.before == nil {
		return o
	}
	var waiting float64
	for _, t := range v.threads {
		if t.timed && !t.kernel {
			waiting += t.waited / v.seconds
		}
	}
	if idle := v.idle(v.machine.Online.Difference(v.unbalanced)); waiting >= minWaiting && idle >= minIdle {
		o.severity = Warning
		o.evidence = append(o.evidence, seen("proc/*/task/*/schedstat", "%.1f threads wait", waiting), seen(statFile, "%.1f CPUs are idle", idle))
	}
	return o
}

// baseSlice returns the fair slice in nanoseconds and where it stands, "" if unknown. A
// locked kernel shows it in one file only, in milliseconds.
func (s *Sample) baseSlice() (slice float64, file string) {
	slice, file = s.setting(baseSliceFiles()...)
	const overview = "sys/kernel/debug/sched/debug"
	if _, text, ok := strings.Cut(s.files[overview], ":"); file == "" && ok {
		return number(text) * 1e6, overview
	}
	return slice, file
}

func baseSliceFiles() []string {
	return []string{"sys/kernel/debug/sched/base_slice_ns", "sys/kernel/debug/sched/min_granularity_ns", "proc/sys/kernel/sched_min_granularity_ns"}
}

// baseSlice finds a slice that no kernel chooses for itself.
func baseSlice(v *view) outcome {
	if why := v.now.fairUnused(); why != "" {
		return outcome{skip: why}
	}
	slice, file := v.now.baseSlice()
	if file == "" {
		return outcome{skip: v.now.unreadable(baseSliceFiles()...)}
	}
	o := outcome{evidence: []Evidence{seen(file, "%s ms", strconv.FormatFloat(slice/1e6, 'f', -1, 64))}}
	switch {
	case slice < minSlice || slice > maxSlice:
		o.severity = Critical
	case slice >= shortSlice && slice <= longSlice:
		return outcome{}
	}
	return o
}

// knobDrift finds kernel files that no longer have what Berth set.
func knobDrift(v *view) outcome {
	all, ok := v.now.files[managedFile]
	if !ok {
		return outcome{skip: "Berth has set no kernel file on this host, or its journal cannot be read"}
	}
	var found []Evidence
	for line := range strings.Lines(all) {
		file, want, _ := strings.Cut(strings.TrimSpace(line), " ")
		now, ok := v.now.files[file]
		if ok && canonical(now) != canonical(want) {
			found = append(found, seen(file, "%s, set to %s", canonical(now), want))
		}
	}
	return outcome{evidence: found}
}

// partitionInvalid finds partitions that the kernel does not keep.
func partitionInvalid(v *view) outcome {
	var found []Evidence
	for _, dir := range v.groups {
		if text := v.partition(dir); strings.Contains(text, "invalid") {
			found = append(found, seen(dir+"/cpuset.cpus.partition", "%s", text))
		}
	}
	return outcome{evidence: found}
}

// firmware finds what was switched off before the kernel started.
func firmware(v *view) outcome {
	if slices.Contains(strings.Fields(v.now.files["proc/cpuinfo"]), "hypervisor") {
		return outcome{skip: "a virtual machine: the hypervisor decides what it shows of cores and nodes"}
	}
	if len(v.machine.Sockets) > 1 && len(v.machine.Nodes) == 1 {
		return outcome{evidence: []Evidence{seen("sys/devices/system/node", "%d sockets, one NUMA node", len(v.machine.Sockets))}}
	}
	if control := strings.TrimSpace(v.now.files[smtFile]); control == "off" || control == "forceoff" {
		return outcome{severity: Info, evidence: []Evidence{seen(smtFile, "%s", control)}}
	}
	return outcome{}
}
