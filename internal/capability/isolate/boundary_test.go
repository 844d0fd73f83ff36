package isolate

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// TestBoundaryUnderAnything makes decisions for random machines, loads and policies. The offline side must always
// consist of whole movable cores apart from the online side, at least low and never all of them. Above low it must leave
// online work the CPUs that this needs, also where siblings are offline.
func TestBoundaryUnderAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := twoDomains()
		for i := range top.Cores {
			if rapid.IntRange(0, 3).Draw(t, "sibling offline") == 0 {
				top.Cores[i].CPUs, top.Online = top.Cores[i].CPUs.Remove(i+8), top.Online.Remove(i+8)
			}
		}
		var b Boundary
		spent := make([]unit.CPUSpent, 16)
		now := time.Second
		var before Decision
		for range rapid.IntRange(1, 60).Draw(t, "decisions") {
			passed := time.Duration(rapid.IntRange(0, 6000).Draw(t, "ms")) * time.Millisecond
			now += passed
			for i := range spent {
				spent[i].Busy += unit.CPUTime(rapid.Int64Range(0, 2*int64(passed)+1).Draw(t, "busy"))
				spent[i].Idle += unit.CPUTime(rapid.Int64Range(-1e9, int64(passed)+1).Draw(t, "idle"))
			}
			n := Node{
				Policy: anyPolicy(t), Offline: rapid.IntRange(0, 9).Draw(t, "offline") > 0,
				Movable:  Movable(top, top.Online, subset(t, top.Online, "taken")),
				LookCost: time.Duration(rapid.IntRange(0, 5_000_000).Draw(t, "cost")),
			}
			if rapid.Bool().Draw(t, "look") {
				b.Look(now, spent[:rapid.IntRange(0, 16).Draw(t, "lines")])
			}
			d := b.Decide(now, n)
			checkDecision(t, d, n)
			if d.Changed != (d.Offline != before.Offline || d.Exists != before.Exists) {
				t.Fatalf("changed is %v: %+v, then %+v", d.Changed, before, d)
			}
			before = d
		}
	})
}

func checkDecision(t *rapid.T, d Decision, n Node) {
	want := n.Offline && len(n.Movable) >= 2
	switch {
	case d.Exists != want:
		t.Fatalf("exists is %v: %+v", d.Exists, d)
	case !want && (!d.Offline.IsEmpty() || d.Size != 0):
		t.Fatalf("no boundary, and offline work has %s", d.Offline)
	case !want:
		return
	case d.Size < d.Figures.Low, d.Size >= len(n.Movable), d.Size < 1:
		t.Fatalf("%+v", d)
	case d.Offline.Intersects(d.Online), d.Offline.Union(d.Online) != cpusOf(n.Movable):
		t.Fatalf("%s and %s of %s", d.Offline, d.Online, cpusOf(n.Movable))
	case d.Next < soonest || d.Next > second:
		t.Fatalf("next look in %s", d.Next)
	}
	if again := resize(d.Cores[:d.Size], n.Movable, len(n.Movable)); !slices.Equal(again, d.Cores) {
		t.Fatalf("offline work would get %v, then %v", d.Cores, again)
	}
	f := d.Figures
	if need := 1.2*float64(f.Use) + f.Buffer*f.core(); d.Size > f.Low && float64(d.Online.Size()) < need-1e-9 {
		t.Fatalf("%d CPUs for online work, which needs %g: %+v", d.Online.Size(), need, d)
	}
	if len(d.Cores) != len(n.Movable) || cpusOf(d.Cores[:d.Size]) != d.Offline {
		t.Fatalf("%s of %v", d.Offline, d.Cores)
	}
	whole := 0
	for _, c := range n.Movable {
		if c.CPUs.IsSubsetOf(d.Offline) {
			whole++
		}
	}
	if whole != d.Size || d.Offline.Size() < d.Size {
		t.Fatalf("%d whole cores in %s, want %d", whole, d.Offline, d.Size)
	}
}

