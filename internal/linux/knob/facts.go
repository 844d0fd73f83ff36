package knob

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// Facts are the facts about a host that lint compares a profile with, in addition to the knobs and the machine.
type Facts struct {
	// Systemd is true if the units are known.
	Systemd bool
	// Units are the names of systemd's units that have a file or a control group.
	Units map[string]bool
	// Unified is the path of the unified control group hierarchy's root, "" if there is none.
	Unified string
	// Remote is true if a group can be a partition although its parent is none (Linux 6.7 and newer).
	Remote bool
	// Groups are the control groups of running units in the unified hierarchy, by the unit's name.
	Groups map[string]string
	// CPU is the path of the CPU controller's own hierarchy in cgroup v1, "" if there is none. CPUGroups are the
	// control groups of units in it.
	CPU       string
	CPUGroups map[string]string
	// NICs are the network devices, each with its NUMA node.
	NICs map[string]int
	// Sysctls are the lines of sysctl.d that take effect, by the sysctl's file.
	Sysctls map[string]SysctlLine
	// HZ is the number of ticks per second, 0 if it is unknown.
	HZ int
	// RTGroups is true if each group of the CPU controller has a budget for real-time threads, which is 0 at first.
	RTGroups bool
	// RTRoot is the real-time budget of the root group, in microseconds per second. It is 0 if the root group has none
	// or if it is unknown. The kernel refuses a lower limit for all groups.
	RTRoot int64
	// Cmdline is the running kernel's command line.
	Cmdline []string
	Memory  Memory
}

// Memory is the memory of the host in bytes. A field is 0 if it is unknown.
type Memory struct {
	Total, Available int64
	// Page is the size of one page of the pool of vm.nr_hugepages.
	Page int64
}

// memory reads /proc/meminfo.
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

// Facts reads the facts that lint needs.
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

// units records the units in the search path of the system's systemd (systemd.unit(5)), and the groups of units.
func (h *Host) units(f *Facts) {
	for _, dir := range []string{
		"/etc/systemd/system/", "/etc/systemd/system.attached/", "/run/systemd/system/", "/run/systemd/system.attached/", "/run/systemd/transient/",
		"/run/systemd/generator.early/", "/run/systemd/generator/", "/run/systemd/generator.late/",
		"/usr/local/lib/systemd/system/", "/usr/lib/systemd/system/", "/lib/systemd/system/",
	} {
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
	for _, own := range []string{root + "/cpu,cpuacct", root + "/cpu"} { // one is a link to the other
		if h.There(own + "/cpu.shares") {
			f.CPU = own
			h.groups(f, f.CPUGroups, own, 0)
			return
		}
	}
}

// groups records the control groups of units. It stops at nested slices deeper than the system uses.
func (h *Host) groups(f *Facts, into map[string]string, dir string, depth int) {
	const deepest = 4
	for _, name := range h.names(dir + "/") {
		ext := path.Ext(name)
		if ext != ".service" && ext != ".scope" && ext != ".slice" {
			continue
		}
		f.Systemd, f.Units[name] = true, true
		if Runs(h, dir+"/"+name) {
			into[name] = dir + "/" + name
		}
		if ext == ".slice" && depth < deepest && name != "user.slice" {
			h.groups(f, into, dir+"/"+name, depth+1)
		}
	}
}

// Runs reports whether the unit of a group runs. systemd also makes the group of a service that does not run, when the
// service gets a list: then no process is in it. The group of a slice is enough. cgroup v1 does not count processes.
func Runs(h *Host, group string) bool {
	return path.Ext(group) == ".slice" || !strings.Contains(h.Text(group+"/cgroup.events"), "populated 0")
}

// rtRoot reads the budget of the root group for real-time threads. The kernel refuses a lower
// kernel.sched_rt_runtime_us (sched_rt_handler and tg_rt_schedulable in kernel/sched/rt.c). On cgroup v2, the budget
// from sched_init never changes.
func (h *Host) rtRoot(f Facts) int64 {
	const second, boot = "1000000", "950000"
	runtime, period := "", second
	switch {
	case f.CPU != "":
		runtime, period = h.Text(f.CPU+"/cpu.rt_runtime_us"), h.Text(f.CPU+"/cpu.rt_period_us")
	case f.RTGroups && f.Unified != "":
		runtime = boot
	}
	if runtime == "-1" { // unlimited
		runtime = second
	}
	if period != second || h.Text(sysctls+"/kernel/sched_rt_period_us") != second {
		return 0
	}
	n, _ := strconv.ParseInt(runtime, 10, 64) // 0 is unknown
	return n
}

// Scheduled returns the control group in which the threads of a unit are scheduled: the group in the unified hierarchy,
// else in the CPU controller's own. It is "" if the unit has none.
func (f Facts) Scheduled(unit string) string {
	if f.Unified != "" {
		return f.Groups[unit]
	}
	return f.CPUGroups[unit]
}

// HasUnit reports whether systemd knows a unit, including an instance of a template.
func (f Facts) HasUnit(name string) bool {
	if f.Units[name] {
		return true
	}
	stem, rest, isInstance := strings.Cut(name, "@")
	return isInstance && f.Units[stem+"@"+path.Ext(rest)]
}

// sysctlLines reads sysctl.d as systemd-sysctl does. A file in /etc replaces a file of the same name in /run or
// /usr/lib, and a file in /run replaces one in /usr/lib. The files are read in the order of their names, and
// /etc/sysctl.conf last. The last line for a key takes effect.
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

// SysctlLines parses the text of a sysctl.d file. Comments begin with # or ;, and a dash before a key allows the
// assignment to fail. SysctlLines removes a comment after a value, although sysctl(8) reads it as part of the value: no
// value of a sysctl has a blank and a #. Lines that assign nothing are omitted.
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

// Programs returns the names of the running programs, in the kernel's form: at most 15 bytes.
func (h *Host) Programs() map[string]bool {
	all := map[string]bool{}
	for _, pid := range h.names("/proc/") {
		if _, err := strconv.Atoi(pid); err == nil {
			all[h.Text("/proc/"+pid+"/comm")] = true
		}
	}
	return all
}
