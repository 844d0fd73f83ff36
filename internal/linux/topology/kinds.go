package topology

import (
	"github.com/berth-project/berth/internal/value/cpuset"
)

// efficiencyPercent is the limit for efficiency cores, in percent of the best core's capacity or frequency: a core
// below it is an efficiency core.
const efficiencyPercent = 85

// mostCapacity is far above every real capacity (1024) or frequency in kHz.
const mostCapacity = 1 << 32

// kinds sets the kind of every core, if the machine has performance and efficiency cores.
func (s *source) kinds(t *Topology) {
	slow, ok := s.kindsListed(t.Online)
	if !ok {
		slow, ok = s.slowBy(t.Cores, "cpu_capacity")
	}
	if !ok && len(t.Sockets) <= 1 {
		// Hybrid machines of several sockets do not exist, and the frequency files of a large server are many.
		slow, _ = s.slowBy(t.Cores, "cpufreq/cpuinfo_max_freq")
	}
	for i := range t.Cores {
		t.Cores[i].Kind = s.kindOf(t.Cores[i].CPUs, slow)
	}
}

func (s *source) kindOf(threads, slow cpuset.Set) Kind {
	switch {
	case slow.IsEmpty():
		return KindSame
	case threads.IsSubsetOf(slow):
		return KindEfficiency
	case threads.Intersects(slow):
		s.notes.cpus(threads, "threads of one core of different kinds, taken as performance")
	}
	return KindPerformance
}

// kindsListed reads the CPU lists that the kernel has on hybrid x86 machines for their separate sets of performance
// counters.
func (s *source) kindsListed(online cpuset.Set) (slow cpuset.Set, ok bool) {
	fast, ok := s.list("sys/devices/cpu_core/cpus")
	if !ok {
		return cpuset.Set{}, false
	}
	atom, _ := s.list("sys/devices/cpu_atom/cpus")
	low, _ := s.list("sys/devices/cpu_lowpower/cpus")
	slow = atom.Union(low).Intersect(online)
	if both := fast.Intersect(slow); !both.IsEmpty() {
		s.notes.cpus(both, "listed as performance and as efficiency, these lists not used")
		return cpuset.Set{}, false
	}
	if online.IsSubsetOf(slow) {
		return cpuset.Set{}, true // all cores are of one kind, whatever its name
	}
	return slow, true
}

// slowBy returns the threads of the cores whose value is well below the best value. ok is false unless every core has a
// value.
func (s *source) slowBy(cores []Core, file string) (slow cpuset.Set, ok bool) {
	values, best := make([]int, len(cores)), 0
	for i, core := range cores {
		cpu, _ := core.CPUs.Min()
		value, ok := s.number(cpuPath(cpu, file))
		if !ok || value <= 0 || value > mostCapacity {
			return cpuset.Set{}, false
		}
		values[i], best = value, max(best, value)
	}
	const whole = 100
	for i, core := range cores {
		if values[i]*whole < best*efficiencyPercent {
			slow = slow.Union(core.CPUs)
		}
	}
	return slow, true
}
