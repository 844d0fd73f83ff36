package isolate

import (
	"time"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/unit"
)

const (
	// window is how far back the use goes that counts, and second is over how much of it one
	// mean is taken.
	window = 20 * time.Second
	second = time.Second
)

// mean is that of one second, or of more where looks were further apart.
type mean struct {
	until time.Duration
	use   unit.CPUs
	steal float64 // of the time of the CPUs, 0 to 1
}

// gauge measures the online side of the movable cores, from look to look.
type gauge struct {
	at    time.Duration // of the last look, 0 before it
	spent []unit.CPUSpent
	// since is when the second under way began; busy, stolen and whole are what its CPUs were
	// busy, were kept from running, and had in all.
	since               time.Duration
	busy, stolen, whole unit.CPUTime
	means               []mean // of the last window, the oldest first
	// idle is how many of the CPUs had nothing to run between the last two looks, and fresh says
	// that no decision went by it yet.
	idle  unit.CPUs
	fresh bool
}

// look takes what each CPU of the machine did since boot; online are those that were the online
// side's since the last look.
func (g *gauge) look(now time.Duration, spent []unit.CPUSpent, online cpuset.Set) {
	if g.spent == nil {
		g.at, g.since, g.spent = now, now, append(g.spent, spent...)
		return
	}
	passed := now - g.at
	if passed <= 0 {
		return
	}
	var busy, stolen, idle unit.CPUTime
	for cpu := range online.All() {
		before, after := at(g.spent, cpu), at(spent, cpu)
		busy += grown(before.Busy, after.Busy, passed)
		stolen += grown(before.Steal, after.Steal, passed)
		idle += grown(before.Idle, after.Idle, passed)
	}
	g.idle, g.fresh = idle.Seconds().Per(passed), true
	g.busy, g.stolen = g.busy+busy, g.stolen+stolen
	g.whole += unit.CPUTime(passed) * unit.CPUTime(online.Size())
	g.at, g.spent = now, append(g.spent[:0], spent...)
	if now-g.since >= second {
		g.close(now)
	}
}

// close ends the second under way and forgets what is older than the window.
func (g *gauge) close(now time.Duration) {
	m := mean{until: now, use: g.busy.Seconds().Per(now - g.since)}
	if g.whole > 0 {
		m.steal = float64(g.stolen) / float64(g.whole)
	}
	keep := 0
	for keep < len(g.means) && g.means[keep].until <= now-window {
		keep++
	}
	g.means = append(g.means[:copy(g.means, g.means[keep:])], m)
	g.since, g.busy, g.stolen, g.whole = now, 0, 0, 0
}

// use is the highest mean of a second in the window, and false before there is one.
func (g *gauge) use() (most unit.CPUs, known bool) {
	for _, m := range g.means {
		most = max(most, m.use)
	}
	return most, len(g.means) > 0
}

// steal is that of the last whole second.
func (g *gauge) steal() float64 {
	if len(g.means) == 0 {
		return 0
	}
	return g.means[len(g.means)-1].steal
}

// at is what a CPU did, nothing where it is offline and the kernel says nothing of it.
func at(spent []unit.CPUSpent, cpu int) unit.CPUSpent {
	if cpu >= len(spent) {
		return unit.CPUSpent{}
	}
	return spent[cpu]
}

// grown is by how much a counter of one CPU grew. Counters of idle time may go back
// (get_idle_time in fs/proc/stat.c), and those of a CPU that came online begin anew.
func grown(before, after unit.CPUTime, passed time.Duration) unit.CPUTime {
	return min(max(after.Since(before), 0), unit.CPUTime(passed))
}
