package knob

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Prefix begins the name of a knob that is any sysctl.
const Prefix = "sysctl."

// sysctlKey returns the sysctl's own name.
func sysctlKey(name string) (string, bool) { return strings.CutPrefix(name, Prefix) }

// sysctl is the knob of a sysctl. The path follows sysctl(8): what separates the first
// part, "." or "/", separates all, and the other one is the other one in the path.
func sysctl(key string) (Knob, bool) {
	file := SysctlFile(key)
	if file == "" {
		return Knob{}, false
	}
	k := Knob{
		Name: Prefix + key, About: "the kernel parameter " + key, Unit: Text,
		Effective: "the file", Class: Exact, Risk: Medium, Phase: phaseOf(file),
		Places: []Place{{Kernels: anyLinux, File: file}},
	}
	if IsPool(file) {
		k.Class = Lossy
		k.Trap = "the kernel takes as many pages as it has memory for; an undo asks for the number that there was, and the kernel chooses their NUMA nodes again"
	}
	if forwards(file) {
		k.Class, k.Risk = Lossy, High
		k.Trap = "1 takes the default routes that routers advertised, of all interfaces: no undo brings them back, only the routers' next advertisement"
	}
	return k, true
}

// phaseOf is when a sysctl is written, by whichever name it goes. The kernel takes no period of real-time threads that
// is shorter than what they may take of it: both go together.
func phaseOf(file string) Phase {
	if file == rtRuntime || file == rtPeriod {
		return RealTime
	}
	return Plain
}

// PhaseAt is the part of an apply in which a file is written.
func PhaseAt(file string) Phase {
	if k, _, known := At(file); known {
		return k.Phase
	}
	return phaseOf(file)
}

// IsPool reports whether a file is the number of persistent huge pages.
func IsPool(file string) bool {
	return file == sysctls+"/vm/nr_hugepages" || file == sysctls+"/vm/nr_hugepages_mempolicy"
}

// OnTheWay reports whether v is what the kernel may have made of a change of a file from one value to another,
// of which it may take a part: both, or between them. A write of a number of huge pages asks for that many, and
// is no error where there is memory for fewer, or where a signal ends it, as when the writer is killed. The file
// shows how many there are once the write ends (set_max_huge_pages in mm/hugetlb.c).
func OnTheWay(file, v, from, to string) bool {
	if !IsPool(file) {
		return false
	}
	is, errIs := strconv.ParseUint(v, 10, 64)
	one, errOne := strconv.ParseUint(from, 10, 64)
	other, errOther := strconv.ParseUint(to, 10, 64)
	return errIs == nil && errOne == nil && errOther == nil && is >= min(one, other) && is <= max(one, other)
}

// SysctlFile is the file of a sysctl, "" for what is no name of one.
func SysctlFile(key string) string {
	i := strings.IndexAny(key, "./")
	if i <= 0 {
		return ""
	}
	if key[i] == '.' {
		swap := strings.NewReplacer(".", "/", "/", ".")
		key = swap.Replace(key)
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "*?[\\ \t\"'=$") {
			return ""
		}
	}
	return sysctls + "/" + key
}

// Misfit says what a sysctl takes for which this value is none, "" where it may be one: of most sysctls only
// the kernel knows what they take. One that has whole numbers takes as many, in the form that it shows.
func (k Knob) Misfit(f Found, v Value) string {
	now := strings.Fields(f.Now)
	if k.Unit != Text || k.free() || !areWhole(now) {
		return ""
	}
	if want := strings.Fields(v.Text); len(want) == len(now) && areWhole(want) {
		return ""
	}
	count := "a whole number"
	if len(now) > 1 {
		count = fmt.Sprintf("%d whole numbers", len(now))
	}
	return fmt.Sprintf("%q; allowed: %s, as the %s of this kernel", v.Text, count, f.Now)
}

// free says whether a sysctl takes text, a list or a mask, which may look like a number.
func (k Knob) free() bool {
	key := strings.TrimPrefix(k.Name, Prefix)
	name := key[strings.LastIndexAny(key, "./")+1:]
	return slices.Contains([]string{"hostname", "domainname", "core_pattern", "modprobe", "hotplug", "poweroff_cmd", "ftrace_dump_on_oops"}, name) ||
		slices.ContainsFunc([]string{"cpumask", "bitmap", "reserved_ports", "cpulist", "cpu_list", "default_mask"}, func(part string) bool { return strings.Contains(name, part) })
}

