package cgroup_test

import (
	"strings"
	"syscall"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/unit"
)

// bounds compares LowestQuota and HighestQuota with the range that the kernel accepts.
func (l *live) bounds() {
	const period = unit.Micros(100_000)
	g := l.group.Handle()
	check := func(name string, bound func() (unit.Micros, string, error), want unit.Micros, blocker string) {
		l.Helper()
		got, why, err := bound()
		l.must(err)
		if got != want || !strings.Contains(why, blocker) || (why == "") != (blocker == "") {
			l.Errorf("%s: %d µs by %q, want %d by %q", name, got, why, want, blocker)
		}
	}
	l.must(l.group.SetMax(80_000, period))
	check("nothing in the way", g.LowestQuota, cgroup.MinQuota, "")
	check("nothing above", g.HighestQuota, unit.NoLimit, "")

	l.must(l.group.SetBurst(30_000))
	check("a burst", g.LowestQuota, 30_000, "burst")
	l.want("a quota below the burst", l.group.SetMax(29_000, period), syscall.EINVAL)
	l.must(l.group.SetMax(30_000, period))
	l.must(l.group.SetMax(80_000, period))

	middle, err := l.group.Sub("middle") // without a limit
	l.must(err)
	leaf, err := middle.Sub("leaf")
	l.must(err)
	l.must(leaf.SetMax(20_001, 30_000))
	if l.version == 2 {
		check("a group below on v2", g.LowestQuota, 30_000, "burst")
		check("a group above on v2", leaf.Handle().HighestQuota, unit.NoLimit, "")
		return
	}
	check("a group below on v1", g.LowestQuota, 66_670, "middle/leaf")
	l.want("a quota below the group below", l.group.SetMax(66_669, period), syscall.EINVAL)
	l.must(l.group.SetMax(66_670, period))
	l.must(l.group.SetMax(80_000, period))
	check("a group above on v1", leaf.Handle().HighestQuota, 24_000, l.name)
	l.want("a quota above the group above", leaf.SetMax(24_001, 30_000), syscall.EINVAL)
	l.must(leaf.SetMax(24_000, 30_000))
}
