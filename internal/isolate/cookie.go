package isolate

import "time"

// Sharing is what decides whether the threads of offline work share a core scheduling cookie,
// which keeps them off every core that an online thread is on.
type Sharing struct {
	// Koordlet is the pod of another node agent that gives out cookies, "" for none.
	Koordlet string
	// Missing is why the kernel has no core scheduling, "" where it has.
	Missing string
	// Identity says that the kernel has Group Identity, or that it is not known whether.
	Identity bool
	// Cores says that offline work has cores of its own.
	Cores bool
}

// Refused returns why there is no cookie, "" where there is one. With needless none is needed.
//
// A kernel that has Group Identity gets none, whether or not a group uses it: with both, CPUs lock
// up for good, and another program may give a group an identity at any time.
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

// Joiner is a thread without the cookie: it joined a group, and no thread that has the cookie
// forked it.
type Joiner struct {
	TID int
	// Start is when it was started, in time since boot, 0 where that was not asked.
	Start time.Duration
}

// Joins measures how long threads ran in groups of offline work before they had the cookie. The
// zero value has seen nothing. Times are since boot.
type Joins struct {
	// Lacking is how many threads had none at the last looks, and Longest for how long one was
	// without it at most.
	Lacking int
	Longest time.Duration

	// round is when the last round was, and before when the one before that.
	round, before time.Duration
	groups        map[string]*joined
}

// joined are the threads of one group that have no cookie.
type joined struct {
	at   time.Duration // of the last look
	lack map[int]lack  // by thread
}

// lack is a thread without the cookie: when it was started, 0 for unknown, and since when it lacks it.
type lack struct{ start, since time.Duration }

// same says that it is the thread that has its id now, as far as is known: a gap that two threads share is
// reported too long, never too short.
func (l lack) same(one Joiner) bool { return l.start == 0 || one.Start == 0 || l.start == one.Start }

// Round begins a round of looks, of which one had all groups that are offline work's. It forgets
// all groups but those that are still there.
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

// See takes the threads of a group that have no cookie, within a round.
//
// When a thread joined is not on record. It was after the thread started, after the look before
// this one, which did not find it, and a group that is new to this round was no concern of the
// cookie at the last one. The latest of these is taken, so that no gap is longer than what is
// reported.
func (j *Joins) See(now time.Duration, group string, lacking []Joiner) {
	g := j.groups[group]
	if g == nil {
		g = &joined{at: j.before}
		j.groups[group] = g
	}
	for _, had := range g.lack { // until now, also if it has the cookie by now, or ended
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
