package isolate

import (
	"slices"
	"time"

	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

const (
	// Window is how far back the measured use reaches, and second is the time over which each mean is computed.
	Window = 20 * time.Second
	second = time.Second
	// userHZ is the number of ticks in a second.
	userHZ = 100
)

// mean is the mean of one second, or of more if samples were further apart.
type mean struct {
	until time.Duration
	use   unit.CPUs
	steal float64 // share of the CPUs' time, 0 to 1
}

// gauge measures the online side of the movable cores between samples.
type gauge struct {
	at    time.Duration // of the last sample, 0 before it
	spent []unit.CPUSpent
	apart unit.CPUTime // offline work's part of what they spent
	// since is when the current second began. busy, stolen and whole are the busy time, the steal time and all time of
	// its CPUs.
	since               time.Duration
	busy, stolen, whole unit.CPUTime
	means               []mean // of the last window, the oldest first
	// idle is how many of the CPUs had nothing to run between the last two samples. fresh is true until a decision used
	// idle.
	idle  unit.CPUs
	fresh bool
}

// look records what each CPU of the machine did since boot. online is the set of the online side's CPUs since the last
// sample, and apart is the CPU time of offline work there since boot.
func (g *gauge) look(now time.Duration, spent []unit.CPUSpent, online cpuset.Set, apart unit.CPUTime) {
	if g.spent == nil {
		g.at, g.since, g.spent, g.apart = now, now, append(g.spent, spent...), apart
		return
	}
	passed := now - g.at
	if passed <= 0 {
		return
	}
	busy := -max(apart.Since(g.apart), 0) // a new group of the same name starts again at 0
	var stolen, idle unit.CPUTime
	for cpu := range online.All() {
		if cpu >= len(g.spent) || cpu >= len(spent) { // the kernel lists no offline CPU
			continue
		}
		before, after := g.spent[cpu], spent[cpu]
		busy += grown(before.Busy, after.Busy, passed)
		stolen += grown(before.Steal, after.Steal, passed)
		idle += grown(before.Idle, after.Idle, passed)
	}
	g.idle, g.fresh = idle.Seconds().Per(passed), true
	g.busy, g.stolen = g.busy+busy, g.stolen+stolen
	g.whole += unit.CPUTime(passed) * unit.CPUTime(online.Size())
	g.at, g.spent, g.apart = now, append(g.spent[:0], spent...), apart
	if now-g.since >= second {
		g.close(now)
	}
}

// close ends the current second. The kernel counts the use of a CPU in ticks, and that of offline work exactly. Excess
// offline use of a second, up to a tick a CPU, is subtracted from the next second.
func (g *gauge) close(now time.Duration) {
	m := mean{until: now, use: max(g.busy, 0).Seconds().Per(now - g.since)}
	if g.whole > 0 {
		m.steal = float64(g.stolen) / float64(g.whole)
	}
	g.means = append(g.means, m)
	g.since, g.busy, g.stolen, g.whole = now, max(min(g.busy, 0), -g.whole/userHZ), 0, 0
}

// law returns the figures for the highest one-second mean in the window, and forgets older means. The movable cores are
// in the order in which offline work gets them. Without a mean, at the start or while samples fail, offline work has
// its guarantee.
func (g *gauge) law(now time.Duration, p Policy, cores []Core) Figures {
	g.means = slices.DeleteFunc(g.means, func(m mean) bool { return m.until <= now-Window })
	var most unit.CPUs
	for _, m := range g.means {
		most = max(most, m.use)
	}
	f := Law(p, cores, most)
	if len(g.means) == 0 {
		f.Target = f.Low
	}
	return f
}

// blind reports whether the last samples failed: the last one is at least a second old.
func (g *gauge) blind(now time.Duration) bool { return now-g.at >= second }

// steal returns the steal share of the last whole second.
func (g *gauge) steal() float64 {
	if len(g.means) == 0 {
		return 0
	}
	return g.means[len(g.means)-1].steal
}

// grown returns how much a counter of one CPU grew, between 0 and passed. Counters of idle time may go back
// (get_idle_time in fs/proc/stat.c), and the counters of a CPU that came online restart.
func grown(before, after unit.CPUTime, passed time.Duration) unit.CPUTime {
	return min(max(after.Since(before), 0), unit.CPUTime(passed))
}
