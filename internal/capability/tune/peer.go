package tune

import (
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/linux/knob"
)

// Peer is another program that sets knobs.
type Peer struct {
	// Name is the program's name.
	Name string
	// Knobs are the knobs that the program sets.
	Knobs []string
	// Remedy is the advice if a profile sets one of these knobs as well.
	Remedy string
}

// Running is the part of a host's state that reveals its peers.
type Running struct {
	// Programs are the names of running programs, cut to 15 bytes as the kernel does.
	Programs map[string]bool
	// SchedExt is true if a scheduler of sched_ext is loaded.
	SchedExt bool
	// TuneD are the knobs that the active profile of TuneD sets.
	TuneD []string
}

// Peers returns the running programs that set knobs.
func Peers(r Running) []Peer {
	var all []Peer
	for _, p := range []struct {
		comm string
		peer Peer
	}{
		{"tuned", Peer{"TuneD", r.TuneD, "switch it off (tuned-adm off), or take the knob out of one of the two profiles"}},
		{"power-profiles-daemon", Peer{"power-profiles-daemon", []string{"cpu.governor", "cpu.epp"}, "stop it, or leave the knob to it"}},
		{"numad", Peer{"numad", []string{"numa.balancing", "unit.cpus", "unit.mems"}, "stop it, or leave the memory to it"}},
		{"irqbalance", Peer{Irqbalance, []string{"irq.affinity"}, "stop it, or leave the interrupts to it"}},
		{"kubelet", Peer{"kubelet", []string{
			"unit.cpus", "unit.mems", "sysctl.vm.overcommit_memory", "sysctl.vm.panic_on_oom",
			"sysctl.kernel.panic", "sysctl.kernel.panic_on_oops", "sysctl.kernel.keys.root_maxkeys", "sysctl.kernel.keys.root_maxbytes",
		}, "leave the knob to it"}},
	} {
		const kept = 15
		if r.Programs[p.comm[:min(kept, len(p.comm))]] {
			all = append(all, p.peer)
		}
	}
	if r.SchedExt {
		all = append(all, Peer{
			"the sched_ext scheduler that is loaded",
			[]string{"fair.slice", "fair.latency", "fair.wakeupGranularity", "fair.migrationCost", "fair.nrMigrate"},
			"unload it: these knobs are the fair class's, which it replaces",
		})
	}
	return all
}

// Irqbalance is the name of the peer that can be told not to change interrupts.
const Irqbalance = "irqbalance"

// Sets returns the knobs of the settings that the peer sets as well, each once.
func (p Peer) Sets(settings []Setting) []string {
	var names []string
	for _, s := range settings {
		both := func(name string) bool { return canonical(name) == canonical(s.Knob) }
		if slices.ContainsFunc(p.Knobs, both) && !slices.Contains(names, s.Knob) {
			names = append(names, s.Knob)
		}
	}
	return names
}

// canonical returns the catalogue's name of a knob, also for a knob given as a sysctl.
func canonical(name string) string {
	key, isSysctl := strings.CutPrefix(name, knob.Prefix)
	if k, _, known := knob.Named(key); isSysctl && known {
		return k.Name
	}
	return name
}

// Knobs returns the knobs that a file would set.
func (i Import) Knobs() []string {
	var names []string
	for _, l := range i.Lines {
		if l.Verdict != Dead && l.Knob != "" {
			names = append(names, l.Knob)
		}
	}
	return names
}
