package knob

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Prefix begins the name of a knob that stands for any sysctl.
const Prefix = "sysctl."

// sysctlKey returns the name of the sysctl without Prefix.
func sysctlKey(name string) (string, bool) { return strings.CutPrefix(name, Prefix) }

// sysctl returns the knob of a sysctl. The path follows sysctl(8): the first separator, "." or "/", separates all
// parts, and the other character is "." in the path.
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

// phaseOf returns the phase in which a sysctl is written, under any of its names. The kernel refuses a period of
// real-time threads that is shorter than their runtime, so both have the same phase.
func phaseOf(file string) Phase {
	if file == rtRuntime || file == rtPeriod {
		return RealTime
	}
	return Plain
}

// PhaseAt returns the phase of an apply in which a file is written.
func PhaseAt(file string) Phase {
	if k, _, known := At(file); known {
		return k.Phase
	}
	return phaseOf(file)
}

// WaitsForThread reports whether a write of a file may start or stop a kernel thread, and waits until that thread ran.
func WaitsForThread(file string) bool {
	k, _, known := At(file)
	return known && k.WaitsForThread
}

// IsPool reports whether a file is the number of persistent huge pages.
func IsPool(file string) bool {
	return file == sysctls+"/vm/nr_hugepages" || file == sysctls+"/vm/nr_hugepages_mempolicy"
}

// OnTheWay reports whether v may be the result of a partial change of a file from one value to another: either value,
// or a value in between. Only a number of huge pages changes in part. A write asks for that many pages, and is no error
// if the memory suffices for fewer. A signal can also end the write, as when the writer is killed. The file shows the
// actual number once the write ends (set_max_huge_pages in mm/hugetlb.c).
func OnTheWay(file, v, from, to string) bool {
	if !IsPool(file) {
		return false
	}
	is, errIs := strconv.ParseUint(v, 10, 64)
	one, errOne := strconv.ParseUint(from, 10, 64)
	other, errOther := strconv.ParseUint(to, 10, 64)
	return errIs == nil && errOne == nil && errOther == nil && is >= min(one, other) && is <= max(one, other)
}

// SysctlFile returns the file of a sysctl, "" if key is not a valid name.
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

// Misfit returns an error text if a sysctl cannot accept this value, and "" if it may. For most sysctls, only the
// kernel knows what they accept. A sysctl that shows whole numbers accepts as many, in the same form.
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

// free reports whether a sysctl accepts text, a list or a mask, which may look like a number.
func (k Knob) free() bool {
	key := strings.TrimPrefix(k.Name, Prefix)
	name := key[strings.LastIndexAny(key, "./")+1:]
	return slices.Contains([]string{"hostname", "domainname", "core_pattern", "modprobe", "hotplug", "poweroff_cmd", "ftrace_dump_on_oops"}, name) ||
		slices.ContainsFunc([]string{"cpumask", "bitmap", "reserved_ports", "cpulist", "cpu_list", "default_mask"}, func(part string) bool { return strings.Contains(name, part) })
}

// areWhole reports whether all fields are whole numbers as the kernel writes them.
func areWhole(fields []string) bool {
	return len(fields) > 0 && !slices.ContainsFunc(fields, func(f string) bool { return !Whole(f) })
}

// Whole reports whether a text is a whole number as the kernel writes it. The kernel reads 010 and 0x10 as other
// numbers.
func Whole(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	return digits == "0" || digits != "" && digits[0] != '0' && strings.Trim(digits, "0123456789") == ""
}

// Moved is a sysctl that newer kernels do not have.
type Moved struct {
	Sysctl string
	// Since is the first version without the sysctl, for people.
	Since string
	// Knob is the knob that Berth sets instead, "" if there is none.
	Knob string
	// File is the place of the value on newer kernels, if no knob has it.
	File string
	// Gone is the first version that does not have the knob either, "" if every newer version has it. Instead is what
	// to do on that version.
	Gone, Instead string
}

// MovedSysctls returns the sysctls of the scheduler that newer kernels moved or removed.
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

// Move returns the entry of a moved sysctl, by the sysctl's name.
func Move(key string) (Moved, bool) {
	all := MovedSysctls()
	i := slices.IndexFunc(all, func(m Moved) bool { return SysctlFile(m.Sysctl) == SysctlFile(key) })
	if i < 0 {
		return Moved{}, false
	}
	return all[i], true
}

// Ended returns the entry of a knob that newer kernels do not have, by the knob's name.
func Ended(name string) (Moved, bool) {
	all := MovedSysctls()
	i := slices.IndexFunc(all, func(m Moved) bool { return m.Knob == name && m.Gone != "" })
	if i < 0 {
		return Moved{}, false
	}
	return all[i], true
}

// Named returns the knob of the catalogue that is this sysctl, or was on some kernels. scale is the number of
// nanoseconds or units that 1 in the sysctl means.
func Named(key string) (k Knob, scale int64, found bool) { return OfFile(SysctlFile(key)) }

// OfFile returns the knob of the catalogue that has this file as a place, or had on some kernels. scale is the number
// of nanoseconds or units that 1 in the file means.
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

// At returns the knob of the catalogue, and its place, that a file belongs to, on any kernel and for any instance. The
// file that shows the request of a place (Place.Now) belongs to that place.
func At(file string) (k Knob, at Place, found bool) {
	for _, k := range Catalogue() {
		for _, p := range k.Places {
			if matches(p.File, file) || p.Now != "" && matches(path.Join(path.Dir(p.File), p.Now), file) {
				return k, p, true
			}
		}
	}
	return Knob{}, Place{}, false
}

func matches(pattern, file string) bool {
	fits, err := path.Match(pattern, file)
	return err == nil && fits
}
