package agent

import (
	"strings"
	"time"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/unit"
)

// beside are the containers without a limit in a pod that has one, as kubectl debug
// starts them. Nothing but the pod's quota holds them, and that rises with the
// containers that burst.
type beside struct {
	members []*member
	// seen is the use of each that is charged already.
	seen map[*member]unit.CPUTime
	at   time.Duration
}

// take replaces the containers. What a new one used before it was seen is charged,
// unless the pod was not looked at before either (first).
func (b *beside) take(members []*member, now time.Duration, first bool) (changed bool) {
	if len(members) == 0 && len(b.members) == 0 {
		return false // almost every pod, every second
	}
	seen := make(map[*member]unit.CPUTime, len(members))
	for _, m := range members {
		used, known := b.seen[m]
		if !known {
			changed = true
			if usage, err := m.group.Usage(); first && err == nil {
				used = usage
			}
		}
		seen[m] = used
	}
	if len(b.members) == 0 {
		b.at = now
	}
	b.members, b.seen = members, seen
	return changed
}

// used returns what the containers used since it was last asked.
func (b *beside) used() unit.CPUTime {
	var sum unit.CPUTime
	for _, m := range b.members {
		usage, err := m.group.Usage()
		if err != nil {
			continue // it ended: the next look at it says so
		}
		used := usage.Since(b.seen[m])
		if used < 0 {
			used = usage // another group
		}
		sum += used
		b.seen[m] = usage
	}
	return sum
}

// names are for messages.
func (b *beside) names() string {
	names := make([]string, 0, len(b.members))
	for _, m := range b.members {
		names = append(names, m.workload.Name)
	}
	return strings.Join(names, ", ")
}

// charge brings what containers without a limit used to the accounts of those that
// burst, in proportion to their limits: all but what the pod's own limit leaves beyond
// the limits of its containers. So the pod as a whole keeps to its limit over time, as
// its containers do, and at its own limit it makes no debts.
func (p *podGroup) charge(now time.Duration) {
	if len(p.beside.members) == 0 {
		return
	}
	var limits unit.CPUs
	for _, m := range p.members {
		limits += m.facts.Limit()
	}
	spare := max(rate(p.max.own)-limits, 0).Over(max(now-p.beside.at, 0))
	p.beside.at = now
	excess := p.beside.used().Seconds() - spare
	if excess <= 0 || limits <= 0 {
		return
	}
	for _, m := range p.members {
		m.facts.Beside.Usage += (excess * unit.CPUSeconds(m.facts.Limit()/limits)).Time()
	}
}

// expose tells the containers that burst what those without a limit can use.
func (p *podGroup) expose(cpus int) {
	names := p.beside.names()
	for _, m := range p.members {
		m.besides = names
		facts := burst.Beside{Usage: m.facts.Beside.Usage}
		if names != "" {
			facts.CPUs = cpus
			facts.Quota = rate(p.max.own).Quota(m.facts.Period)
			facts.Burst = rate(p.burst.standing).Quota(m.facts.Period)
		}
		m.facts.Beside = facts
	}
}

// paysFor warns whose use is on m's account.
func (m *member) paysFor() string {
	if m.besides == "" {
		return ""
	}
	return "in its pod runs without a limit, and is charged to this account: " + m.besides
}
