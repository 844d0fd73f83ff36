package credit_test

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/value/unit"
)

// facts is the fixed part of a simulated group.
type facts = credit.Facts

// law is the control law under test, or a wrong one that the model must catch.
type law func(credit.Policy, credit.Ledger, credit.Facts, time.Duration) (credit.Ledger, credit.Decision)

// demand sets which CPUs have work in the coming step.
type demand func(s *sim, want []bool)

// sim is a group in the model, under a law whose looks are late.
type sim struct {
	*cfs
	policy  credit.Policy
	facts   facts
	law     law
	ledger  credit.Ledger
	last    credit.Decision
	cadence time.Duration
	// late returns the delay of the next look.
	late      func() time.Duration
	sinceLook int64 // since the last look, 0 in the step after it

	due, lookAt int64
	want        []bool
	writes      int
	lateness    []time.Duration // the two largest delays, descending
	forgiven    bool            // the use during a silence exceeded the capacity
	goneAt      int64           // when credit first ran out
	goneUsage   int64
	lowest      unit.Micros
	excess      excess
}

// excess is the maximum of use above the limit over any window so far, in CPU-nanoseconds.
type excess struct{ floor, most float64 }

func (e *excess) add(balance float64) {
	e.floor = min(e.floor, balance)
	e.most = max(e.most, balance-e.floor)
}

func newSim(p credit.Policy, f facts, rng *rand.Rand) *sim {
	h := time.Millisecond
	if f.Period < 10_000 {
		h = 250 * time.Microsecond
	}
	f.Standing = f.LimitQuota
	f.Cap, f.Ceiling = unit.CPUs(math.Inf(1)), unit.CPUs(math.Inf(1))
	s := &sim{
		cfs: newCFS(h, f, rng), policy: p, facts: f, law: credit.Decide, want: make([]bool, f.CPUs),
		cadence: min(max(f.Period.Duration(), credit.MinLook), credit.MaxLook),
		late:    func() time.Duration { return 0 }, lateness: make([]time.Duration, 2), lowest: f.LimitQuota,
	}
	s.ledger = credit.Open(p, s.facts, false)
	return s
}

// run simulates d of demand.
func (s *sim) run(d time.Duration, work demand) {
	limit := float64(s.facts.Limit())
	for end := s.now + int64(d); s.now < end; {
		if s.now >= s.lookAt {
			s.look()
		}
		work(s, s.want)
		s.step(s.want)
		s.sinceLook += s.h
		s.excess.add(float64(s.usage) - limit*float64(s.now))
	}
	if s.now > s.due { // a look that has not happened yet is late too
		s.record(time.Duration(s.now - s.due))
	}
}

func (s *sim) look() {
	if s.now > s.due {
		s.record(time.Duration(s.now - s.due))
	}
	f := s.facts
	f.At, f.Usage, f.Standing = time.Duration(s.now), unit.CPUTime(s.usage), unit.Micros(s.quota/1000)
	if used := (f.Usage - s.ledger.Usage).Seconds(); s.raised() && used > s.policy.Capacity(f.Limit()) {
		s.forgiven = true
	}
	s.ledger, s.last = s.law(s.policy, s.ledger, f, s.cadence)
	if s.last.Write {
		s.write(s.last.Quota)
		s.writes++
	}
	s.lowest = min(s.lowest, s.last.Quota)
	if s.goneAt == 0 && s.last.Reason == credit.NoCredit {
		s.goneAt, s.goneUsage = s.now, s.usage
	}
	s.sinceLook = 0
	s.due = s.now + int64(s.last.Next)/s.h*s.h
	s.lookAt = s.due + int64(s.late())
}

// record remembers the two largest delays.
func (s *sim) record(d time.Duration) {
	if d > s.lateness[0] {
		s.lateness[0], s.lateness[1] = d, s.lateness[0]
	} else {
		s.lateness[1] = max(s.lateness[1], d)
	}
}

func (s *sim) raised() bool { return s.quota > ns(s.facts.LimitQuota) }

// bound returns the excess that the law promises, in CPU-nanoseconds.
func (s *sim) bound() float64 { return s.boundOf(s.facts) }

