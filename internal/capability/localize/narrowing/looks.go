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

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	// fresh is how long a result is valid: pages come and go.
	fresh = 5 * time.Second
	// firstAgain and lastAgain bound the time before a group that may not be narrowed is checked again.
	firstAgain, lastAgain = time.Minute, time.Hour
	// forgotten is when a question that nobody asks any more is dropped.
	forgotten = time.Minute
)

// errNotLooked means that the group was not checked yet.
var errNotLooked = errors.New("its pages were not looked at yet")

// Groups reads control groups for the checks.
type Groups interface {
	// Processes returns the processes in a group and below it.
	Processes(group string) ([]int, error)
	// Memory returns the memory that a group is charged for, by node.
	Memory(group string) (locality.Memory, error)
	// Claim returns the memory nodes of a group, and how much it may still use of them by its limit. The error is
	// cgroup.ErrNoGroup if the group has ended. With another error the claim has the nodes, if they are known.
	Claim(group string) (locality.Claim, error)
}

// Options configure Looks. Every field is required.
type Options struct {
	Kernel pages.Kernel
	Groups Groups
	// Threads counts the threads in a group and below it, also threads without an id here.
	Threads func(group string) (int, error)
	// Clock is monotonic.
	Clock func() time.Duration
}

// Looks checks groups whose memory nodes are about to change. Its methods may be called from any goroutine. A nil Looks
// allows everything.
type Looks struct {
	opts Options
	wake chan struct{}

	mu         sync.Mutex
	asked      map[question]*answer
	containers []observed.Workload // running containers
}

// question asks whether the memory nodes of a group may become these nodes. A group may have two questions: whether it
// may be narrowed to the nodes of its CPUs, and whether it may get these nodes in addition to its present nodes.
type question struct {
	group string
	to    cpuset.Set
}

type answer struct {
	// at is the time of the last question, looked the end of the last check, and next the time of the next check.
	at, looked, next time.Duration
	again            time.Duration
	// err is the obstacle, nil for none.
	err error
}

// OnHost returns Looks for the running host, without questions.
func OnHost(root *hostfs.Root, host *cgroup.Host, clock func() time.Duration) *Looks {
	return New(Options{
		Kernel: pages.Live(root), Groups: groups{mover.OfHost(host), host}, Clock: clock,
		Threads: func(group string) (int, error) { return threads(host, group) },
	})
}

// New returns Looks without questions.
func New(o Options) *Looks {
	return &Looks{opts: o, wake: make(chan struct{}, 1), asked: map[question]*answer{}}
}

// Take records the running containers: those that are bound to memory nodes may fill these nodes up to their limits.
// The list must not change afterwards.
func (l *Looks) Take(running []observed.Workload) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.containers = running
}

// May returns nil if the memory nodes of a group may become these nodes now, otherwise the obstacle. It never waits: a
// caller that gets an error asks again later.
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

// Within answers as May does, for a caller that can wait until a context ends: it checks the group itself.
func (l *Looks) Within(ctx context.Context) (may func(group string, to cpuset.Set) error) {
	return func(group string, to cpuset.Set) error {
		if l == nil {
			return nil
		}
		return l.look(ctx, group, to)
	}
}

// Run checks groups until the context ends. It then returns within one line of numa_maps, or half a minute.
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

// due returns a question that waits for a check, if any, and drops questions that nobody asks any more.
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

func (l *Looks) took(q question, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.asked[q]
	if a == nil {
		return
	}
	a.err, a.looked = err, l.opts.Clock()
	if err == nil {
		a.next, a.again = a.looked+lastAgain, 0 // May requests the next check
		return
	}
	a.again = min(max(2*a.again, firstAgain), lastAgain)
	a.next = a.looked + a.again
}

// others returns the groups other than group that may be bound to memory nodes. Each has the nodes that it was just
// allowed, and may not have been given yet; an empty set means its present nodes.
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
			all[q.group] = q.to // of two answers, the one that uses more of a node
		}
	}
	delete(all, group)
	return all
}
