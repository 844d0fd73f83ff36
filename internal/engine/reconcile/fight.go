package reconcile

import "time"

const (
	// fightRest is how long another writer must be quiet for its next value to count as the first.
	fightRest = 2 * time.Minute
	// fightFrom is how many values in a row deserve a log message: a few daemon-reloads do not.
	fightFrom = 10
)

// fight counts how often Berth overwrote a value that is never a conflict (isExpected, isAnswer). Otherwise nobody
// would notice that another program writes it again and again, and has it in effect in between. The zero value means
// never.
type fight struct {
	times int
	last  time.Duration
}

// again counts one overwrite, and reports whether to log it: at the tenth in a row, the hundredth and so on.
func (f *fight) again(now time.Duration) bool {
	if now-f.last >= fightRest {
		f.times = 0
	}
	f.times, f.last = f.times+1, now
	at := fightFrom
	for at < f.times {
		at *= 10
	}
	return at == f.times
}
