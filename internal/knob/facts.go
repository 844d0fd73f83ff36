package knob

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// Facts are what lint compares a profile with, besides the knobs and the machine.
type Facts struct {
	// Systemd says whether units are known at all.
	Systemd bool
	// Units are the names of systemd's units with a file or a control group.
	Units map[string]bool
	// Unified is the path of the unified control group hierarchy's root, "" without one.
	Unified string
	// Remote says that a group below one that is no partition can be one (Linux 6.7 and newer).
	Remote bool
	// Groups are the control groups of units in it, by the unit's name.
	Groups map[string]string
	// CPU is the path of the CPU controller's own hierarchy, of cgroup v1, "" without one, and
	// CPUGroups are the control groups of units in it.
	CPU       string
	CPUGroups map[string]string
	// NICs are network devices with the NUMA node they are at.
	NICs map[string]int
	// Sysctls are the lines of sysctl.d, the one that counts of each name, by file.
	Sysctls map[string]SysctlLine
	// HZ is how many ticks a second has, 0 where nothing says it.
	HZ int
	// RTGroups says that each group of the CPU controller has a budget for real-time threads,
	// which begins as none.
	RTGroups bool
	// RTRoot is the root group's, in microseconds of a second, and 0 where it has none or where that
	// is not known. The kernel takes no less for all groups.
	RTRoot int64
	// Cmdline is the running kernel's command line.
	Cmdline []string
	Memory  Memory
}

// Memory is that of the host in bytes, 0 where it is not known.
type Memory struct {
	Total, Available int64
	// Page is one page of the pool of vm.nr_hugepages.
	Page int64
}

// memory reads what /proc/meminfo says.
func (h *Host) memory() Memory {
	var m Memory
	into := map[string]*int64{"MemTotal:": &m.Total, "MemAvailable:": &m.Available, "Hugepagesize:": &m.Page}
	for line := range strings.Lines(h.Text("/proc/meminfo")) {
		f := strings.Fields(line)
		if len(f) < 2 || into[f[0]] == nil {
			continue
		}
		if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			*into[f[0]] = n << 10
		}
	}
	return m
}

// SysctlLine is a line that sets a sysctl at every boot.
type SysctlLine struct {
	File  string
	Line  int
	Value string
}

// Facts reads what lint has to know.
func (h *Host) Facts() Facts {
	f := Facts{HZ: h.HZ, Units: map[string]bool{}, Groups: map[string]string{}, CPUGroups: map[string]string{}, NICs: map[string]int{}, Sysctls: map[string]SysctlLine{}}
	f.Cmdline = strings.Fields(h.Text("/proc/cmdline"))
	f.Memory = h.memory()
	f.RTGroups = h.rtGroups(f.Cmdline)
	h.units(&f)
	f.RTRoot = h.rtRoot(f)
	for _, name := range h.names("/sys/class/net/") {
		node, err := strconv.Atoi(h.Text("/sys/class/net/" + name + "/device/numa_node"))
		if err == nil && node >= 0 {
			f.NICs[name] = node
		}
	}
	h.sysctlLines(&f)
	return f
}

func (h *Host) units(f *Facts) {
	for _, dir := range []string{"/etc/systemd/system/", "/run/systemd/system/", "/usr/lib/systemd/system/", "/lib/systemd/system/", "/run/systemd/transient/"} {
		for _, name := range h.names(dir) {
			f.Systemd, f.Units[name] = true, true
		}
	}
	const root = "/sys/fs/cgroup"
	if h.There(root + "/cgroup.controllers") {
		f.Unified, f.Remote = root, h.There(root+"/cpuset.cpus.isolated")
		h.groups(f, f.Groups, root, 0)
		return
	}
	for _, own := range []string{root + "/cpu,cpuacct", root + "/cpu"} { // the one is a link to the other
		if h.There(own + "/cpu.shares") {
			f.CPU = own
			h.groups(f, f.CPUGroups, own, 0)
			return
		}
	}
}

