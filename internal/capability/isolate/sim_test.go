package isolate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// kernelTick is the resolution of /proc/stat.
const kernelTick = 10 * time.Millisecond

// sim is a machine with online work that needs a given number of CPUs at each moment, and offline work that uses all it
// gets.
type sim struct {
	t        *testing.T
	cores    []Core
	demand   func(time.Duration) float64 // in CPUs
	steal    func(time.Duration) float64 // of every CPU's time
	policy   Policy
	costly   bool // Node.Costly
	boundary Boundary
	now      time.Duration
	exact    []spentExactly
	// grain is the time step of the simulation.
	grain    time.Duration
	decision Decision
	// history records for every time step what online work used and how many cores offline work had.
	history []moment
	moves   []time.Duration
	looks   []time.Duration
}

type spentExactly struct{ busy, idle, steal float64 } // in ms

type moment struct {
	used    float64
	offline int
	reason  Reason
}

func machine(n, per, perDomain int) []Core {
	var cores []Core
	for i := range n {
		cpus := cpuset.Set{}
		for th := range per {
			cpus = cpus.Add(i + th*n)
		}
		cores = append(cores, Core{ID: topology.CoreID(i), CPUs: cpus, Domain: Domain{L3: topology.L3ID(i / perDomain)}, Whole: true})
	}
	return cores
}

func newSim(t *testing.T, n, per int, demand func(time.Duration) float64) *sim {
	s := &sim{t: t, cores: machine(n, per, 8), demand: demand, policy: DefaultPolicy()}
	s.steal = func(time.Duration) float64 { return 0 }
	s.exact, s.grain = make([]spentExactly, n*per), kernelTick
	random := rand.New(rand.NewPCG(3, 1))
	for i := range s.exact { // the ticks of the CPUs are not synchronous
		s.exact[i] = spentExactly{10 * random.Float64(), 10 * random.Float64(), 10 * random.Float64()}
	}
	return s
}

// read returns /proc/stat in whole ticks.
func (s *sim) read() []unit.CPUSpent {
	all := make([]unit.CPUSpent, len(s.exact))
	whole := func(ms float64) unit.CPUTime {
		return unit.CPUTime(time.Duration(ms/10) * kernelTick)
	}
	for i, e := range s.exact {
		all[i] = unit.CPUSpent{Busy: whole(e.busy), Idle: whole(e.idle), Steal: whole(e.steal)}
	}
	return all
}

// run runs the simulation until a moment.
func (s *sim) run(until time.Duration) {
	s.t.Helper()
	if s.now == 0 {
		s.now = time.Second
		s.look()
	}
	next := s.now + s.decision.Next
	for s.now < until {
		s.step()
		s.now += s.grain
		if s.now >= next {
			s.look()
			next = s.now + s.decision.Next
		}
	}
}

// step simulates one time step: online work spreads evenly over its CPUs.
func (s *sim) step() {
	n, ms := s.decision.Online.Size(), float64(s.grain/time.Millisecond)
	stolen := s.steal(s.now)
	used := min(s.demand(s.now), float64(n)*(1-stolen))
	for cpu := range s.decision.Offline.All() {
		s.exact[cpu].busy += ms
	}
	for cpu := range s.decision.Online.All() {
		busy := used / float64(n)
		s.exact[cpu].busy += ms * busy
		s.exact[cpu].steal += ms * stolen
		s.exact[cpu].idle += ms * (1 - busy - stolen)
	}
	s.history = append(s.history, moment{used, s.decision.Size, s.decision.Reason})
}

func (s *sim) look() {
	s.t.Helper()
	before := s.decision
	s.boundary.Look(s.now, s.read())
	s.decision = s.boundary.Decide(s.now, Node{Policy: s.policy, Movable: s.cores, Offline: true, Costly: s.costly})
	d := s.decision
	s.looks = append(s.looks, s.now)
	if d.Changed && before.Exists {
		s.moves = append(s.moves, s.now)
	}
	s.check(before)
}

