package mover

import (
	"cmp"
	"context"
	"errors"
	"math/bits"
	"slices"

	"github.com/berth-project/berth/internal/locality"
	"github.com/berth-project/berth/internal/pages"
)

// mostRounds bounds how often the processes of a group are listed again: a fork storm has
// new ones each time.
const mostRounds = 32

// lookShare is how much of its turn an order uses up by looking at memory that does not
// move: one part of so many.
const lookShare = 4

// page is one page on a node from which it should move. It is small: there are lists of 65,536.
type page struct {
	address uint64
	node    int32
	order   uint8 // It is 1<<order base pages large.
	blocked bool  // a target did not take it for want of a free block of its size
	shared  bool  // of shared memory that other processes have mapped too
}

// base is how many base pages it has, and size how many bytes.
func (g page) base() int64 { return 1 << g.order }
func (g page) size() int64 { return pages.Size << g.order }

// lot is equal for pages of which a call may move any, and greater for larger pages.
func (g page) lot() int {
	lot := int(g.order)<<32 | int(g.node)<<1
	if g.shared {
		lot |= 1
	}
	return lot
}

// walk is where a pass stands in the group.
type walk struct {
	done   map[int]uint64 // start times of the processes that were walked, by id
	todo   []int
	rounds int
	stuck  int // processes that did not answer

	pid      int
	process  *pages.Process
	mappings []pages.Mapping
	at       int    // mapping
	from     uint64 // address in it, 0 for its start
	policies *pages.Policies
	blocks   *pages.Blocks // nil until it is asked for
	pins     bool
	asked    bool            // for pins
	held     map[uint64]bool // mappings that a device holds, by where they start
	seen     pages.Seen
}

// leave ends the walk of a process.
func (w *walk) leave() {
	if w.policies != nil {
		w.policies.Close()
	}
	*w = walk{done: w.done, todo: w.todo, rounds: w.rounds, stuck: w.stuck, seen: w.seen}
}

// mapping returns that in which a page is.
func (w *walk) mapping(g page) pages.Mapping {
	i, _ := slices.BinarySearchFunc(w.mappings, g.address, func(m pages.Mapping, a uint64) int {
		if m.End <= a {
			return -1
		}
		return 1
	})
	return w.mappings[i]
}

// hold remembers the mappings of pages of which a call moved none, and that a device may hold. Another try
// would stop who uses them once more, and move nothing.
func (w *walk) hold(lists ...[]page) {
	if w.held == nil {
		w.held = map[uint64]bool{}
	}
	for _, list := range lists {
		for _, g := range list {
			w.held[w.mapping(g).Start] = true
		}
	}
}

// spare appends the pages of a list that are in such mappings to others, and returns the rest.
func (w *walk) spare(held, list []page) (all, rest []page) {
	if len(w.held) == 0 {
		return held, list
	}
	for _, g := range list {
		if w.held[w.mapping(g).Start] {
			held = append(held, g)
		} else {
			rest = append(rest, g)
		}
	}
	return held, rest
}

// collect walks until there are enough pages for a call, or to the end of a process. It says
// whether there is more to walk.
func (p *pass) collect(ctx context.Context) (bool, error) {
	w, want := &p.walk, p.pace.Ahead()
	p.kept.batch = slices.Grow(p.kept.batch[:0], want+pages.Stretch/pages.Size)
	p.batch = p.kept.batch
	if w.process == nil {
		if more, err := p.enter(); !more || err != nil {
			return more, err
		}
	}
	for w.at < len(w.mappings) && len(p.batch) < want && p.budget > 0 {
		if p.canceled(ctx) {
			return true, ErrCanceled
		}
		if err := p.look(); err != nil {
			return true, err
		}
	}
	if p.kept.batch = p.batch; w.at == len(w.mappings) && len(p.batch) == 0 {
		w.leave()
	}
	return true, nil
}

// enter begins with the next process that was not walked. Without one the walk is over.
func (p *pass) enter() (bool, error) {
	w := &p.walk
	for {
		if len(w.todo) == 0 {
			if more, err := p.processes(); !more || err != nil {
				return false, err
			}
		}
		w.pid, w.todo = w.todo[0], w.todo[1:]
		process, err := pages.Open(p.m.opts.Kernel, w.pid)
		if err == nil && w.done[w.pid] == process.Start {
			continue
		}
		if err != nil {
			w.done[w.pid] = 0 // and no process of that id is opened again until one can be
			return true, err
		}
		w.done[w.pid], w.process = process.Start, process
		w.mappings, err = process.Mappings()
		return true, err
	}
}

