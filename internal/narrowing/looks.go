package narrowing

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/locality"
	"github.com/berth-project/berth/internal/mover"
	"github.com/berth-project/berth/internal/pages"
)

const (
	// fresh is how long counts what a look found: pages come and go.
	fresh = 5 * time.Second
	// firstAgain and lastAgain are how long a group that may not be narrowed is left alone.
	firstAgain, lastAgain = time.Minute, time.Hour
	// forgotten is when a question that nobody asks any more is dropped.
	forgotten = time.Minute
)

// errNotLooked says that the group was not looked at yet.
var errNotLooked = errors.New("its pages were not looked at yet")

// Groups is what looks ask about control groups.
type Groups interface {
	// Processes returns the processes in a group and below it.
	Processes(group string) ([]int, error)
	// Memory is where the memory is that a group is charged for.
	Memory(group string) (locality.Memory, error)
	// Claim is which memory nodes a group has, and what it may still take of them by its limit. A group
	// that is not there any more is cgroup.ErrNoGroup. With another error it has the nodes, if they are known.
	Claim(group string) (locality.Claim, error)
}

// Options are what Looks work with. Every field is required.
type Options struct {
	Kernel pages.Kernel
	Groups Groups
	// Threads counts the threads in a group and below it, those with no id here as well.
	Threads func(group string) (int, error)
	// Clock is monotonic.
	Clock func() time.Duration
}

// Looks look at groups whose memory nodes are to change. Its methods may be called from any
// goroutine. Nil Looks hold nothing back.
type Looks struct {
	opts Options
	wake chan struct{}

	mu         sync.Mutex
	asked      map[question]*answer
	containers []capability.Container // that run
}

// question is whether the memory nodes of a group may become these. There may be two about one group: it may not be
// narrowed to the nodes of its CPUs, and is to get these beside those that it has.
type question struct {
	group string
	to    cpuset.Set
}

// answer is what a look found.
type answer struct {
	// at is when it was asked last, looked when a look ended, and next when one is due.
	at, looked, next time.Duration
	again            time.Duration
	// err is what is in the way, nil for nothing.
	err error
}

// OnHost returns Looks at the running host, of which nothing was asked.
func OnHost(root *hostfs.Root, host *cgroup.Host, clock func() time.Duration) *Looks {
	return New(Options{
		Kernel: pages.Live(root), Groups: groups{mover.OfHost(host), host}, Clock: clock,
		Threads: func(group string) (int, error) { return threads(host, group) },
	})
}

// New returns Looks of which nothing was asked.
func New(o Options) *Looks {
	return &Looks{opts: o, wake: make(chan struct{}, 1), asked: map[question]*answer{}}
}

// Take takes which containers run: those that are bound to memory nodes may fill these up to their limits.
// The list must not change afterwards.
func (l *Looks) Take(running []capability.Container) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.containers = running
}

// May is nil where the memory nodes of a group may become these now, else what is in the
// way. It never waits: whoever gets an error asks again later.
func (l *Looks) May(group string, to cpuset.Set) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.opts.Clock()
	a := l.asked[question{group, to}]
	if a == nil {
		a = &answer{next: now, err: errNotLooked}
		l.asked[question{group, to}] = a
	}
	a.at = now
	if a.err == nil && now-a.looked > fresh {
		a.err, a.next = errNotLooked, now
	}
	if now >= a.next {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	return a.err
}

// Within answers as May does for who can wait until a context ends: it looks at the group itself.
func (l *Looks) Within(ctx context.Context) (may func(group string, to cpuset.Set) error) {
	return func(group string, to cpuset.Set) error {
		if l == nil {
			return nil
		}
		return l.look(ctx, group, to)
	}
}

// Run looks until the context ends, and then ends within one line of numa_maps, or half a minute.
func (l *Looks) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		}
		for q, due := l.due(); due && ctx.Err() == nil; q, due = l.due() {
			l.took(q, l.look(ctx, q.group, q.to))
		}
	}
}

// due returns the question that waits for a look, if any, and drops those that nobody asks any more.
func (l *Looks) due() (q question, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.opts.Clock()
	maps.DeleteFunc(l.asked, func(_ question, a *answer) bool { return now-a.at > forgotten })
	inOrder := func(a, b question) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.to.String(), b.to.String()))
	}
	for _, q := range slices.SortedFunc(maps.Keys(l.asked), inOrder) {
		if now >= l.asked[q].next {
			return q, true
		}
	}
	return question{}, false
}

// took takes what a look found.
func (l *Looks) took(q question, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.asked[q]
	if a == nil {
		return
	}
	a.err, a.looked = err, l.opts.Clock()
	if err == nil {
		a.next, a.again = a.looked+lastAgain, 0 // May asks for the next one.
		return
	}
	a.again = min(max(2*a.again, firstAgain), lastAgain)
	a.next = a.looked + a.again
}

// others returns the groups besides one that may be bound to memory nodes. With each are the nodes that it
// was allowed just now, and may not have been given yet; none for those that it has.
func (l *Looks) others(group string) map[string]cpuset.Set {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]cpuset.Set{}
	for i := range l.containers {
		if c := &l.containers[i]; c.Bound && c.Group != "" {
			all[c.Group] = cpuset.Set{}
		}
	}
	now := l.opts.Clock()
	for q, a := range l.asked {
		if before := all[q.group]; a.err == nil && now-a.looked <= fresh && (before.IsEmpty() || q.to.Size() < before.Size()) {
			all[q.group] = q.to // of two answers the one that takes more of a node
		}
	}
	delete(all, group)
	return all
}
