package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Place describes where a thread of the server waits: what its own CPU runs, and what the other CPUs do.
type Place int

// The places. Only from the third on is the thread stacked on other online work.
const (
	OnIdle     Place = iota // Its own CPU is idle, and about to run it.
	BehindHog               // Its own CPU runs a hog.
	BesideIdle              // Stacked, and a CPU is idle.
	BesideHogs              // Stacked, no CPU is idle, and one runs only hogs.
	Busy                    // Stacked, and every other CPU has online work.
	places
)

// MarshalText returns the name of a place.
func (p Place) MarshalText() ([]byte, error) {
	return []byte([places]string{"onIdleCPU", "behindHog", "besideIdleCPU", "besideHogsOnly", "allBusy"}[p]), nil
}

// Mover is what moves a waiting thread, if anything.
type Mover int

// The movers.
const (
	OwnCPU  Mover = iota // Nothing: its own CPU became free.
	NewIdle              // A CPU that is about to become idle pulls it.
	Tick                 // A CPU balances because of a tick.
	Stopper              // A CPU's stopper pushes it, for a tick.
	movers
)

// MarshalText returns the name of a mover.
func (m Mover) MarshalText() ([]byte, error) {
	return []byte([movers]string{"ownCPU", "newIdle", "tick", "stopper"}[m]), nil
}

// Report is the result of the trace for all arms.
type Report struct {
	Kernel  string `json:"kernel"`
	HZ      int    `json:"hz"`
	CPUs    int    `json:"cpus"`
	Reserve int    `json:"reserve"` // Percent of the CPUs that hogs leave free in the arm with a reserve.
	Arms    []*Arm `json:"arms"`

	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"`
}

// Arm is one arm of the benchmark, over all repetitions.
type Arm struct {
	Name    string            `json:"name"`
	Seconds float64           `json:"seconds"` // Of load.
	Waits   int               `json:"waits"`   // Of threads of the server.
	Time    map[Place]float64 `json:"waitedMillis"`
	Moved   map[Mover]int     `json:"moved"` // Waiting threads, by mover.
	Stacks  Stacks            `json:"stacks"`
	Ended   map[Mover]int     `json:"stacksEnded"` // Stacks by what ended them.
	Unclear int               `json:"unclear"`     // Waits whose end is not in the trace: they count nowhere else.

	stacks []time.Duration
}

// Stacks are waits of more than half a millisecond behind online work, while another CPU runs only hogs.
type Stacks struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50ms"`
	P90   float64 `json:"p90ms"`
	Max   float64 `json:"maxms"`
}

func newArm(name string) *Arm {
	return &Arm{Name: name, Time: map[Place]float64{}, Moved: map[Mover]int{}, Ended: map[Mover]int{}}
}

// Waiting returns the mean number of waiting threads of the server.
func (a *Arm) Waiting() float64 {
	sum := 0.0
	for _, ms := range a.Time {
		sum += ms
	}
	return sum / 1000 / a.Seconds
}

// arm returns the arm of that name, and adds it if necessary.
func (r *Report) arm(name string) *Arm {
	for _, a := range r.Arms {
		if a.Name == name {
			return a
		}
	}
	r.Arms = append(r.Arms, newArm(name))
	return r.Arms[len(r.Arms)-1]
}

// close summarizes and judges the recorded events.
func (r *Report) close() {
	for _, a := range r.Arms {
		a.Stacks = stacksOf(a.stacks)
	}
	r.Verdict, r.Why = judge(r.arm(alone), r.arm(idle))
}

func stacksOf(all []time.Duration) Stacks {
	if len(all) == 0 {
		return Stacks{}
	}
	all = slices.Sorted(slices.Values(all))
	at := func(part float64) float64 {
		return milliseconds(all[max(0, int(math.Ceil(part*float64(len(all))))-1)])
	}
	return Stacks{Count: len(all), P50: at(0.5), P90: at(0.9), Max: at(1)}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// The arms that are judged.
const (
	alone = "alone"
	idle  = "idle"
)

// Claim is the claim that the trace confirms or refutes.
const Claim = `a CPU whose only task is idle-class never runs new idle balance, so two online threads that were stacked stay so until one is done or a tick balances, and alone they are pulled at once`

// Verdict is the judgment of the claim.
type Verdict string

// The verdicts.
const (
	Confirmed     Verdict = "confirmed"
	Refuted       Verdict = "refuted"
	NotResolvable Verdict = "not resolvable"
)

// Rule is the rule of judge.
const Rule = `Confirmed: in idle at most 5 % of the stacks end by new idle balance, which pulls at most a tenth of what it pulls alone.
Refuted: in idle new idle balance ends at least half of the stacks, or pulls at least half of what it pulls alone.
Not resolvable: between the two; fewer than 30 pulls alone; or fewer than 30 stacks in idle.`

// judge applies the rule.
func judge(alone, idle *Arm) (Verdict, string) {
	const enough, few, tenth, half = 30, 0.05, 0.1, 0.5
	before, pulled, stacks := alone.Moved[NewIdle], idle.Moved[NewIdle], idle.Stacks.Count
	counts := fmt.Sprintf("new idle balance pulls %d alone and %d in idle, and ends %d of %d stacks; ticks and stoppers end %d, and %d end as their own CPU comes free",
		before, pulled, idle.Ended[NewIdle], stacks, idle.Ended[Tick]+idle.Ended[Stopper], idle.Ended[OwnCPU])
	ended := float64(idle.Ended[NewIdle]) / float64(max(1, stacks))
	switch still := float64(pulled) / float64(max(1, before)); {
	case before < enough:
		return NotResolvable, counts
	case still >= half, ended >= half && stacks >= enough:
		return Refuted, counts
	case stacks < enough, still > tenth, ended > few:
		return NotResolvable, counts
	}
	return Confirmed, counts
}