// check checks properties of every decision.
func (s *sim) check(before Decision) {
	s.t.Helper()
	d, n := s.decision, len(s.cores)
	switch {
	case !d.Exists, d.Size < d.Figures.Low, d.Size >= n, d.Size < 1:
		s.t.Fatalf("at %s: %+v", s.now, d)
	case d.Offline.Intersects(d.Online), d.Offline.Union(d.Online) != cpusOf(s.cores):
		s.t.Fatalf("at %s: %s and %s of %s", s.now, d.Offline, d.Online, cpusOf(s.cores))
	case d.Size > d.Figures.Target && d.Size > d.Figures.Low:
		s.t.Fatalf("at %s: %d cores, target %d", s.now, d.Size, d.Figures.Target)
	case before.Exists && d.Size > before.Size+max(1, n/10):
		s.t.Fatalf("at %s: grew from %d to %d of %d cores", s.now, before.Size, d.Size, n)
	case before.Exists && d.Size > before.Size && len(s.moves) > 1 && s.now-s.moves[len(s.moves)-2] < pace:
		s.t.Fatalf("at %s: grew %s after the move before", s.now, s.now-s.moves[len(s.moves)-2])
	}
	for _, c := range s.cores {
		if c.CPUs.Intersects(d.Offline) != c.CPUs.IsSubsetOf(d.Offline) {
			s.t.Fatalf("at %s: a part of core %d is offline: %s", s.now, c.ID, d.Offline)
		}
	}
}

// noise returns steady work: a mean, with independent noise for each 100 ms.
func noise(seed uint64, average, spread float64) func(time.Duration) float64 {
	random := rand.New(rand.NewPCG(seed, 1))
	values := make([]float64, 10_000)
	for i := range values {
		values[i] = max(0, average+spread*random.NormFloat64())
	}
	return func(now time.Duration) float64 { return values[int(now/(100*time.Millisecond))%len(values)] }
}

// TestSteadyNoise checks that the boundary moves at most six times per minute under steady noise, after the first
// minutes in which offline work grows into free cores.
func TestSteadyNoise(t *testing.T) {
	for _, c := range []struct {
		n, per     int
		of, spread float64 // in parts of the machine
	}{
		{4, 1, 0.3, 0.05}, {8, 2, 0.2, 0.03}, {16, 2, 0.3, 0.05}, {64, 2, 0.2, 0.02}, {64, 2, 0.4, 0.05}, {128, 1, 0.3, 0.04},
	} {
		for seed := range uint64(1) {
			cpus := float64(c.n * c.per)
			s := newSim(t, c.n, c.per, noise(seed, c.of*cpus, c.spread*cpus))
			s.run(9 * time.Minute)
			worst := 0
			for i, at := range s.moves {
				in := 1
				for _, later := range s.moves[i+1:] {
					if later < at+time.Minute {
						in++
					}
				}
				if at > 2*time.Minute {
					worst = max(worst, in)
				}
			}
			if worst > 6 {
				t.Errorf("%d cores of %d threads, %.0f %% +- %.0f %%: %d moves in a minute, %d in all", c.n, c.per, 100*c.of, 100*c.spread, worst, len(s.moves))
			}
		}
	}
}

// TestSurgeIsAnswered checks that online work which suddenly uses all its cores gets some back within two samples, and
// all it needs within few.
func TestSurgeIsAnswered(t *testing.T) {
	for _, n := range []int{4, 8, 64, 128} {
		for shift := range 4 {
			jump := time.Minute + time.Duration(shift)*13*time.Millisecond
			s := newSim(t, n, 2, func(now time.Duration) float64 {
				if now < jump {
					return 0.1 * float64(2*n)
				}
				return float64(2 * n)
			})
			s.run(jump - 20*time.Millisecond)
			s.grain = time.Millisecond
			s.run(jump)
			size := s.decision.Size
			if size <= s.decision.Figures.Low {
				t.Fatalf("%d cores: offline work has only %d", n, size)
			}
			looked := len(s.looks)
			s.run(jump + 2*time.Second)
			answer := slices.Index(s.looks[looked:], firstSince(s.moves, jump)) + 1
			if answer < 1 || answer > 2 {
				t.Errorf("%d cores, jump at %s: answered after %d looks (moves %v)", n, jump, answer, s.moves)
			}
			if s.decision.Size != s.decision.Figures.Low {
				t.Errorf("%d cores: offline work has %d after 2 s", n, s.decision.Size)
			}
		}
	}
}

func firstSince(moves []time.Duration, from time.Duration) time.Duration {
	for _, at := range moves {
		if at > from {
			return at
		}
	}
	return 0
}

