package narrowing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/locality"
	"github.com/berth-project/berth/internal/pages"
)

const (
	// Slack is how much memory may be elsewhere when memory nodes are narrowed: the write moves it.
	Slack = 64 << 20
	// mostRounds is how many times processes are listed, since there may be new ones each time.
	mostRounds = 4
	// Longest is how long the kernel may be about the threads of a group, as far as that can be foreseen: whoever
	// attaches a process to a cpuset waits for it with the lock of all control groups (cpuset_post_attach in
	// kernel/cgroup/cpuset.c), and before Linux 6.18 each write of CPUs does (cpuset_write_resmask).
	Longest = time.Second
	// perThread is what each thread costs: update_tasks_nodemask (kernel/cgroup/cpuset.c; cpuset_update_tasks_nodemask
	// since 6.12) has the memory of its process looked at for each anew, one after the other (cpuset_migrate_mm_wq is
	// ordered). do_migrate_pages (mm/mempolicy.c) begins with lru_cache_disable (mm/swap.c), which waits for a grace
	// period and for all CPUs, also where no page moves: 1 to 3 ms.
	perThread = 2 * time.Millisecond
	// perThreadMore is that where no node is lost: no page table is walked. In a virtual machine it was 0.44 ms.
	perThreadMore = time.Millisecond / 2
	// perMapping is what each mapping of each thread's process costs, besides those that ordinary programs have:
	// mpol_rebind_mm (mm/mempolicy.c) goes through all of them, for more nodes too. It is a guess from its code, on the
	// safe side, and not measured.
	perMapping       = 50 * time.Nanosecond
	ordinaryMappings = 1000
	// longestForRoom is Longest of a group that gets more nodes and has no room on its own: it would be killed for lack
	// of memory that others have.
	longestForRoom = 5 * time.Second
	// perPage is what a page costs where a node is lost: queue_pages_range (mm/mempolicy.c) walks all page tables.
	perPage = 10 * time.Nanosecond
	// rest is how many times as long as a look at a process took it waits for the next one.
	rest = 3
)

// What is in the way of narrowing.
var (
	// ErrElsewhere says that more than Slack of its memory is on other nodes.
	ErrElsewhere = errors.New("of its memory are on other nodes")
	// ErrPolicy says that a process chose the nodes of its memory: the write would change the choice
	// for good.
	ErrPolicy = errors.New("a memory policy would be rebound for good")
	// ErrRelative says that a process numbers the nodes of its memory among those of its group. Such a policy keeps
	// the group from getting more nodes, too: see pages.Policy.
	ErrRelative = errors.New("a memory policy has MPOL_F_RELATIVE_NODES, which some kernels fail to rebind")
	// ErrPinned says that memory is pinned for a device: the kernel would try each page in vain.
	ErrPinned = errors.New("memory is pinned for a device")
	// ErrTooLarge says that a mapping is so large that reading its policy would hold the process up.
	ErrTooLarge = fmt.Errorf("the memory policy of a mapping above %d GiB takes too long to read", pages.LongestHeld>>30)
	// ErrNoRoom says that the nodes that stay have no room for what is elsewhere, or for what the
	// group may still take by its limit beside others that are bound to them: it would be killed for lack of memory that
	// other nodes have (CONSTRAINT_CPUSET in mm/oom_kill.c).
	ErrNoRoom = errors.New("no room on the nodes that stay")
	// ErrTooLong says that the kernel would look at the memory of the group for longer than Longest.
	ErrTooLong = errors.New("the write would take too long")
	// ErrGrows says that the group has new processes whenever it is looked at.
	ErrGrows = errors.New("it starts processes faster than they can be looked at")
)

// look is one look at a group.
type look struct {
	*Looks

	group string
	to    cpuset.Set
	own   locality.Claim
	// leaves are the nodes that the group loses. Where there are none no page moves (do_migrate_pages in
	// mm/mempolicy.c): threads and policies alone are in the way, and policies only where places are others.
	leaves    cpuset.Set
	shifts    bool
	elsewhere int64
	threads   int
	takes     time.Duration  // what the kernel would, as far as is known
	longest   time.Duration  // that it may
	seen      map[int]uint64 // the start of each process, by id
}