func TestReasons(t *testing.T) {
	top := twoDomains()
	all := Movable(top, top.Online, cpuset.Set{})
	var b Boundary
	spent := make([]unit.CPUSpent, 16)
	now := time.Second
	// look lets a second pass in which every CPU was busy for that part.
	look := func(busy float64, n Node) Decision {
		now += time.Second
		for i := range spent {
			spent[i].Busy += unit.CPUTime(busy * 1e9)
			spent[i].Idle += unit.CPUTime((1 - busy) * 1e9)
		}
		b.Look(now, spent)
		return b.Decide(now, n)
	}
	expect := func(d Decision, why Reason, size int) {
		t.Helper()
		if d.Reason != why || d.Size != size {
			t.Errorf("at %s: %d cores, %q, want %d, %q", now, d.Size, d.Reason, size, why)
		}
	}
	n := Node{Policy: DefaultPolicy(), Movable: all}
	expect(look(0.1, n), NotWanted, 0)
	n.Offline = true
	expect(look(0.1, n), Started, 1)
	expect(look(0.1, n), Waiting, 1)
	now += 4 * time.Second
	expect(look(0.1, n), OnlineFell, 2)
	now += 4 * time.Second
	expect(look(0.1, n), OnlineFell, 3)
	if d := b.Decide(now, n); d.Offline.String() != "5-7,13-15" || d.Changed {
		t.Errorf("%+v", d)
	}
	n.Movable = Movable(top, top.Online, cpuset.Set{}.Add(14)) // a pinned container uses a thread of core 6
	d := look(0.1, n)
	expect(d, Waiting, 2)
	if d.Offline.String() != "5,7,13,15" || d.Online.Contains(6) {
		t.Errorf("%+v", d)
	}
	n.Movable = all
	expect(look(0.8, n), OnlineRose, 1)
	n.Movable = all[:1]
	expect(look(0.8, n), TooFew, 0)
	n.Movable = all[:2]
	expect(look(0.8, n), Started, 1)
	n.Policy.Min = 100
	n.Movable = all
	expect(look(0.8, n), Moved, 7)
}

func TestNextLook(t *testing.T) {
	for cost, want := range map[time.Duration]time.Duration{
		0: soonest, 250 * time.Microsecond: soonest, time.Millisecond: 200 * time.Millisecond, 9 * time.Millisecond: latest,
	} {
		n := Node{LookCost: cost}
		if got := n.next(true); got != want {
			t.Errorf("a look that costs %s comes every %s, want %s", cost, got, want)
		}
		if got := n.next(false); got != time.Second {
			t.Errorf("with nothing to give back: %s", got)
		}
	}
}

// TestUse checks that the use is the maximum of the seconds within the past 20 s, whatever the interval of the samples.
func TestUse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g gauge
		online := cpuset.Set{}.Add(0).Add(2)
		spent := make([]unit.CPUSpent, 3)
		now := time.Second
		g.look(now, spent, online, 0)
		type slice struct {
			from, until time.Duration
			busy        float64
		}
		var all []slice
		for range rapid.IntRange(1, 80).Draw(t, "looks") {
			passed := time.Duration(rapid.SampledFrom([]int{50, 100, 500, 1000, 1700}).Draw(t, "ms")) * time.Millisecond
			part := rapid.Float64Range(0, 1).Draw(t, "busy")
			for _, cpu := range []int{0, 1, 2} {
				spent[cpu].Busy += unit.CPUTime(part * float64(passed))
			}
			all = append(all, slice{now, now + passed, 2 * part})
			now += passed
			g.look(now, spent, online, 0)
		}
		got, known := g.law(now, Policy{}, nil).Use, len(g.means) > 0
		var ends []time.Duration // end times of consecutive seconds
		open := time.Second
		for _, s := range all {
			if s.until-open >= time.Second {
				ends, open = append(ends, s.until), s.until
			}
		}
		most := 0.0
		open = time.Second
		for _, end := range ends {
			sum := 0.0
			for _, s := range all {
				sum += s.busy * max(0, min(s.until, end)-max(s.from, open)).Seconds()
			}
			if end > now-Window {
				most = max(most, sum/(end-open).Seconds())
			}
			open = end
		}
		if known != (len(ends) > 0) || math.Abs(float64(got)-most) > 1e-6 {
			t.Fatalf("use %g, %v, want %g of %d seconds", float64(got), known, most, len(ends))
		}
	})
}

// TestSmallGrowthWaits checks that growth by one core waits for half a minute without a move. On a machine of 24 cores
// a step is two.
func TestSmallGrowthWaits(t *testing.T) {
	n := Node{Policy: Policy{Threshold: 100, Min: 50}, Movable: machine(24, 1, 8), Offline: true}
	var b Boundary
	spent := make([]unit.CPUSpent, 24)
	now := time.Second
	sizes := map[time.Duration]int{}
	for ; now < 3*time.Minute; now += time.Second {
		for i := range spent { // half of them are online: U is 7, and N - need = 24 - ceil(8.4 + 2.4), one above low
			spent[i].Busy += 7_000_000_000 / 12
			spent[i].Idle += 5_000_000_000 / 12
		}
		b.Look(now, spent)
		sizes[now] = b.Decide(now, n).Size
	}
	if sizes[time.Second] != 12 || sizes[30*time.Second] != 12 || sizes[32*time.Second] != 13 {
		t.Errorf("%d cores, %d after 29 s, %d after 31 s", sizes[time.Second], sizes[30*time.Second], sizes[32*time.Second])
	}
}