func (s *sim) boundOf(f facts) float64 {
	lateness := s.lateness[0]
	if s.forgiven {
		lateness += s.lateness[1]
	}
	return float64(credit.Bound(s.policy, f, lateness, time.Duration(s.stay))) * 1e9
}

// inKernelMode returns X, what the throttled threads of all CPUs can use in kernel mode at once.
func (s *sim) inKernelMode() float64 { return float64(s.facts.CPUs) * float64(s.stay) }

// always returns a demand of k CPUs at all times.
func always(k int) demand {
	return func(_ *sim, want []bool) {
		for i := range want {
			want[i] = i < k
		}
	}
}

func idle() demand { return always(0) }

func onOff(k int, on, off time.Duration) demand {
	return func(s *sim, want []bool) {
		busy := s.now%int64(on+off) < int64(on)
		for i := range want {
			want[i] = busy && i < k
		}
	}
}

// whileRaised returns a demand only while the quota is above the limit.
func whileRaised(k int) demand {
	return func(s *sim, want []bool) {
		for i := range want {
			want[i] = s.raised() && i < k
		}
	}
}

// beforeLook returns a demand only in the last part of the time between two looks, so that no credit is lost in
// between.
func beforeLook(k int, part float64) demand {
	return func(s *sim, want []bool) {
		gap := s.lookAt - s.now + s.sinceLook
		busy := float64(s.sinceLook) >= part*float64(gap)
		for i := range want {
			want[i] = busy && i < k
		}
	}
}

// miser saves until the credit is nearly full, spends until the quota has been lowered for a while, and saves again.
func miser(k int, after time.Duration) demand {
	spending, until := true, int64(0)
	return func(s *sim, want []bool) {
		full := s.policy.Capacity(s.facts.Limit())
		switch {
		case !spending && s.ledger.Credit >= full*0.99:
			spending, until = true, 0
		case spending && !s.raised() && until == 0:
			until = s.now + int64(after)
		case spending && until > 0 && s.now > until:
			spending = false
		}
		for i := range want {
			want[i] = spending && i < k
		}
	}
}

// credit returns the account's present credit, between two looks.
func (s *sim) credit() float64 {
	since := time.Duration(s.now) - s.ledger.At
	return float64(s.ledger.Credit+s.facts.Limit().Over(since)) - float64(s.usage-int64(s.ledger.Usage))/1e9
}

// striker knows the law and the kernel. It saves until the credit is full, idles through a look, and uses what it can
// just before the next. It then spends down to the credit that the quota needs to stay raised. It hovers there until
// the pool is full right after a look, and then uses all CPUs at once, through the lowering.
func striker(margin float64, rest time.Duration) demand {
	phase, until := 0, int64(0)
	return func(s *sim, want []bool) {
		busy, just := 0, s.sinceLook == 0
		full := float64(s.policy.Capacity(s.facts.Limit()))
		switch over := s.credit() - float64(s.last.Needed) - margin*full; phase {
		case 0: // save
			if s.raised() && just && s.credit() >= full*0.98 {
				phase = 1
			}
		case 1: // after the look at full credit: idle, then everything before the next look
			if gap := s.lookAt - s.now; gap <= s.sinceLook/8 {
				busy = len(want)
			}
			if just {
				phase = 2
			}
		case 2: // spend, but leave the quota raised
			if over > 0 {
				busy = len(want)
			}
			if just && over < 0.02*full && s.pool >= s.quota*9/10 {
				phase, until, busy = 3, s.now+int64(rest), len(want)
			}
			if !s.raised() {
				phase = 0
			}
		case 3: // strike
			if busy = len(want); s.now > until {
				phase, busy = 0, 0
			}
		}
		for i := range want {
			want[i] = i < busy
		}
	}
}

// flicker switches every CPU on and off at random.
func flicker(rng *rand.Rand, on, off time.Duration) demand {
	return func(s *sim, want []bool) {
		for i := range want {
			mean := off
			if want[i] {
				mean = on
			}
			if rng.Float64()*float64(mean) < float64(s.h) {
				want[i] = !want[i]
			}
		}
	}
}