// widens says that the group keeps all nodes that it has.
func (l *look) widens() bool { return l.leaves.IsEmpty() }

// look returns what is in the way of narrowing a group to these memory nodes, nil for nothing.
func (l *Looks) look(ctx context.Context, group string, to cpuset.Set) error {
	if err := pages.MayEnd(l.opts.Kernel); err != nil {
		return err
	}
	own, err := l.opts.Groups.Claim(group)
	if err != nil {
		return fmt.Errorf("memory nodes and limit of %q: %w", group, err)
	}
	has := own.Nodes
	one := &look{
		Looks: l, group: group, to: to, own: own, leaves: has.Difference(to), shifts: pages.Shifts(has, to), longest: Longest, seen: map[int]uint64{},
	}
	if err := one.counted(); err != nil {
		return err
	}
	if err := one.charged(); err != nil {
		return err
	}
	if err = one.rounds(ctx); !one.rebinds() && (errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrGrows) || errors.Is(err, ctx.Err())) {
		err = nil // its threads were counted, and else it would stay on nodes far from its CPUs for good
	}
	if err == nil {
		err = one.answers()
	}
	return err
}

// answers is pages.ErrStuck where the memory map of a process is locked: the write would wait for it with the lock of
// all cpusets (mpol_rebind_mm in mm/mempolicy.c, cpuset_write_resmask in kernel/cgroup/cpuset.c), for good. It asks
// all processes again, also those that no look came to.
func (l *look) answers() error {
	all, err := l.opts.Groups.Processes(l.group)
	if err != nil && !errors.Is(err, fs.ErrPermission) { // Those that have no id here cannot be asked.
		return fmt.Errorf("processes of %q: %w", l.group, err)
	}
	if err := pages.AllAnswer(l.opts.Kernel, all); err != nil {
		return fmt.Errorf("processes of %q: %w", l.group, err)
	}
	return nil
}

// rounds looks at processes until none is new, and then at the room.
func (l *look) rounds(ctx context.Context) error {
	for range mostRounds {
		more, err := l.round(ctx)
		if err != nil {
			return err
		}
		if !more {
			return l.room()
		}
	}
	return ErrGrows
}

// counted is ErrTooLong where the group has too many threads, whatever memory they have. They count also where
// they have no id here.
func (l *look) counted() (err error) {
	if l.threads, err = l.opts.Threads(l.group); err != nil {
		return fmt.Errorf("threads of %q: %w", l.group, err)
	}
	each := perThread
	if l.widens() {
		each = perThreadMore
	}
	l.takes = time.Duration(l.threads) * each
	return l.bounded()
}

// bounded is ErrTooLong where the kernel would take too long.
func (l *look) bounded() error {
	if l.takes <= l.longest {
		return nil
	}
	long := fmt.Errorf("%d threads: %w", l.threads, ErrTooLong)
	if !l.widens() || l.takes > longestForRoom {
		return long
	}
	if room, err := l.free(l.own.Nodes); err != nil || room >= l.own.Bytes {
		return errors.Join(long, err)
	}
	l.longest = longestForRoom
	return nil
}

// charged is ErrElsewhere where too much of what the group is charged for is elsewhere.
func (l *look) charged() error {
	if l.widens() {
		return nil
	}
	charged, err := l.opts.Groups.Memory(l.group)
	if err != nil {
		return fmt.Errorf("memory of %q: %w", l.group, err)
	}
	if remote := charged.Remote(l.to); remote > Slack {
		return fmt.Errorf("%d MiB %w", remote>>20, ErrElsewhere)
	}
	return nil
}

