package isolate

import "time"

// Sharing decides whether the threads of offline work share a core scheduling cookie, which keeps them off every core
// that has an online thread.
type Sharing struct {
	// Koordlet is the pod of another node agent that assigns cookies, "" for none.
	Koordlet string
	// Missing is why the kernel has no core scheduling, "" if it has.
	Missing string
	// Identity is true if the kernel has Group Identity, or if that is not known.
	Identity bool
	// Cores is true if offline work has cores of its own.
	Cores bool
}

// Refused returns why there is no cookie, "" if there is one. needless is true if no cookie is needed.
//
// A kernel that has Group Identity gets no cookie, whether or not a group uses an identity. With both, CPUs lock up for
// good, and another program may give a group an identity at any time.
func (s Sharing) Refused() (reason string, needless bool) {
	switch {
	case s.Koordlet != "":
		return "left to koordlet (pod " + s.Koordlet + ")", false
	case s.Missing != "":
		return "the kernel has no core scheduling: " + s.Missing, false
	case s.Identity:
		return "the kernel has Group Identity (cpu.bvt_warp_ns), and with both its CPUs lock up", false
	case s.Cores:
		return "offline work has cores of its own", true
	}
	return "", false
}

// Joiner is a thread without the cookie: it joined a group, and no thread with the cookie forked it.
type Joiner struct {
	TID int
	// Start is the thread's start time since boot, 0 if it was not read.
	Start time.Duration
}

// Joins measures how long threads ran in groups of offline work before they had the cookie. The zero value has seen no
// thread. Times are since boot.
type Joins struct {
	// Lacking is the number of threads without a cookie at the last checks, Longest the longest time without it.
	Lacking int
	Longest time.Duration

	// round is the time of the last round, before that of the previous round.
	round, before time.Duration
	groups        map[string]*joined
}

type joined struct {
	at   time.Duration // of the last check
	lack map[int]lack  // by thread
}

// lack is a thread without the cookie: its start time, 0 for unknown, and the time since which it lacks the cookie.
type lack struct{ start, since time.Duration }

// same reports whether one is the thread that had this id before, as far as is known. If two threads share an id, the
// reported gap is too long, never too short.
func (l lack) same(one Joiner) bool { return l.start == 0 || one.Start == 0 || l.start == one.Start }

// Round begins a round of checks. Each group of offline work is checked once in a round. Round forgets all groups
// except those for which still is true.
func (j *Joins) Round(now time.Duration, still func(group string) bool) {
	if j.groups == nil {
		*j = Joins{groups: map[string]*joined{}, round: now}
	}
	j.before, j.round = j.round, now
	for group, g := range j.groups {
		if !still(group) {
			j.Lacking -= len(g.lack)
			delete(j.groups, group)
		}
	}
}

// See records the threads of a group that have no cookie, within a round.
//
// The kernel does not record when a thread joined. The thread joined after its start and after the previous check,
// which did not find it. A group that is new in this round did not need the cookie in the previous round. See uses the
// latest of these times, so that no real gap is longer than the reported gap.
func (j *Joins) See(now time.Duration, group string, lacking []Joiner) {
	g := j.groups[group]
	if g == nil {
		g = &joined{at: j.before}
		j.groups[group] = g
	}
	for _, had := range g.lack { // until now, also if the thread has the cookie by now, or ended
		j.Longest = max(j.Longest, now-had.since)
	}
	lacks := make(map[int]lack, len(lacking))
	for _, one := range lacking {
		had, known := g.lack[one.TID]
		if !known || !had.same(one) {
			had = lack{since: min(max(one.Start, g.at), now)}
		}
		had.start = max(had.start, one.Start)
		lacks[one.TID] = had
		j.Longest = max(j.Longest, now-had.since)
	}
	j.Lacking += len(lacks) - len(g.lack)
	g.at, g.lack = now, lacks
}