// groups notes the control groups of units. Deeper than a unit of a slice of slices there
// is none of the system's.
func (h *Host) groups(f *Facts, into map[string]string, dir string, depth int) {
	const deepest = 4
	for _, name := range h.names(dir + "/") {
		ext := path.Ext(name)
		if ext != ".service" && ext != ".scope" && ext != ".slice" {
			continue
		}
		f.Systemd, f.Units[name], into[name] = true, true, dir+"/"+name
		if ext == ".slice" && depth < deepest && name != "user.slice" {
			h.groups(f, into, dir+"/"+name, depth+1)
		}
	}
}

// rtRoot reads what the root group has for real-time threads. A lower kernel.sched_rt_runtime_us is
// refused (sched_rt_handler and tg_rt_schedulable in kernel/sched/rt.c). On cgroup v2 nothing
// changes what sched_init gave it.
func (h *Host) rtRoot(f Facts) int64 {
	const second, boot = "1000000", "950000"
	runtime, period := "", second
	switch {
	case f.CPU != "":
		runtime, period = h.Text(f.CPU+"/cpu.rt_runtime_us"), h.Text(f.CPU+"/cpu.rt_period_us")
	case f.RTGroups && f.Unified != "":
		runtime = boot
	}
	if runtime == "-1" { // no limit
		runtime = second
	}
	if period != second || h.Text(sysctls+"/kernel/sched_rt_period_us") != second {
		return 0
	}
	n, _ := strconv.ParseInt(runtime, 10, 64) // 0 is not known
	return n
}

// Scheduled is the control group in which the threads of a unit are scheduled: that of the unified
// hierarchy, else of the CPU controller's own; "" where it has none.
func (f Facts) Scheduled(unit string) string {
	if f.Unified != "" {
		return f.Groups[unit]
	}
	return f.CPUGroups[unit]
}

// HasUnit says whether systemd knows a unit, an instance of a template included.
func (f Facts) HasUnit(name string) bool {
	if f.Units[name] {
		return true
	}
	stem, rest, isInstance := strings.Cut(name, "@")
	return isInstance && f.Units[stem+"@"+path.Ext(rest)]
}

// sysctlLines reads sysctl.d as systemd-sysctl does: of two files of one name that in /etc
// counts, then all by name, and /etc/sysctl.conf last; the last line of a key counts.
func (h *Host) sysctlLines(f *Facts) {
	files := map[string]string{}
	for _, dir := range []string{"/usr/lib/sysctl.d/", "/run/sysctl.d/", "/etc/sysctl.d/"} {
		for _, name := range h.names(dir) {
			if path.Ext(name) == ".conf" {
				files[name] = dir + name
			}
		}
	}
	var order []string
	for name := range files {
		order = append(order, name)
	}
	slices.Sort(order)
	for i, name := range order {
		order[i] = files[name]
	}
	for _, file := range append(order, "/etc/sysctl.conf") {
		for _, l := range SysctlLines(h.Text(file)) {
			if at := SysctlFile(l.Key); at != "" {
				f.Sysctls[at] = SysctlLine{File: file, Line: l.Line, Value: l.Value}
			}
		}
	}
}

// Assignment is one line KEY = VALUE.
type Assignment struct {
	Line       int
	Key, Value string
}

// SysctlLines reads the text of a sysctl.d file: comments begin with # or ;, and a dash
// before a key lets it fail. A comment behind a value is no part of it here, although
// sysctl(8) takes it for one: no value of a sysctl has a blank and a #. Lines that assign
// nothing are left out.
func SysctlLines(text string) []Assignment {
	var all []Assignment
	n := 0
	for line := range strings.Lines(text) {
		n++
		key, value, assigns := strings.Cut(strings.TrimSpace(line), "=")
		key = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(key), "-"))
		if !assigns || key == "" || strings.ContainsAny(key[:1], "#;") {
			continue
		}
		if i := strings.Index(value, " #"); i >= 0 {
			value = value[:i]
		}
		all = append(all, Assignment{Line: n, Key: key, Value: strings.Join(strings.Fields(value), " ")})
	}
	return all
}

// Programs returns the names of the programs that run, as the kernel has them: 15 bytes at
// most.
func (h *Host) Programs() map[string]bool {
	all := map[string]bool{}
	for _, pid := range h.names("/proc/") {
		if _, err := strconv.Atoi(pid); err == nil {
			all[h.Text("/proc/"+pid+"/comm")] = true
		}
	}
	return all
}