// round looks at the processes that are new, and says whether there were any.
func (l *look) round(ctx context.Context) (more bool, err error) {
	all, err := l.opts.Groups.Processes(l.group)
	if err != nil {
		return false, fmt.Errorf("processes of %q: %w", l.group, err)
	}
	for _, pid := range all {
		began := l.opts.Clock()
		isNew, err := l.process(ctx, pid)
		switch {
		case errors.Is(err, pages.ErrExited):
			continue
		case err != nil:
			return true, err
		case isNew:
			more = true
			if err := pause(ctx, rest*(l.opts.Clock()-began)); err != nil {
				return true, err
			}
		}
	}
	return more, nil
}

// process adds up what a process has elsewhere, unless it was looked at.
func (l *look) process(ctx context.Context, pid int) (isNew bool, err error) {
	p, err := pages.Open(l.opts.Kernel, pid)
	if err != nil || l.seen[pid] == p.Start {
		return false, err
	}
	if err := pages.Answers(l.opts.Kernel, pid); err != nil {
		return true, err
	}
	mappings, err := p.Mappings()
	if err != nil {
		return true, err
	}
	if err := l.pinned(p, mappings); err != nil {
		return true, err
	}
	threads, err := l.policies(ctx, p, mappings)
	if err != nil {
		return true, err
	}
	l.takes += time.Duration(min(threads, l.threads)*max(0, len(mappings)-ordinaryMappings)) * perMapping
	if err := l.bounded(); err != nil {
		return true, err
	}
	if err := l.mappings(p, mappings, threads); err != nil {
		return true, err
	}
	l.seen[pid] = p.Start
	return true, nil
}

// policies looks at those of the threads of a process, and counts them. After each it rests, as after a process: the
// process can map nothing while the kernel counts its pages.
func (l *look) policies(ctx context.Context, p *pages.Process, mappings []pages.Mapping) (threads int, err error) {
	began := l.opts.Clock()
	all, err := p.Threads(mappings, func() error {
		err := pause(ctx, rest*(l.opts.Clock()-began))
		began = l.opts.Clock()
		return err
	})
	if bound := l.bound(p, all.Rebinds, all.Relative); bound != nil {
		return 0, bound // which counts more than that the time is over
	}
	if err == nil && all.Assumed && !l.widens() {
		err = fmt.Errorf("process %d: %w", p.PID, ErrTooLarge)
	}
	return all.Count, err
}

// rebinds says that memory policies would become others.
func (l *look) rebinds() bool { return l.shifts || !l.widens() }

// bound is ErrRelative or ErrPolicy where a policy of a process is in the way.
func (l *look) bound(p *pages.Process, rebinds, relative bool) error {
	switch {
	case relative:
		return fmt.Errorf("process %d: %w", p.PID, ErrRelative)
	case rebinds && l.rebinds():
		return fmt.Errorf("process %d: %w", p.PID, ErrPolicy)
	}
	return nil
}

// pinned is ErrPinned where a device holds memory of a process whose pages would move.
func (l *look) pinned(p *pages.Process, mappings []pages.Mapping) error {
	if l.widens() {
		return nil
	}
	pinned, err := p.Pinned()
	switch device := func(m pages.Mapping) bool { return m.Kind == pages.Device }; {
	case err != nil:
		return err
	case pinned || slices.ContainsFunc(mappings, device):
		return fmt.Errorf("process %d: %w", p.PID, ErrPinned)
	}
	return nil
}

// mappings looks at the mappings of a process with so many threads.
func (l *look) mappings(p *pages.Process, mappings []pages.Mapping, threads int) error {
	policies, err := p.Policies(mappings)
	if err != nil {
		return err
	}
	defer policies.Close()
	last := uint64(0)
	for _, m := range mappings {
		policy, err := policies.At(m.Start)
		switch {
		case err != nil:
			return err
		case policy.Assumed && l.widens():
			continue // too large to read, and nothing of it moves
		case policy.Assumed:
			return fmt.Errorf("process %d: %w", p.PID, ErrTooLarge)
		}
		if err := l.bound(p, policy.Rebinds, policy.Relative); err != nil {
			return err
		}
		if policy.Start == last { // It was made after the line was read.
			continue
		}
		last = policy.Start
		if err := l.count(policy, threads); err != nil {
			return err
		}
	}
	return p.Alive()
}