// areWhole says whether all are whole numbers as the kernel writes them.
func areWhole(fields []string) bool {
	return len(fields) > 0 && !slices.ContainsFunc(fields, func(f string) bool { return !Whole(f) })
}

// Whole says whether a text is a whole number as the kernel writes it: 010 and 0x10 are others there.
func Whole(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	return digits == "0" || digits != "" && digits[0] != '0' && strings.Trim(digits, "0123456789") == ""
}

// Moved is a sysctl that newer kernels do not have.
type Moved struct {
	// Sysctl is its name.
	Sysctl string
	// Since is the first version without the sysctl, for people.
	Since string
	// Knob is what Berth sets instead, "" where there is none.
	Knob string
	// File is where the value is on newer kernels if no knob is for it.
	File string
	// Gone is the first version without the knob too, "" where every newer one has it, and Instead
	// what to do there.
	Gone, Instead string
}

// MovedSysctls returns the sysctls of the scheduler that moved or ended.
func MovedSysctls() []Moved {
	const balancing = sched + "/numa_balancing/"
	return []Moved{
		{
			Sysctl: "kernel.sched_latency_ns", Since: "5.13", Knob: "fair.latency", Gone: "6.6",
			Instead: "nothing: the fair class has no latency target any more; fair.slice sets its slice",
		},
		{Sysctl: "kernel.sched_min_granularity_ns", Since: "5.13", Knob: "fair.slice"},
		{
			Sysctl: "kernel.sched_wakeup_granularity_ns", Since: "5.13", Knob: "fair.wakeupGranularity", Gone: "6.6",
			Instead: "policy batch for units that may wait; a slice per unit on Linux 6.12 and newer",
		},
		{Sysctl: "kernel.sched_migration_cost_ns", Since: "5.13", Knob: "fair.migrationCost"},
		{Sysctl: "kernel.sched_nr_migrate", Since: "5.13", Knob: "fair.nrMigrate"},
		{Sysctl: "kernel.sched_tunable_scaling", Since: "5.13", File: sched + "/tunable_scaling"},
		{Sysctl: "kernel.numa_balancing_scan_delay_ms", Since: "5.13", File: balancing + "scan_delay_ms"},
		{Sysctl: "kernel.numa_balancing_scan_period_min_ms", Since: "5.13", File: balancing + "scan_period_min_ms"},
		{Sysctl: "kernel.numa_balancing_scan_period_max_ms", Since: "5.13", File: balancing + "scan_period_max_ms"},
		{Sysctl: "kernel.numa_balancing_scan_size_mb", Since: "5.13", File: balancing + "scan_size_mb"},
	}
}

// Move returns what became of a sysctl, by its name.
func Move(key string) (Moved, bool) {
	all := MovedSysctls()
	i := slices.IndexFunc(all, func(m Moved) bool { return SysctlFile(m.Sysctl) == SysctlFile(key) })
	if i < 0 {
		return Moved{}, false
	}
	return all[i], true
}

// Ended returns what to know of a knob that newer kernels do not have, by its name.
func Ended(name string) (Moved, bool) {
	all := MovedSysctls()
	i := slices.IndexFunc(all, func(m Moved) bool { return m.Knob == name && m.Gone != "" })
	if i < 0 {
		return Moved{}, false
	}
	return all[i], true
}

// Named returns the knob of the catalogue that is, or on some kernels was, this sysctl, and
// how many nanoseconds or units one in it means.
func Named(key string) (k Knob, scale int64, found bool) { return OfFile(SysctlFile(key)) }

// OfFile returns the knob of the catalogue that has, or on some kernels had, this file as a
// place of its own, and how many nanoseconds or units one in it means.
func OfFile(file string) (k Knob, scale int64, found bool) {
	for _, k := range Catalogue() {
		for _, p := range k.Places {
			if p.File == file {
				return k, max(p.Scale, 1), true
			}
		}
	}
	return Knob{}, 0, false
}

// At returns the knob of the catalogue, and its place, that a file is of, on whatever kernel
// and of whatever instance.
func At(file string) (k Knob, at Place, found bool) {
	for _, k := range Catalogue() {
		for _, p := range k.Places {
			if fits, err := path.Match(p.File, file); err == nil && fits {
				return k, p, true
			}
		}
	}
	return Knob{}, Place{}, false
}