// oracleUse returns the highest use of a second in the last 20 s, for consecutive seconds, from the complete history.
func (s *sim) oracleUse(at int) float64 {
	of := int(time.Second / s.grain)
	most := 0.0
	for end := at; end > max(0, at-20*of) && end >= of; end -= of {
		sum := 0.0
		for _, m := range s.history[end-of : end] {
			sum += m.used
		}
		most = max(most, sum/float64(of))
	}
	return most
}

// TestShareOfIdleTime checks that offline work gets at least four fifths of the time that the law gives it at each
// moment. It compresses the load of a day into twenty minutes.
func TestShareOfIdleTime(t *testing.T) {
	for _, c := range []struct{ n, per int }{{4, 2}, {16, 2}, {64, 1}} {
		cpus := float64(c.n * c.per)
		quick := noise(7, 0, 0.02*cpus)
		s := newSim(t, c.n, c.per, func(now time.Duration) float64 {
			wave := 0.25 - 0.2*math.Cos(2*math.Pi*now.Minutes()/20)
			return wave*cpus + quick(now)
		})
		s.run(21 * time.Minute)
		given, due := 0, 0
		for i := 6000; i < len(s.history); i += 100 {
			used := unit.MilliCPUs(int64(math.Ceil(s.oracleUse(i) * 1000)))
			given += s.history[i].offline
			due += Law(s.policy, s.cores, used).Target
		}
		if share := float64(given) / float64(due); share < 0.8 {
			t.Errorf("%d cores of %d threads: %.3f of what the law gives", c.n, c.per, share)
		} else {
			t.Logf("%d cores of %d threads: %.3f of what the law gives, %.1f moves a minute", c.n, c.per, share, float64(len(s.moves))/20)
		}
	}
}

// TestSteal checks that offline work does not grow while the hypervisor takes time, and shrinks as usual.
func TestSteal(t *testing.T) {
	s := newSim(t, 8, 2, func(now time.Duration) float64 {
		if now < 2*time.Minute || now > 4*time.Minute {
			return 1
		}
		return 6
	})
	s.steal = func(now time.Duration) float64 {
		if now > 3*time.Minute {
			return 0.08
		}
		return 0
	}
	s.run(2 * time.Minute)
	grown := s.decision.Size
	s.run(3*time.Minute + 10*time.Second)
	shrunk := s.decision.Size
	s.run(8 * time.Minute)
	if grown <= shrunk || s.decision.Size != shrunk || s.decision.Reason != Stolen || s.decision.Figures.Target <= shrunk {
		t.Errorf("grew to %d, shrank to %d, then %+v", grown, shrunk, s.decision)
	}
}

// TestCostlyMovesAreFew counts moves under a load that rises and falls within minutes, with noise and bursts. Where a
// move costs threads the CPUs that they chose, offline work must grow once a minute at most, and shrink as soon as
// elsewhere.
func TestCostlyMovesAreFew(t *testing.T) {
	for _, c := range []struct{ n, per int }{{8, 2}, {64, 2}} {
		cpus := float64(c.n * c.per)
		quick := noise(5, 0, 0.03*cpus)
		run := func(costly bool) (grown, shrunk int) {
			s := newSim(t, c.n, c.per, func(now time.Duration) float64 {
				if now%(7*time.Minute) < 2*time.Second && now > time.Minute {
					return cpus
				}
				return (0.25-0.2*math.Cos(2*math.Pi*now.Minutes()/6))*cpus + quick(now)
			})
			s.costly = costly
			last, size := time.Duration(0), 0
			for s.now < 15*time.Minute {
				s.run(s.now + s.decision.Next + s.grain)
				switch d := s.decision; {
				case d.Size > size && size > 0:
					if grown++; costly && s.now-last < time.Minute {
						t.Fatalf("%d cores: grew %s after the move before", c.n, s.now-last)
					}
				case d.Size < size:
					shrunk++
				}
				if s.decision.Size != size {
					last, size = s.now, s.decision.Size
				}
			}
			return grown, shrunk
		}
		grown, shrunk := run(true)
		usually, usuallyShrunk := run(false)
		t.Logf("%d cores: grew %d times and shrank %d times, elsewhere %d and %d", c.n, grown, shrunk, usually, usuallyShrunk)
		if grown > 15 || grown == 0 || shrunk == 0 || grown >= usually || shrunk > usuallyShrunk {
			t.Errorf("%d cores: grew %d times and shrank %d times, elsewhere %d and %d", c.n, grown, shrunk, usually, usuallyShrunk)
		}
	}
}