// count adds a mapping to what is elsewhere, and to how long the kernel takes to find that for each thread: it walks
// the page tables once for each node that the group loses (migrate_to_node in mm/mempolicy.c).
func (l *look) count(mapping pages.Policy, threads int) error {
	if l.widens() {
		return nil
	}
	for node, bytes := range mapping.Bytes {
		if !l.to.Contains(node) {
			l.elsewhere += bytes
		}
		walked := bytes / max(mapping.PageSize, pages.Size) * int64(min(threads, l.threads)*l.leaves.Size())
		l.takes += time.Duration(walked) * perPage
	}
	if l.elsewhere > Slack {
		return fmt.Errorf("more than %d MiB %w", Slack>>20, ErrElsewhere)
	}
	return l.bounded()
}

// room is ErrNoRoom where one of the nodes that stay cannot take what is elsewhere, or all of them what
// the group may still take, besides what others may that are bound to them.
func (l *look) room() error {
	if l.widens() {
		return nil
	}
	room, err := l.free(l.to)
	if err != nil {
		return err
	}
	if room < l.own.Bytes {
		return fmt.Errorf("%w: %d MiB, the group may still take %d by its limit", ErrNoRoom, room>>20, l.own.Bytes>>20)
	}
	return nil
}

// free is how much a group that is bound to some nodes may take there, besides what others may. The error is ErrNoRoom
// where one of them cannot take what is elsewhere. Where the room is enough by the claims that are known, it says which
// are not.
func (l *look) free(of cpuset.Set) (room int64, err error) {
	nodes, all, err := l.nodes()
	if err != nil {
		return 0, err
	}
	others, unknown := l.claims(of, all)
	taken := locality.Unused(others, all)
	for node := range of.All() {
		memory, has := nodes[node]
		if !has {
			return 0, fmt.Errorf("node %d: %w", node, pages.ErrNode)
		}
		if !memory.Allows(l.elsewhere) {
			return 0, fmt.Errorf("node %d: %w", node, ErrNoRoom)
		}
		room += max(memory.Room(taken.At(node)), 0)
	}
	if l.own.Bytes > 0 && room >= l.own.Bytes {
		return room, unknown
	}
	return room, nil
}

// nodes returns the memory of all nodes that have some.
func (l *look) nodes() (nodes map[int]locality.NodeMemory, all cpuset.Set, err error) {
	zones, err := pages.ReadZones(l.opts.Kernel)
	if err != nil {
		return nil, cpuset.Set{}, err
	}
	nodes = map[int]locality.NodeMemory{}
	for node := range zones {
		switch now, err := pages.ReadNode(l.opts.Kernel, node, zones[node]); {
		case err == nil:
			nodes[node], all = locality.NodeMemory(now), all.Add(node)
		case !errors.Is(err, pages.ErrNode):
			return nil, cpuset.Set{}, err
		}
	}
	return nodes, all, nil
}

// claims returns what other groups may take of the memory nodes that they are bound to. The error names those that may be
// bound to a node of this set, and whose claim cannot be read; all are the nodes that have memory.
func (l *look) claims(of, all cpuset.Set) (known []locality.Claim, unknown error) {
	others := l.others(l.group)
	for _, group := range slices.Sorted(maps.Keys(others)) {
		claim, err := l.opts.Groups.Claim(group)
		if to := others[group]; !to.IsEmpty() {
			claim.Nodes = to
		}
		switch {
		case errors.Is(err, cgroup.ErrNoGroup): // It ended.
		case err == nil:
			known = append(known, claim)
		case claim.Nodes.IsEmpty(), !claim.Nodes.Intersect(of).IsEmpty() && !all.IsSubsetOf(claim.Nodes):
			unknown = errors.Join(unknown, fmt.Errorf("memory limit of %q: %w", group, err))
		}
	}
	return known, unknown
}

// pause waits, and says whether the context ended: of no time at all either, when both channels are ready.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err() //nolint:wrapcheck // nobody reads it: the agent ends
}