// processes lists the processes of the group, and says whether there are any that were not walked.
func (p *pass) processes() (bool, error) {
	w := &p.walk
	all, err := p.m.opts.Groups.Processes(p.order.Group)
	if err != nil {
		return false, err
	}
	w.rounds++
	if w.rounds > mostRounds {
		p.report.warn("new processes in each of %d rounds: the last ones were not walked", mostRounds)
		return false, nil
	}
	// A process that was walked may have ended, and its id be another's: then it is new.
	w.todo = slices.DeleteFunc(all, func(pid int) bool {
		start, walked := w.done[pid]
		if !walked {
			return false
		}
		now, err := pages.Open(p.m.opts.Kernel, pid)
		return err != nil || now.Start == start
	})
	return len(w.todo) > 0, nil
}

// look looks at the next stretch of a mapping, and adds to the batch what has to move.
func (p *pass) look() error {
	w := &p.walk
	m := &w.mappings[w.at]
	from, size := max(w.from, m.Start), int64(pages.Size)
	if m.Kind == pages.Huge {
		policy, err := p.policy(m.Start)
		if err != nil {
			return err
		}
		size = max(cmp.Or(policy.PageSize, m.PageSize), pages.HugeSize)
	}
	next, err := w.process.Look(*m, from, size, &w.seen)
	if err != nil {
		return err
	}
	p.budget -= int64(next-from) / lookShare
	if again, err := p.take(m, size); again || err != nil {
		return err
	}
	if w.from = next; next >= m.End {
		w.at, w.from = w.at+1, 0
	}
	return nil
}

// take adds the pages that were seen on other nodes to the batch, or says why they stay. It
// says whether it has to be looked at again, because the mapping is of a pool.
func (p *pass) take(m *pages.Mapping, size int64) (again bool, err error) {
	w := &p.walk
	each, order := size/pages.Size, uint8(bits.Len64(uint64(size/pages.Size))-1)
	var policy pages.Policy
	if i := slices.IndexFunc(w.seen.Nodes, p.remote); i >= 0 {
		if policy, err = p.policy(m.Start); err != nil {
			return false, err
		}
		if policy.Huge && m.Kind != pages.Huge {
			m.Kind = pages.Huge
			return true, nil
		}
	}
	p.report.Found += w.seen.Swapped
	p.report.leave(locality.LeftSwapped, w.seen.Swapped)
	for i, node := range w.seen.Nodes {
		if !p.remote(node) {
			continue
		}
		p.report.Found += each
		switch {
		case policy.Own:
			p.report.leave(locality.LeftPolicy, each)
		case len(p.targets[int(node)]) == 0:
			p.report.leave(locality.LeftTier, each)
		case w.held[m.Start]:
			p.report.leave(locality.LeftPinned, each)
		case w.seen.Others[i] && (m.Memory == "" || m.Kind != pages.Shared):
			p.report.leave(locality.LeftShared, each)
		default:
			p.batch = append(p.batch, page{address: w.seen.Addresses[i], order: order, node: node, shared: w.seen.Others[i]})
		}
	}
	return false, nil
}

func (p *pass) remote(node int32) bool { return node >= 0 && !p.order.Local.Contains(int(node)) }

// policy returns the memory policy of the mapping that begins at an address.
func (p *pass) policy(start uint64) (pages.Policy, error) {
	w := &p.walk
	if w.policies == nil {
		var err error
		if w.policies, err = w.process.Policies(w.mappings); err != nil {
			return pages.Policy{}, err
		}
	}
	policy, err := w.policies.At(start)
	if err == nil && policy.Assumed {
		p.report.warn("process %d: a mapping is larger than %d GiB, whose memory policy takes too long to read: "+
			"from there on the policy of the process is assumed", w.pid, int64(pages.LongestHeld)>>30)
	}
	return policy, err
}

// mayBeHuge says whether the mapping of a page has huge pages made of base pages.
func (p *pass) mayBeHuge(g page) (bool, error) {
	w := &p.walk
	if w.blocks == nil {
		var err error
		if w.blocks, err = w.process.Blocks(w.mappings); err != nil {
			return false, err
		}
	}
	return w.blocks.In(w.mapping(g).Start), nil
}

// busy returns why a page stays that the kernel could not take.
func (p *pass) busy() locality.Left {
	if p.pinned() {
		return locality.LeftPinned
	}
	return locality.LeftBusy
}

// pinned says whether the process has memory that is pinned.
func (p *pass) pinned() bool {
	w := &p.walk
	if !w.asked && w.process != nil {
		w.asked = true
		pinned, err := w.process.Pinned()
		w.pins = pinned && err == nil || slices.ContainsFunc(w.mappings, func(m pages.Mapping) bool { return m.Kind == pages.Device })
		if err != nil && !errors.Is(err, pages.ErrExited) {
			p.report.warn("process %d: %v", w.pid, err)
		}
	}
	return w.pins
}
