package profile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Severity is how much a finding matters.
type Severity string

// The severities. With a warning the profile most likely misses its purpose.
const (
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is something doubtful about a profile on a host.
type Finding struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
}

// Lint returns what is doubtful about a profile on a machine with these facts and knobs, the warnings first.
func Lint(b Bound, t *topology.Topology, facts knob.Facts, survey knob.Survey) []Finding {
	l := linter{bound: b, machine: t, facts: facts, survey: survey, found: []Finding{}}
	l.sets()
	l.housekeeping()
	l.nics()
	for _, u := range b.Units {
		l.unit(u)
	}
	for _, s := range b.Settings {
		l.setting(s)
	}
	slices.SortStableFunc(l.found, func(a, b Finding) int { return -strings.Compare(string(a.Severity), string(b.Severity)) })
	return l.found
}

// LintWork returns what is doubtful about the CPUs, the memory nodes and the policy of one workload on a machine.
func LintWork(w Unit, t *topology.Topology) []Finding {
	l := linter{machine: t, found: []Finding{}}
	l.work(w.Name, w)
	return l.found
}

type linter struct {
	bound   Bound
	machine *topology.Topology
	facts   knob.Facts
	survey  knob.Survey
	found   []Finding
}

func (l *linter) add(code string, severity Severity, format string, args ...any) {
	l.found = append(l.found, Finding{code, severity, fmt.Sprintf(format, args...)})
}

func (l *linter) sets() {
	for _, name := range slices.Sorted(maps.Keys(l.bound.Sets)) {
		l.whole("set "+name, l.bound.Sets[name].CPUs)
	}
}

// whole finds cores with only some threads in a set.
func (l *linter) whole(what string, cpus cpuset.Set) {
	var split cpuset.Set
	for _, core := range l.machine.Partly(cpus) {
		split = split.Union(core.CPUs.Difference(cpus))
	}
	if !split.IsEmpty() {
		l.add("split-core", Warning, "%s has CPUs %s and not their siblings %s: who runs on those shares its cores", what, cpus, split)
	}
}

// housekeeping checks the CPUs that remain for all other work.
func (l *linter) housekeeping() {
	var taken cpuset.Set
	for _, s := range l.bound.Sets {
		if s.Exclusive() {
			taken = taken.Union(s.CPUs)
		}
	}
	if taken.IsEmpty() {
		return
	}
	left := l.machine.Online.Difference(taken)
	if left.IsEmpty() {
		l.add("all-isolated", Warning, "every CPU is in a partition: none is left for the system, and the kernel refuses it")
		return
	}
	for _, n := range l.machine.Nodes {
		if n.CPUs.IsEmpty() || l.machine.HasCore(left.Intersect(n.CPUs)) {
			continue
		}
		l.add("no-housekeeping", Warning, "NUMA node %d has no whole core outside the partitions: its interrupts and kernel threads run on another node or on isolated CPUs", n.ID)
	}
}

// nics finds isolated partitions without a CPU on the NUMA node of a network device.
func (l *linter) nics() {
	if len(l.facts.NICs) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(l.bound.Sets)) {
		s := l.bound.Sets[name]
		if s.Partition != v1alpha1.PartitionIsolated {
			continue
		}
		near := false
		var remote []string
		for _, nic := range slices.Sorted(maps.Keys(l.facts.NICs)) {
			if l.machine.NodesOf(s.CPUs).Contains(l.facts.NICs[nic]) {
				near = true
			} else {
				remote = append(remote, fmt.Sprintf("%s is at node %d", nic, l.facts.NICs[nic]))
			}
		}
		if !near {
			l.add("nic-remote", Warning, "set %s has CPUs of no NUMA node with a network device: %s", name, strings.Join(remote, ", "))
		}
	}
}

func (l *linter) unit(u Unit) {
	switch {
	case !l.facts.Systemd:
		l.add("no-such-unit", Warning, "%s: systemd does not run here", u.Name)
	case !l.facts.HasUnit(u.Name):
		l.add("no-such-unit", Warning, "%s: systemd has no unit of that name here", u.Name)
	case l.facts.Unified == "" && (l.facts.CPU == "" || !u.CPUs.IsEmpty() || !u.Mems.IsEmpty()):
		l.add("cgroup-v1", Warning, "%s: CPUs and memory nodes of units need the unified hierarchy of control groups, which this host does not have", u.Name)
	}
	l.work("unit "+u.Name, u)
}

