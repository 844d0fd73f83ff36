package cgroup

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/berth-project/berth/internal/value/unit"
)

// MinQuota is the smallest quota that the kernel accepts, 1 ms in every period (min_cfs_quota_period in
// kernel/sched/core.c).
const MinQuota unit.Micros = 1000

// LowestQuota returns the smallest quota that the kernel accepts for the group at the period in force. It is the
// largest of MinQuota, the burst in force and, on v1, the quota that the groups below need. On v1 the limited group
// below with the highest ratio of quota to period determines that need.
//
// The blocker names the reason in words, or is "" for MinQuota. LowestQuota only reads files, on v1 those of all groups
// below. Use it to explain a refusal, not for every sample. The errors are those of Bandwidth.
func (g *Group) LowestQuota() (quota unit.Micros, blocker string, err error) {
	b, err := g.Bandwidth()
	if err != nil {
		return 0, "", err
	}
	quota = MinQuota
	if b.Burst > quota {
		quota, blocker = b.Burst, fmt.Sprintf("the burst of %d µs in %s of %q", b.Burst, g.burstFile(), g.path)
	}
	if g.host.controllers[CPU].Version != 1 {
		return quota, blocker, nil
	}
	err = g.below(func(path string, limit Bandwidth) {
		need, lost := carry(limit.Quota, limit.Period, b.Period)
		if lost {
			need++
		}
		if need > quota {
			quota, blocker = need, "the group below it, "+limitedTo(path, limit)
		}
	})
	return quota, blocker, err
}

// HighestQuota returns the largest quota that the kernel accepts for the group at the period in force, or unit.NoLimit
// without a bound. On v1 the nearest limited group above bounds the ratio of quota to period; on v2 there is no bound.
// The kernel always accepts an unlimited quota. The blocker names the group above. The errors are those of Bandwidth.
func (g *Group) HighestQuota() (quota unit.Micros, blocker string, err error) {
	_, period, err := g.max()
	if err != nil || g.host.controllers[CPU].Version != 1 {
		return unit.NoLimit, "", err
	}
	for _, path := range g.Ancestors() {
		limit, err := g.host.limitOf(path)
		if err != nil {
			return 0, "", err
		}
		if limit.Quota >= 0 {
			n, _ := carry(limit.Quota, limit.Period, period)
			return n, "the group above it, " + limitedTo(path, limit), nil
		}
	}
	return unit.NoLimit, "", nil
}

// below visits every limited group below g, and ignores groups that vanish.
func (g *Group) below(visit func(path string, limit Bandwidth)) error {
	mount := g.host.controllers[CPU].Mount + "/"
	return g.host.walk(mount+g.path, func(dir string, depth int) error {
		if depth == 0 {
			return nil
		}
		path := strings.TrimPrefix(dir, mount)
		limit, err := g.host.limitOf(path)
		if errors.Is(err, ErrNoGroup) {
			return nil
		}
		if err == nil && limit.Quota >= 0 {
			visit(path, limit)
		}
		return err
	})
}

// limitOf reads quota and period of another group.
func (h *Host) limitOf(path string) (Bandwidth, error) {
	g, err := h.Group(path)
	if err != nil {
		return Bandwidth{}, err
	}
	quota, period, err := g.max()
	return Bandwidth{Quota: quota, Period: period}, errors.Join(err, g.Close())
}

func limitedTo(path string, limit Bandwidth) string {
	return fmt.Sprintf("%q, limited to %d µs in every %d µs", path, limit.Quota, limit.Period)
}

// carry returns n*to/from, rounded down, and whether the rounding lost something. On overflow it returns the largest
// number.
func carry(n, from, to unit.Micros) (carried unit.Micros, lost bool) {
	high, low := bits.Mul64(uint64(n), uint64(to))
	if high >= uint64(from) {
		return math.MaxInt64, false
	}
	quotient, rest := bits.Div64(high, low, uint64(from))
	if quotient >= math.MaxInt64 {
		return math.MaxInt64, false
	}
	return unit.Micros(quotient), rest > 0
}
