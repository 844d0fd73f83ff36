package cgroup

import "github.com/berth-project/berth/internal/value/unit"

// systemdStep is the step in which a runtime gives systemd a quota: 10 ms of CPU time in each second, one percent of a
// CPU. Runtimes round up so that the quotas of the groups below fit.
const systemdStep unit.Micros = 10_000

// second is the period in which systemd expresses a quota.
const second unit.Micros = 1_000_000

// Grants reports whether the cpu.max value v is the result of a limit. That is the limit's quota in the period of v,
// within a microsecond and at least MinQuota, or that quota as systemd rounds it. A limit of 0.417 CPUs is 41700 or
// 42000 µs in 100 ms.
func Grants(limit unit.CPUs, v Value) bool {
	quota, period, err := v.Pair()
	if err != nil || limit <= 0 || quota < 0 {
		return false
	}
	exact := limit.Quota(period)
	for _, made := range []unit.Micros{exact, max(exact, MinQuota), rounded(limit, period)} {
		if d := made - quota; d >= -1 && d <= 1 {
			return true
		}
	}
	return false
}

// rounded returns the quota of a limit in a period, rounded as for systemd.
func rounded(limit unit.CPUs, period unit.Micros) unit.Micros {
	perSecond := (limit.Quota(second) + systemdStep - 1) / systemdStep * systemdStep
	made, _ := carry(perSecond, second, period)
	return made
}
