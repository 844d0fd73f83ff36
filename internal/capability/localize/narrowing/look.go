package narrowing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	// Slack is how much memory may be on other nodes when memory nodes are narrowed: the write moves it.
	Slack = capability.Slack
	// mostRounds is how many times processes are listed, since each list may have new ones.
	mostRounds = 4
	// Longest is the longest expected time of the kernel's work on the threads of a group. A program that attaches a
	// process to a cpuset waits for it with the lock of all control groups (cpuset_post_attach in
	// kernel/cgroup/cpuset.c). Before Linux 6.18 each write of CPUs waits too (cpuset_write_resmask).
	Longest = time.Second
	// perThread is the cost of each thread: update_tasks_nodemask (kernel/cgroup/cpuset.c; cpuset_update_tasks_nodemask
	// since 6.12) examines the memory of its process again for each thread, one after the other (cpuset_migrate_mm_wq
	// is ordered). do_migrate_pages (mm/mempolicy.c) begins with lru_cache_disable (mm/swap.c), which waits for a grace
	// period and for all CPUs, even if no page moves: 1 to 3 ms.
	perThread = 2 * time.Millisecond
	// perThreadMore is perThread if no node is lost: no page table is walked. In a virtual machine it was 0.44 ms.
	perThreadMore = time.Millisecond / 2
	// perMapping is the cost of each mapping of each thread's process, beyond the mappings of ordinary programs:
	// mpol_rebind_mm (mm/mempolicy.c) visits all of them, also for more nodes. It is a guess from the kernel's code, on
	// the safe side, and not measured.
	perMapping       = 50 * time.Nanosecond
	ordinaryMappings = 1000
	// longestForRoom replaces Longest for a group that gets more nodes and has no room on its present nodes. Without
	// more nodes the kernel would kill the group for lack of memory that other nodes have.
	longestForRoom = 5 * time.Second
	// perPage is the cost of a page if a node is lost: queue_pages_range (mm/mempolicy.c) walks all page tables.
	perPage = 10 * time.Nanosecond
	// rest is the pause after each process, as a multiple of the time that its check took.
	rest = 3
)

// The obstacles to narrowing.
var (
	// ErrElsewhere means that more than Slack of the group's memory is on other nodes.
	ErrElsewhere = errors.New("of its memory are on other nodes")
	// ErrPolicy means that a process chose the nodes of its memory: the write would change the choice for good.
	ErrPolicy = errors.New("a memory policy would be rebound for good")
	// ErrRelative means that a process chose the nodes of its memory by their position among the nodes of its group.
	// This policy also keeps the group from getting more nodes: see pages.Policy.
	ErrRelative = errors.New("a memory policy has MPOL_F_RELATIVE_NODES, which some kernels fail to rebind")
	// ErrPinned means that memory is pinned for a device: the kernel would try each page in vain.
	ErrPinned = errors.New("memory is pinned for a device")
	// ErrTooLarge means that a mapping is so large that reading its policy would delay the process.
	ErrTooLarge = fmt.Errorf("the memory policy of a mapping above %d GiB takes too long to read", pages.LongestHeld>>30)
	// ErrNoRoom means that the remaining nodes lack room. They cannot accept the memory on other nodes, or the unused
	// part of the group's limit after the claims of other groups bound there. The kernel would kill the group for lack
	// of memory that other nodes have (CONSTRAINT_CPUSET in mm/oom_kill.c).
	ErrNoRoom = errors.New("no room on the nodes that stay")
	// ErrTooLong means that the kernel would examine the memory of the group for longer than Longest.
	ErrTooLong = errors.New("the write would take too long")
	// ErrGrows means that the group has new processes at every check.
	ErrGrows = errors.New("it starts processes faster than they can be looked at")
)

// look is one check of a group.
type look struct {
	*Looks

	group string
	to    cpuset.Set
	own   locality.Claim
	// leaves are the nodes that the group loses. If it is empty, no page moves (do_migrate_pages in mm/mempolicy.c).
	// Then only threads and policies are obstacles, and policies only if nodes change position (shifts).
	leaves    cpuset.Set
	shifts    bool
	elsewhere int64
	threads   int
	takes     time.Duration  // expected time of the kernel
	longest   time.Duration  // limit of takes
	seen      map[int]uint64 // start of each process, by id
}

// widens reports whether the group keeps all nodes that it has.
func (l *look) widens() bool { return l.leaves.IsEmpty() }

// look returns the obstacle to giving a group these memory nodes, nil for none.
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
		err = nil // its threads were counted; otherwise it would stay on nodes far from its CPUs for good
	}
	if err == nil {
		err = one.answers()
	}
	return err
}

