package pin

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/capability/place/assignment"
	"github.com/berth-project/berth/internal/capability/place/lending"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/node/roster"
	"github.com/berth-project/berth/internal/value/unit"
)

// chooseEvery is how often cores are chosen for borrowing: each change moves threads away from their caches, and the
// use of one second says little.
const chooseEvery = 5 * time.Second

// borrowing has the measurements of pods with static-burst. Without such pods nothing is read.
type borrowing struct {
	host   *cgroup.Host
	lender *assignment.Assignment
	// above reads each second how often quotas ran out.
	above *roster.Above
	// states are the states of the borrowers, by name.
	states map[borrower]*width
	// spent is the CPU time of each CPU at the last choice of cores, chosen the time of that choice.
	spent  []unit.CPUSpent
	chosen time.Duration
}

// borrower names a container or, with a limit of the pod, all containers that share it.
type borrower struct{ pod, container string }

// width is the state of one borrower.
type width struct {
	law lending.Borrowing
	// id is the ID of the container. threads and usage are its group's at the last choice of cores; known is true once
	// they were read.
	id      string
	threads int
	usage   unit.CPUTime
	at      time.Duration
	known   bool
	used    unit.CPUs
}

func newBorrowing(host *cgroup.Host, cpus *assignment.Assignment) borrowing {
	return borrowing{host: host, lender: cpus, above: roster.NewAbove(host), states: map[borrower]*width{}}
}

// borrow measures the borrowers, and makes throttled borrowers return what they borrow. Every five seconds it chooses
// cores.
func (s *Sets) borrow(now time.Duration) {
	b := &s.borrowing
	all := b.lender.Borrowers()
	b.above.Round(now)
	if len(all) == 0 {
		if len(b.states) > 0 {
			clear(b.states)
			b.spent = nil
			b.lender.Lend(nil, nil)
		}
		return
	}
	use, err := b.look(s, now)
	if err != nil {
		s.opts.Fail("borrowed CPUs", err)
	}
	states := make(map[borrower]*width, len(all))
	loans := make([]lending.Loan, 0, len(all))
	for _, one := range all {
		name := borrower{one.PodUID, one.Container}
		state := b.states[name]
		if state == nil || state.id != one.ContainerID {
			state = &width{id: one.ContainerID}
		}
		states[name] = state
		loan, err := state.loan(b, now, one)
		if err != nil {
			s.opts.Fail("borrowed CPUs", err)
		}
		loans = append(loans, loan)
	}
	b.states = states
	b.lender.Lend(loans, use)
}

// look returns how busy each CPU was since the last choice of cores, by number. It returns nil while the cores stay:
// until there are two readings, and between two choices.
func (b *borrowing) look(s *Sets, now time.Duration) ([]unit.CPUs, error) {
	if b.spent != nil && now-b.chosen < chooseEvery {
		return nil, nil
	}
	spent, err := kernel.CPUsSpent(s.opts.Root)
	if err != nil {
		return nil, fmt.Errorf("which cores are used least: %w", err)
	}
	before, passed := b.spent, now-b.chosen
	b.spent, b.chosen = spent, now
	if before == nil {
		return nil, nil
	}
	use := make([]unit.CPUs, len(spent))
	for cpu := range use {
		if cpu < len(before) {
			use[cpu] = max(0, spent[cpu].Busy.Since(before[cpu].Busy).Seconds().Per(passed))
		}
	}
	return use, nil
}

// loan returns what the borrower may have now: only what is reserved, if its group cannot be read.
func (w *width) loan(b *borrowing, now time.Duration, one lending.Borrower) (lending.Loan, error) {
	loan := lending.Loan{PodUID: one.PodUID, Container: one.Container, Width: one.Reserved.Size(), Used: w.used}
	if b.chosen == now || !w.known {
		if err := w.measure(b, now, one.Groups[0]); err != nil {
			loan.Why = "what its group uses cannot be read"
			return loan, err
		}
		loan.Used = w.used
	}
	claim := lending.Claim{Reserved: loan.Width, Limit: one.Limit, Threads: w.threads}
	for _, group := range one.Groups {
		claim.Throttled += b.above.Throttled(group)
	}
	var next lending.Width
	w.law, next = w.law.Next(now, claim)
	loan.Width, loan.Why = next.CPUs, next.Why
	return loan, nil
}

// measure reads the number of threads and the use of the group. A missing group is no failure: its container ended.
func (w *width) measure(b *borrowing, now time.Duration, path string) error {
	group, err := b.host.Group(path)
	if errors.Is(err, cgroup.ErrNoGroup) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open group: %w", err)
	}
	defer group.Close()
	threads, threadsErr := b.host.Threads(group)
	usage, usageErr := group.Usage()
	if err := errors.Join(threadsErr, usageErr); err != nil {
		return fmt.Errorf("measure group: %w", err)
	}
	if w.used = 0; w.known && now-w.at > 0 {
		w.used = max(0, usage.Since(w.usage).Seconds().Per(now-w.at))
	}
	w.threads, w.usage, w.at, w.known = threads, usage, now, true
	return nil
}
