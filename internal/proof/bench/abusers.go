package bench

import (
	"fmt"
	"math"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
)

// abuser is one way to take all the CPU time that a group can get.
type abuser struct {
	name  string
	mode  load.Mode
	calls load.Calls
	// on and off are the rhythm of load.OnOff.
	on, off time.Duration
	// strikes says that on, off and the credit are those of strikes.
	strikes bool
}

// The rhythm of the on/off abuser: with the quota at three times the limit its mean demand is 1.5 × the limit, in
// stretches that let some credit grow back.
const (
	abuserOn  = 4 * time.Second
	abuserOff = 4 * time.Second
)

// strikes is the abuser that spends a full credit through a lowering of the quota, again and again. With a credit of S
// seconds at three times the limit, S seconds of work spend all, and 2 S seconds of rest bring it back: it works and
// rests longer than that. S is the least that pays for a raise, and at least leastStrike.
const (
	strikes     = "strikes"
	leastStrike = 2
	mostStrike  = 60
)

// allAbusers returns the abusers in the order of the table.
func allAbusers() []abuser {
	all := []abuser{
		{name: string(load.Always), mode: load.Always},
		{name: string(load.OnOff), mode: load.OnOff, on: abuserOn, off: abuserOff},
		{name: string(load.WhileRaised), mode: load.WhileRaised},
		{name: "in-kernel", mode: load.Always, calls: load.AllCalls},
		{name: strikes, mode: load.OnOff, calls: load.AllCalls, strikes: true},
	}
	for _, calls := range load.CallKinds() {
		all = append(all, abuser{name: strikes + "-" + string(calls), mode: load.OnOff, calls: calls, strikes: true})
	}
	return all
}

// credited returns the abuser with its rhythm, and the seconds of its credit: seconds, unless it strikes.
func (a abuser) credited(seconds int, f credit.Facts) (abuser, int) {
	if !a.strikes {
		return a, seconds
	}
	seconds = leastStrike
	for seconds < mostStrike && !raises(seconds, f) {
		seconds++
	}
	full := time.Duration(seconds) * time.Second
	a.on, a.off = full*3/2, full*5/2
	return a, seconds
}

// raises reports whether a full credit of so many seconds pays for a raise.
func raises(seconds int, f credit.Facts) bool {
	p := policy(seconds)
	f.Burst = p.Burst(f.LimitQuota)
	f.Standing, f.Cap, f.Ceiling = f.LimitQuota, unit.CPUs(math.Inf(1)), unit.CPUs(math.Inf(1))
	_, decision := credit.Decide(p, credit.Open(p, f, false), f, credit.MinLook)
	return decision.Reason.Raised()
}

// policy is the policy of the abusers' groups.
func policy(seconds int) credit.Policy {
	burst := DefaultBurst()
	return credit.Policy{
		QuotaBurst: true, KernelBurst: true, QuotaPercent: int64(burst.QuotaPercent), CPUBurstPercent: 100, PeriodSeconds: int64(seconds),
	}
}

// facts returns what the bound of the stage's group depends on.
func (o AbuseOptions) facts(stage *Stage) (credit.Facts, error) {
	f := credit.Facts{LimitQuota: o.Limit.Quota(Period), Period: Period, Tick: kernel.Tick()}
	cpus, err := stage.CPUs()
	if err != nil {
		return f, err
	}
	f.CPUs = cpus.Size()
	if f.Slice, err = kernel.BandwidthSlice(stage.place.Host.Root()); err != nil {
		return f, fmt.Errorf("facts of %s: %w", stage.Path(), err)
	}
	b, err := stage.Bandwidth()
	f.Burst, f.HasBurst = b.Burst, b.HasBurst
	return f, err
}

// AbuserNames returns the abusers that run unless others are named. AllAbuserNames also has strikes in one kind of system
// calls each.
func AbuserNames() []string {
	all := AllAbuserNames()
	return all[:len(all)-len(load.CallKinds())]
}

// AllAbuserNames returns all abusers.
func AllAbuserNames() []string {
	var names []string
	for _, a := range allAbusers() {
		names = append(names, a.name)
	}
	return names
}

// quotas are the values that a group's quota had, one after the other.
type quotas []unit.Micros

// add appends the quota that is in effect now.
func (q quotas) add(b cgroup.Bandwidth) quotas {
	if len(q) > 0 && q[len(q)-1] == b.Quota {
		return q
	}
	return append(q, b.Quota)
}

// strikes counts how often the quota fell to the limit. Each time the group may have spent its credit through the
// lowering.
func (q quotas) strikes(limit unit.Micros) int {
	n := 0
	for i := 1; i < len(q); i++ {
		if above(q[i-1], limit) && !above(q[i], limit) {
			n++
		}
	}
	return n
}

// above reports whether a quota is higher than the limit's.
func above(quota, limit unit.Micros) bool { return quota > limit || quota == unit.NoLimit }
