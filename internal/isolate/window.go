package isolate

import (
	"slices"
	"time"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/unit"
)

const (
	// Window is how far back the use goes that counts, and second is over how much of it one
	// mean is taken.
	Window = 20 * time.Second
	second = time.Second
	// userHZ is how many ticks a second has.
	userHZ = 100
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
	apart unit.CPUTime // of what they spent, offline work's
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
// side's since the last look, and apart is what offline work spent there since boot.
func (g *gauge) look(now time.Duration, spent []unit.CPUSpent, online cpuset.Set, apart unit.CPUTime) {
	if g.spent == nil {
		g.at, g.since, g.spent, g.apart = now, now, append(g.spent, spent...), apart
		return
	}
	passed := now - g.at
	if passed <= 0 {
		return
	}
	busy := -max(apart.Since(g.apart), 0) // another group of that name begins anew
	var stolen, idle unit.CPUTime
	for cpu := range online.All() {
		if cpu >= len(g.spent) || cpu >= len(spent) { // the kernel says nothing of one that is offline
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

// close ends the second under way. The use of a CPU is
// counted in ticks and that of offline work exactly: what a second has too much of offline work's,
// up to a tick a CPU, the next one has too little of.
func (g *gauge) close(now time.Duration) {
	m := mean{until: now, use: max(g.busy, 0).Seconds().Per(now - g.since)}
	if g.whole > 0 {
		m.steal = float64(g.stolen) / float64(g.whole)
	}
	g.means = append(g.means, m)
	g.since, g.busy, g.stolen, g.whole = now, max(min(g.busy, 0), -g.whole/userHZ), 0, 0
}

// law returns the figures by the highest mean of a second in the window, and forgets those that are
// older. Without one, at the start or where looks fail, offline work has what it is guaranteed.
func (g *gauge) law(now time.Duration, n Node) Figures {
	g.means = slices.DeleteFunc(g.means, func(m mean) bool { return m.until <= now-Window })
	var most unit.CPUs
	for _, m := range g.means {
		most = max(most, m.use)
	}
	f := Law(n.Policy, len(n.Movable), threads(n.Movable), most)
	if len(g.means) == 0 {
		f.Target = f.Low
	}
	return f
}

// blind says that there was no look lately: the last ones failed.
func (g *gauge) blind(now time.Duration) bool { return now-g.at >= second }

// steal is that of the last whole second.
func (g *gauge) steal() float64 {
	if len(g.means) == 0 {
		return 0
	}
	return g.means[len(g.means)-1].steal
}

// grown is by how much a counter of one CPU grew. Counters of idle time may go back
// (get_idle_time in fs/proc/stat.c), and those of a CPU that came online begin anew.
func grown(before, after unit.CPUTime, passed time.Duration) unit.CPUTime {
	return min(max(after.Since(before), 0), unit.CPUTime(passed))
}
