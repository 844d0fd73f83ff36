package credit_test

import (
	"math/rand/v2"
	"time"

	"github.com/berth-project/berth/internal/value/unit"
)

// cfs models one group under the kernel's CFS bandwidth control, in steps of h nanoseconds. It has the behavior that
// the law must survive:
//
//   - a timer with a random phase refills the pool by a quota every period, up to
//     quota plus burst;
//   - a CPU takes a slice from the pool, keeps its unused part across periods, and
//     returns all but a millisecond when it goes idle;
//   - use is accounted at ticks, when a CPU goes idle, and sometimes in between, so
//     a CPU exceeds its quota by up to a tick and owes that;
//   - the next refills pay the debt before the CPU runs again;
//   - a write of the quota refills the pool at once, forgives all debts and
//     unthrottles, whether it raises or lowers;
//   - from Linux 6.18 on a throttled thread continues until it returns to user space
//     (throttle_cfs_rq_work), and owes what it uses until then as well.
type cfs struct {
	h, period, slice, tick int64
	quota, burst, pool     int64
	now, refillAt, usage   int64

	cpus []cpu
	rng  *rand.Rand
	// stay is the longest time that a CPU's threads continue in kernel mode, 0 before Linux 6.18.
	stay int64
	// early is the probability that a running CPU is accounted before its tick.
	early float64

	periods, throttled int  // as cpu.stat counts them
	hit                bool // a CPU was throttled in this period
}

// cpu is the group's run queue on one CPU.
type cpu struct {
	local     int64 // available runtime; a debt if negative
	ran       int64 // not accounted yet
	tickAt    int64
	throttled bool
	busy      bool
	inKernel  int64 // until its threads return to user space
}

// keep is the runtime that a CPU does not return when it goes idle (min_cfs_rq_runtime).
const keep = int64(time.Millisecond)

func newCFS(h time.Duration, f facts, rng *rand.Rand) *cfs {
	c := &cfs{
		h: int64(h), period: ns(f.Period), slice: ns(f.Slice), tick: int64(f.Tick),
		quota: ns(f.LimitQuota), burst: ns(f.Burst), rng: rng, early: rng.Float64() * 0.2,
		cpus: make([]cpu, f.CPUs),
	}
	c.pool = c.quota + c.burst
	c.refillAt = 1 + rng.Int64N(c.period)
	for i := range c.cpus {
		c.cpus[i].tickAt = 1 + rng.Int64N(c.tick)
	}
	return c
}

func ns(m unit.Micros) int64 { return int64(m) * 1000 }

// write sets the quota as the kernel does.
func (c *cfs) write(quota unit.Micros) {
	c.quota = ns(quota)
	c.refill()
	for i := range c.cpus {
		c.cpus[i].local, c.cpus[i].throttled = 0, false
	}
}

func (c *cfs) refill() { c.pool = min(c.pool+c.quota, c.quota+c.burst) }

// step runs the group for h. want says which CPUs have work.
func (c *cfs) step(want []bool) {
	c.now += c.h
	for i := range c.cpus {
		c.run(&c.cpus[i], want[i])
	}
	for c.now >= c.refillAt {
		c.refillAt += c.period
		c.periods++
		if c.hit {
			c.throttled++
		}
		c.refill()
		c.distribute()
		c.hit = false
		for i := range c.cpus {
			c.hit = c.hit || c.cpus[i].throttled
		}
	}
}

// run makes one CPU work or idle for a step.
func (c *cfs) run(p *cpu, want bool) {
	if want && !p.busy { // enqueued: a CPU without runtime asks the pool
		p.busy = true
		if p.local <= 0 {
			c.charge(p)
		}
	}
	if p.busy && want && (!p.throttled || p.inKernel > 0) {
		p.ran += c.h
		if p.inKernel -= c.h; p.inKernel <= 0 && !p.throttled && c.stay > 0 {
			p.inKernel = c.stay - c.rng.Int64N(c.stay)*c.rng.Int64N(2) // the longest, or less
		}
	}
	if p.busy && !want && !p.throttled {
		p.busy = false
		c.account(p)
		if spare := p.local - keep; spare > 0 {
			p.local = keep
			c.pool += spare
			if c.pool > c.slice {
				c.distribute()
			}
		}
	}
	if c.now >= p.tickAt {
		p.tickAt += c.tick
		c.charge(p)
	} else if p.ran > 0 && c.rng.Float64() < c.early {
		c.charge(p)
	}
}

// account adds the CPU's runtime to the usage counter.
func (c *cfs) account(p *cpu) {
	c.usage += p.ran
	p.local -= p.ran
	p.ran = 0
}

// charge accounts the use, and takes a slice or throttles the CPU if no runtime is left.
func (c *cfs) charge(p *cpu) {
	c.account(p)
	if !p.busy || p.throttled || p.local > 0 {
		return
	}
	take := min(c.slice-p.local, c.pool)
	c.pool -= take
	p.local += take
	if p.local <= 0 {
		p.throttled, c.hit = true, true
	}
}

// distribute pays the debts of throttled CPUs as far as the pool suffices.
func (c *cfs) distribute() {
	first := c.rng.IntN(len(c.cpus))
	for i := range c.cpus {
		p := &c.cpus[(first+i)%len(c.cpus)]
		if !p.throttled || c.pool <= 0 {
			continue
		}
		take := min(1-p.local, c.pool)
		c.pool -= take
		p.local += take
		if p.local > 0 {
			p.throttled = false
		}
	}
}
