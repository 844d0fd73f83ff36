package doctor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/linux/knob"
)

// The knobs with a check; the catalog of knobs has their bounds.
const (
	sliceKnob     = "fair.slice"
	migrationKnob = "fair.migrationCost"
)

// Limits of the scheduler's settings, in nanoseconds, that are not in the catalog.
const (
	shortSlice   = 0.7e6 // the kernel's default on one CPU
	defaultSlice = 2.8e6 // the kernel's default on eight CPUs and more
	minTurns     = 200   // per second
)

// placesOf returns where kernels have a knob.
func placesOf(name string) []knob.Place {
	k, _ := knob.Lookup(name)
	return k.Places
}

// local returns the name of a host's file in a sample.
func local(file string) string { return strings.TrimPrefix(file, "/") }

// optional returns the possible files of a knob; a host has one of them.
func optional(name string) []string {
	var files []string
	for _, p := range placesOf(name) {
		files = append(files, "["+local(p.File)+"]")
		if p.Shown != nil {
			files = append(files, "["+local(p.Shown.File)+"]")
		}
	}
	return files
}

// fairUnused returns why the settings of the fair class have no effect, "" if they have.
func (s *Sample) fairUnused() string {
	if state := strings.TrimSpace(s.files[schedExtFile]); state == "enabled" || state == "enabling" {
		return "/" + schedExtFile + ": a sched_ext scheduler runs, and fair slices mean nothing"
	}
	return ""
}

// setting returns the value of a knob in nanoseconds, and its file, "" if no file has it. A recording has an empty file
// if root could not read it.
func (s *Sample) setting(name string) (value float64, file string) {
	for _, p := range placesOf(name) {
		file := local(p.File)
		if n, ok := decimal(s.files[file]); ok {
			return n * float64(max(p.Scale, 1)), file
		}
		if p.Shown == nil {
			continue
		}
		file = local(p.Shown.File)
		if n, ok := p.Shown.Read(s.files[file]); ok {
			return float64(n), file
		}
	}
	return 0, ""
}

// unreadable returns why the sample has no file of a knob.
func (s *Sample) unreadable(name string) string {
	newest := ""
	for _, p := range placesOf(name) {
		newest = local(p.File)
		if s.denied[newest] == "" {
			continue
		}
		why := s.absent(newest)
		if lock := s.files[lockdownFile]; strings.Contains(lock, "[integrity]") || strings.Contains(lock, "[confidentiality]") {
			why += " (kernel lockdown)"
		}
		return why
	}
	if strings.HasPrefix(newest, debugDir) && !s.debugfs() {
		return "debugfs is not mounted at /" + strings.TrimSuffix(debugDir, "/")
	}
	return "/" + newest + " is not there, nor is what other kernels have for it"
}

// debugDir is where debugfs is mounted.
const debugDir = "sys/kernel/debug/"

// debugfs reports whether debugfs is mounted. It is true if unknown: a sample without mounts may come from a host with
// debugfs.
func (s *Sample) debugfs() bool {
	mounts, known := s.files[mountsFile]
	if !known || strings.Contains(mounts, " - debugfs ") {
		return true
	}
	for name := range s.files {
		if strings.HasPrefix(name, debugDir) {
			return true
		}
	}
	return false
}

// migrationCost finds a setting that keeps idle CPUs from pulling tasks.
func migrationCost(v *view) outcome {
	if why := v.now.fairUnused(); why != "" {
		return outcome{skip: why}
	}
	cost, file := v.now.setting(migrationKnob)
	if file == "" {
		return outcome{skip: v.now.unreadable(migrationKnob)}
	}
	if k, _ := knob.Lookup(migrationKnob); cost >= 0 && cost <= float64(k.SafeHigh) {
		return outcome{}
	}
	o := outcome{severity: Info, evidence: []Evidence{seen(file, "%s ns", strings.TrimSpace(v.now.files[file]))}}
	if v.before == nil {
		return o
	}
	var waiting float64
	for _, t := range v.threads {
		if t.timed && !t.thread.kernel {
			waiting += t.waited / v.seconds
		}
	}
	if idle := v.idle(v.machine.Online.Difference(v.unbalanced)); waiting >= minWaiting && idle >= minIdle {
		o.severity = Warning
		o.evidence = append(o.evidence, seen("proc/*/task/*/schedstat", "%.1f threads wait", waiting), seen(statFile, "%.1f CPUs are idle", idle))
	}
	return o
}

// baseSlice finds a slice that no kernel chooses by itself.
func baseSlice(v *view) outcome {
	if why := v.now.fairUnused(); why != "" {
		return outcome{skip: why}
	}
	slice, file := v.now.setting(sliceKnob)
	if file == "" {
		return outcome{skip: v.now.unreadable(sliceKnob)}
	}
	k, _ := knob.Lookup(sliceKnob)
	o := outcome{evidence: []Evidence{seen(file, "%s ms", strconv.FormatFloat(slice/1e6, 'f', -1, 64))}}
	switch {
	case slice < float64(k.Low) || slice > float64(k.High): // outside of the kernel's range for a thread
		o.severity = Critical
	case slice >= shortSlice && slice <= float64(k.SafeHigh):
		return outcome{}
	}
	return o
}

// knobDrift finds kernel files whose value is no longer what Berth set.
func knobDrift(v *view) outcome {
	var found []Evidence
	for line := range strings.Lines(v.now.files[managedFile]) {
		file, desired, _ := strings.Cut(strings.TrimSpace(line), " ")
		now, ok := v.now.files[file]
		if ok && !knob.Same("/"+file, now, desired) {
			found = append(found, seen(file, "%s, set to %s", knob.Content("/"+file, now), desired))
		}
	}
	switch why := v.now.denied[managedFile]; {
	case found != nil:
		return outcome{evidence: found}
	case why != "":
		return outcome{skip: "the journal of host profiles cannot be read: " + why}
	case v.now.files[managedFile] == "":
		return outcome{skip: "Berth has set no kernel file on this host, by the journal of its stateDir (--config names another one)"}
	}
	return outcome{}
}

// otherTuners finds programs that set what Berth and its profiles set, or that move processes.
func otherTuners(v *view) outcome {
	var found []Evidence
	for _, t := range v.threads {
		if what := tunes(t.thread.comm); what != "" && !t.thread.kernel && t.thread.pid == t.thread.tid {
			found = append(found, seen(t.dir+"/stat", "%s runs: %s", t.thread.comm, what))
		}
	}
	return outcome{evidence: found}
}

// tunes returns what a program sets, "" if it is not known to set anything. The kernel cuts names after 15 characters.
func tunes(comm string) string {
	switch comm {
	case "tuned":
		return "kernel settings, governors, affinities"
	case "power-profiles-", "auto-cpufreq":
		return "governors and energy preferences"
	case "numad":
		return "CPUs and memory nodes of processes"
	case "bpftune":
		return "kernel settings"
	case "ananicy", "ananicy-cpp", "system76-schedu":
		return "priorities and policies of processes"
	case "koordlet", "katalyst-agent", "nri-resource-po":
		return "CPU sets and quotas of pods"
	}
	return ""
}

// partitionInvalid finds partitions that the kernel made invalid.
func partitionInvalid(v *view) outcome {
	var found []Evidence
	for _, dir := range v.groups {
		if text := v.partition(dir); strings.Contains(text, "invalid") {
			found = append(found, seen(dir+"/cpuset.cpus.partition", "%s", text))
		}
	}
	return outcome{evidence: found}
}

// firmware finds hidden NUMA nodes, and SMT that is off.
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
