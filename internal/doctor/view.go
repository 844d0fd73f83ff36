package doctor

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Files with one name.
const (
	statFile       = "proc/stat"
	uptimeFile     = "proc/uptime"
	loadFile       = "proc/loadavg"
	interruptsFile = "proc/interrupts"
	softirqsFile   = "proc/softirqs"
	softnetFile    = "proc/net/softnet_stat"
	schedExtFile   = "sys/kernel/sched_ext/state"
	lockdownFile   = "sys/kernel/security/lockdown"
	smtFile        = "sys/devices/system/cpu/smt/control"
	onlineFile     = "sys/devices/system/cpu/online"
	cgroupDir      = "sys/fs/cgroup/"
)

// view is the input of the checks: two samples, and data that several checks derive from them.
type view struct {
	before, now *Sample // before is nil with one sample
	seconds     float64 // between the samples
	machine     *topology.Topology
	isolated    cpuset.Set // by boot argument or partition
	unbalanced  cpuset.Set // the part without load balancing
	cpus        map[int]cpuTime
	threads     []change
	groups      []string // every directory with a file of a group, parents first
}

// change is a thread in the second sample, with differences if both samples have it.
type change struct {
	thread thread
	dir    string
	// known is true if both samples have the thread, timed if both have its schedstat.
	known, timed bool
	// ran, waited, … are differences.
	ran, waited, turns, gave, lost float64
	// stuck is true if it was in uninterruptible sleep in both samples.
	stuck bool
}

func newView(before, now *Sample) *view {
	v := &view{before: before, now: now, machine: now.machine, cpus: map[int]cpuTime{}}
	if before != nil {
		v.seconds = now.uptime() - before.uptime()
		if v.seconds <= 0 {
			v.before, before = nil, nil // the same moment twice, or a reboot in between
		}
	}
	v.findGroups()
	v.findIsolated()
	var old map[string]thread
	if before != nil {
		old = before.threads()
		was := parseStat(before.files[statFile])
		for cpu, t := range parseStat(now.files[statFile]) {
			if then, ok := was[cpu]; ok {
				v.cpus[cpu] = t.minus(then)
			}
		}
	}
	current := now.threads()
	for _, dir := range slices.Sorted(maps.Keys(current)) {
		v.threads = append(v.threads, changed(dir, current[dir], old[dir]))
	}
	return v
}

// changed compares a thread with the first sample's thread of this ID, which may be another thread, or none.
func changed(dir string, t, then thread) change {
	c := change{thread: t, dir: dir, known: then.start != "" && then.start == t.start}
	if !c.known {
		return c
	}
	c.ran, c.gave, c.lost = t.busy-then.busy, t.voluntary-then.voluntary, t.forced-then.forced
	c.stuck = t.state == 'D' && then.state == 'D'
	if c.timed = t.run >= 0 && then.run >= 0; c.timed {
		c.ran, c.waited, c.turns = t.run-then.run, t.wait-then.wait, t.slices-then.slices
	}
	return c
}

func (s *Sample) uptime() float64 {
	first, _, _ := strings.Cut(s.files[uptimeFile], " ")
	return number(first)
}

func (v *view) findGroups() {
	dirs := map[string]bool{}
	for name := range v.now.files {
		if slices.Contains(groupFiles(), path.Base(name)) {
			dirs[path.Dir(name)] = true
		}
	}
	v.groups = slices.Sorted(maps.Keys(dirs))
}

// cpusOf and memsOf return the effective CPUs and memory nodes of a group.
func (v *view) cpusOf(dir string) (set cpuset.Set, file string) {
	return v.first(dir, "cpuset.cpus.effective", "cpuset.effective_cpus")
}

func (v *view) memsOf(dir string) (set cpuset.Set, file string) {
	return v.first(dir, "cpuset.mems.effective", "cpuset.effective_mems")
}

func (v *view) first(dir string, names ...string) (cpuset.Set, string) {
	for _, name := range names {
		if text, ok := v.now.files[dir+"/"+name]; ok {
			return list(text), dir + "/" + name
		}
	}
	return cpuset.Set{}, ""
}

// findIsolated unites the CPUs that boot arguments and partitions isolate. CPUs in nohz_full alone are balanced.
func (v *view) findIsolated() {
	v.unbalanced = v.machine.Isolated
	for _, dir := range v.groups {
		if v.partition(dir) == "isolated" {
			cpus, _ := v.cpusOf(dir)
			v.unbalanced = v.unbalanced.Union(cpus)
		}
	}
	v.unbalanced = v.unbalanced.Intersect(v.machine.Online)
	v.isolated = v.unbalanced.Union(v.machine.NoHzFull.Intersect(v.machine.Online))
}

// partition returns the partition state of a group, "" without one.
func (v *view) partition(dir string) string {
	return strings.TrimSpace(v.now.files[dir+"/cpuset.cpus.partition"])
}

// node returns the NUMA node of a CPU, or topology.None.
func (v *view) node(cpu int) topology.NodeID {
	for _, n := range v.machine.Nodes {
		if n.CPUs.Contains(cpu) {
			return n.ID
		}
	}
	return topology.None
}

// missing returns why a file of a check is not available, "" if it is.
func (v *view) missing(file string) string {
	prefix, rest, pattern := strings.Cut(file, "*")
	switch {
	case strings.HasPrefix(file, "["):
		return ""
	case !pattern:
		return v.now.absent(file)
	case strings.HasPrefix(file, "proc/*/task/"):
		return v.now.hidden()
	}
	suffix := rest[strings.LastIndexByte(rest, '/'):]
	if prefix == cgroupDir {
		prefix = "" // at any mount point
	}
	why := ""
	matches := func(name string) bool { return strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) }
	for name := range v.now.files {
		if matches(name) {
			return ""
		}
	}
	for name, reason := range v.now.denied {
		if matches(name) {
			why = reason
		}
	}
	if why == "" {
		why = "there is none here"
	}
	return "/" + file + ": " + why
}

// absent returns why a file is not in the sample, "" if it is.
func (s *Sample) absent(name string) string {
	if _, ok := s.files[name]; ok {
		return ""
	}
	if why, ok := s.denied[name]; ok {
		return "/" + name + ": " + why
	}
	return "/" + name + " is not there"
}

// hidden returns why the threads of the host are not visible, "" if they are. Every host has kernel threads, but a
// container, or a /proc with hidepid, shows none.
func (s *Sample) hidden() string {
	why := "/proc has no processes"
	for name, text := range s.files {
		if dir, file, ok := threadOf(name); ok && file == "stat" {
			why = "/proc shows only some processes: a container, or hidepid; run it on the host, as root"
			if t, ok := parseThreadStat(text); ok && t.kernel && dir != "" {
				return ""
			}
		}
	}
	return why
}

// load describes the load of the host.
func (v *view) load() string {
	fields := strings.Fields(v.now.files[loadFile])
	n := v.machine.Online.Size()
	if len(fields) == 0 || n == 0 {
		return ""
	}
	load := number(fields[0])
	return fmt.Sprintf("load %.1f on %d CPU(s), %.1f a CPU", load, n, load/float64(n))
}

// seen returns evidence from a file of the sample.
func seen(file, format string, args ...any) Evidence {
	return Evidence{File: "/" + file, Value: fmt.Sprintf(format, args...)}
}

// share returns part in percent of whole, 0 if whole is 0.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * part / whole
}
