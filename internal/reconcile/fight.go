package reconcile

import "time"

const (
	// fightRest is how long another writer has to rest for its next value to count as the first.
	fightRest = 2 * time.Minute
	// fightFrom is how many values in a row are worth a word: some daemon-reloads are not.
	fightFrom = 10
)

// fight counts how often Berth wrote over a value that is no conflict however often it comes (isExpected, isAnswer).
// Nobody would know otherwise that another program writes it again and again, and has it in effect meanwhile. The zero
// value is one that never came.
type fight struct {
	times int
	last  time.Duration
}

// again counts one more, and reports whether the log is to say so: at the tenth in a row, the hundredth and so on.
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