// answers returns pages.ErrStuck if the memory map of a process is locked. The write would wait for it for good, with
// the lock of all cpusets (mpol_rebind_mm in mm/mempolicy.c, cpuset_write_resmask in kernel/cgroup/cpuset.c). All
// processes are asked again, also unchecked ones.
func (l *look) answers() error {
	all, err := l.opts.Groups.Processes(l.group)
	if err != nil && !errors.Is(err, fs.ErrPermission) { // processes that have no id here cannot be asked
		return fmt.Errorf("processes of %q: %w", l.group, err)
	}
	if err := pages.AllAnswer(l.opts.Kernel, all); err != nil {
		return fmt.Errorf("processes of %q: %w", l.group, err)
	}
	return nil
}

// rounds checks processes until none is new, and then the room.
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

// counted returns ErrTooLong if the group has too many threads. Threads without an id here count too.
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

// charged returns ErrElsewhere if too much of the group's charged memory is on other nodes.
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

// round checks the new processes, and reports whether there were any.
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

// process checks a new process and adds its memory on other nodes.
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

// policies checks the memory policies of the threads of a process, and counts the threads. It pauses after each thread,
// as after a process: the process can map nothing while the kernel counts its pages.
func (l *look) policies(ctx context.Context, p *pages.Process, mappings []pages.Mapping) (threads int, err error) {
	began := l.opts.Clock()
	all, err := p.Threads(mappings, func() error {
		err := pause(ctx, rest*(l.opts.Clock()-began))
		began = l.opts.Clock()
		return err
	})
	if bound := l.bound(p, all.Rebinds, all.Relative); bound != nil {
		return 0, bound // this matters more than an ended context
	}
	if err == nil && all.Assumed && !l.widens() {
		err = fmt.Errorf("process %d: %w", p.PID, ErrTooLarge)
	}
	return all.Count, err
}

// rebinds reports whether the write would change memory policies.
func (l *look) rebinds() bool { return l.shifts || !l.widens() }

// bound returns ErrRelative or ErrPolicy if a policy of a process is an obstacle.
func (l *look) bound(p *pages.Process, rebinds, relative bool) error {
	switch {
	case relative:
		return fmt.Errorf("process %d: %w", p.PID, ErrRelative)
	case rebinds && l.rebinds():
		return fmt.Errorf("process %d: %w", p.PID, ErrPolicy)
	}
	return nil
}

// pinned returns ErrPinned if a device holds memory of a process whose pages would move.
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

// mappings checks the mappings of a process with this number of threads.
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
			continue // too large to read, and none of its pages move
		case policy.Assumed:
			return fmt.Errorf("process %d: %w", p.PID, ErrTooLarge)
		}
		if err := l.bound(p, policy.Rebinds, policy.Relative); err != nil {
			return err
		}
		if policy.Start == last { // the mapping was made after the line was read
			continue
		}
		last = policy.Start
		if err := l.count(policy, threads); err != nil {
			return err
		}
	}
	return p.Alive()
}

// count adds a mapping to the memory on other nodes, and to the time that the kernel needs to find that memory for each
// thread. The kernel walks the page tables once for each node that the group loses (migrate_to_node in mm/mempolicy.c).
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

// room returns ErrNoRoom if one of the remaining nodes cannot accept the memory on other nodes. It also does so if all
// of them lack room for the unused part of the group's limit, after the claims of other groups bound to them.
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

// free returns how much a group that is bound to some nodes may use there, after the claims of other groups. The error
// is ErrNoRoom if one of the nodes cannot accept the memory on other nodes. If the room is enough by the known claims,
// the error names the unknown claims.
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

func (l *look) nodes() (nodes map[int]locality.NodeMemory, all cpuset.Set, err error) {
	nodes, err = mover.Present(l.opts.Kernel)
	for node := range nodes {
		all = all.Add(node)
	}
	return nodes, all, err
}

// claims returns what other groups may use of the memory nodes that they are bound to. The error names groups whose
// claim cannot be read and that may be bound to a node of this set; all is the nodes that have memory.
func (l *look) claims(of, all cpuset.Set) (known []locality.Claim, unknown error) {
	others := l.others(l.group)
	for _, group := range slices.Sorted(maps.Keys(others)) {
		claim, err := l.opts.Groups.Claim(group)
		if to := others[group]; !to.IsEmpty() {
			claim.Nodes = to
		}
		switch {
		case errors.Is(err, cgroup.ErrNoGroup): // the group ended
		case err == nil:
			known = append(known, claim)
		case claim.Nodes.IsEmpty(), !claim.Nodes.Intersect(of).IsEmpty() && !all.IsSubsetOf(claim.Nodes):
			unknown = errors.Join(unknown, fmt.Errorf("memory limit of %q: %w", group, err))
		}
	}
	return known, unknown
}

// pause waits for d. It returns an error if the context ended, even if d is 0 and both channels are ready.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err() //nolint:wrapcheck // nobody reads it: the agent ends
}