// work checks the CPUs, the memory and the policy of a unit or another workload.
func (l *linter) work(what string, u Unit) {
	if !u.CPUs.IsEmpty() {
		l.whole(what, u.CPUs)
	}
	if class, priority, _ := Policy(u.Policy); priority == 99 {
		l.add("fifo-99", Warning, "%s: %s:99 is above the kernel's own watchdog and migration threads; 1 to 49 stays below threaded interrupts", u.Name, class)
	} else if priority >= 50 {
		l.add("fifo-50", Info, "%s: priority %d is not below 50, that of threaded interrupts", u.Name, priority)
	}
	if u.CPUs.IsEmpty() || u.Mems.IsEmpty() {
		return
	}
	nodes := l.machine.NodesOf(u.CPUs)
	if !nodes.Intersects(u.Mems) {
		l.add("numa-mismatch", Warning, "%s: its CPUs are on NUMA nodes %s and its memory on %s: every access is remote", u.Name, nodes, u.Mems)
	} else if !nodes.IsSubsetOf(u.Mems) {
		l.add("numa-mismatch", Info, "%s: CPUs on NUMA nodes %s have no memory of their own: it is on %s only", u.Name, nodes.Difference(u.Mems), u.Mems)
	}
}

func (l *linter) setting(s Setting) {
	k, n := Meaning(s)
	if Harmful(s) {
		l.add("harmful", Warning, "%s %s is more than %s: %s", s.Knob.Name, s.Value.Text, knob.Span(k.SafeHigh), k.Harm)
	} else if s.Value.Word == "" || s.Knob.Unit == knob.Text {
		l.advice(s, k, n)
	}
	if k.Name == "numa.balancing" && (s.Value.Text == "off" || s.Value.Text == "0") && len(l.machine.Nodes) > 1 && len(l.bound.Units) == 0 {
		l.add("numa-balancing", Info, "%s: without it pages stay where they were first used; right where everything is pinned, and costs locality elsewhere", s.Knob.Name)
	}
	for _, f := range l.survey[s.Knob.Name] {
		line, set := l.facts.Sysctls[f.File]
		if set && line.Value != s.Knob.Written(f.Place, s.Value) {
			l.add("sysctl-d", Warning, "%s:%d sets %s back to %s at every boot and sysctl --system", line.File, line.Line, s.Knob.Name, line.Value)
		}
	}
}

func (l *linter) advice(s Setting, k knob.Knob, n int64) {
	if k.Name != "" && !k.Advised(n) {
		shown := func(n int64) string { return strconv.FormatInt(n, 10) }
		if k.Unit == knob.Duration {
			shown = knob.Span
		}
		l.add("unadvised", Info, "%s %s is outside %s to %s", s.Knob.Name, s.Value.Text, shown(k.SafeLow), shown(k.SafeHigh))
	}
	if k.Name == "fair.slice" || k.Name == rrSlice {
		l.tick(s, k, n)
	}
}

const rrSlice = "rr.slice"

// tick reports the effect of the kernel's ticks on a slice.
func (l *linter) tick(s Setting, k knob.Knob, n int64) {
	if l.facts.HZ == 0 {
		return
	}
	tick := int64(1e9) / int64(l.facts.HZ)
	if n >= tick {
		return
	}
	if k.Name == rrSlice {
		l.add("tick", Info, "%s %s: the kernel keeps whole ticks, and one is %s here (CONFIG_HZ=%d): that is what it will be", s.Knob.Name, s.Value.Text, knob.Span(tick), l.facts.HZ)
		return
	}
	l.add("tick", Info, "%s %s is less than a tick, %s (CONFIG_HZ=%d): without a high-resolution scheduler tick a busy task runs up to a tick", s.Knob.Name, s.Value.Text, knob.Span(tick), l.facts.HZ)
}

// Harmful reports whether a value harms a host.
func Harmful(s Setting) bool {
	k, n := Meaning(s)
	return k.Harm != "" && (n > k.SafeHigh || n < 0 || s.Value.Text == "unlimited")
}

// Meaning returns the catalogue's knob for a setting, and the value in that knob's scale. It also finds the knob of a
// sysctl that is another or an earlier place of a knob. If the catalogue has no knob for the setting, the returned knob
// has no name.
func Meaning(s Setting) (knob.Knob, int64) {
	key, is := strings.CutPrefix(s.Knob.Name, knob.Prefix)
	if !is {
		return s.Knob, s.Value.N
	}
	k, scale, found := knob.Named(key)
	n, err := strconv.ParseInt(s.Value.Text, 10, 64)
	if !found || err != nil || k.Unit != knob.Duration && k.Unit != knob.Count {
		if k.Unit == knob.Choice {
			return k, n
		}
		return knob.Knob{}, 0
	}
	return k, n * scale
}
