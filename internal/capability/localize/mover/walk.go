package mover

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/linux/pages"
)

// mostRounds bounds how often the processes of a group are listed: a fork storm adds new ones each time.
const mostRounds = 32

// fewest is how many pages a stretch has at least that is sampled before all its pages are asked for.
const fewest = 1024

// lookShare is the cost of examining memory that does not move: 1/lookShare of its size counts against the order's
// turn.
const lookShare = 4

// page is one page that should leave its node. It is small: lists have up to 65,536 pages.
type page struct {
	address uint64
	node    int32
	order   uint8 // the page has 1<<order base pages
	blocked bool  // a target had no free block of its size
	shared  bool  // of shared memory that other processes have mapped too
}

// base returns the number of its base pages, and size the number of its bytes.
func (g page) base() int64 { return 1 << g.order }
func (g page) size() int64 { return pages.Size << g.order }

// lot is equal for pages that one call may move together, and greater for larger pages.
func (g page) lot() int {
	lot := int(g.order)<<32 | int(g.node)<<1
	if g.shared {
		lot |= 1
	}
	return lot
}

// walk is the position of a pass in the group.
type walk struct {
	done   map[int]uint64 // start times of the processes that were walked, by id
	todo   []int
	rounds int
	stuck  int // processes that did not answer

	pid      int
	process  *pages.Process
	mappings []pages.Mapping
	at       int    // index of the present mapping
	from     uint64 // address in that mapping, 0 for its start
	policies *pages.Policies
	blocks   *pages.Blocks // nil until needed
	pins     bool
	asked    bool            // pins is known
	held     map[uint64]bool // mappings that a device holds, by start address
	seen     pages.Seen
	census   census
}

// census is what numa_maps and earlier stretches say about the present mapping. If all pages that were not seen yet are
// on one node, their nodes are known without a query for each page. That is so for a mapping that is on one node as a
// whole. Pages whose node is not known need the query: after a call that moves pages, a page that was there before
// looks like a page that moved. It would also end a batch of the kernel. If a stretch shows more pages of a node than
// were counted, the mapping has changed, and all its later pages need the query.
//
// Where numa_maps shows that all pages of the mapping are present and unshared, pagemap has nothing to add, and a
// stretch is all of its addresses. Pages may be shared, freed or swapped out in the meantime, as they may after a look
// at pagemap. The query shows pages that are gone, and the call that moves pages leaves those that another process has
// mapped by then (MPOL_MF_MOVE). After either, later stretches need pagemap.
type census struct {
	// seen are the pages that stretches showed, by node, and counted the pages of the mapping by numa_maps.
	seen, counted []int64
	sampled       bool // a stretch of the mapping was sampled
	full          bool // all pages of the mapping are present, and only this process has them mapped
	changed       bool // this is no longer so
}

// count reads the census of a mapping from its policy, if all pages of the mapping are anonymous base pages or
// transparent huge pages.
func (c *census) count(m *pages.Mapping, policy *pages.Policy) {
	if m.Kind != pages.Private || policy.Start != m.Start || policy.Own || policy.Huge || policy.File || policy.PageSize != pages.Size {
		return
	}
	c.counted, c.full = c.counted[:0], !c.changed && policy.Fills(m)
	for _, bytes := range policy.Bytes {
		c.counted = append(c.counted, bytes/pages.Size)
	}
}

// change ends what numa_maps says about sharing and presence.
func (c *census) change() { c.full, c.changed = false, true }

// see adds base pages of a stretch, by their node.
func (c *census) see(node int32, n int64) {
	if node < 0 {
		return
	}
	for int(node) >= len(c.seen) {
		c.seen = append(c.seen, 0)
	}
	c.seen[node] += n
}

// rest returns the node that all pages are on that were not seen yet, or pages.Unknown.
func (c *census) rest() int32 {
	on := pages.Unknown
	for node := range max(len(c.counted), len(c.seen)) {
		left := int64(0)
		if node < len(c.counted) {
			left = c.counted[node]
		}
		if node < len(c.seen) {
			left -= c.seen[node]
		}
		switch {
		case left < 0, left > 0 && on != pages.Unknown:
			return pages.Unknown
		case left > 0:
			on = int32(node)
		}
	}
	return on
}

// next begins the next mapping.
func (c *census) next() { *c = census{seen: c.seen[:0], counted: c.counted[:0]} }

// leave ends the walk of a process.
func (w *walk) leave() {
	if w.policies != nil {
		w.policies.Close()
	}
	*w = walk{done: w.done, todo: w.todo, rounds: w.rounds, stuck: w.stuck, seen: w.seen}
}

// mapping returns the mapping of a page.
func (w *walk) mapping(g page) pages.Mapping {
	i, _ := slices.BinarySearchFunc(w.mappings, g.address, func(m pages.Mapping, a uint64) int {
		if m.End <= a {
			return -1
		}
		return 1
	})
	return w.mappings[i]
}

// hold remembers mappings that a device may hold: a call moved none of their pages. Another try would stop the users of
// the pages once more, and move nothing.
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

// spare appends to held the pages of a list that are in the mappings of hold, and returns the other pages as rest.
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

// collect walks until there are enough pages for a call, or to the end of a process. It reports whether there is more
// to walk.
func (p *pass) collect(ctx context.Context) (bool, error) {
	w, want := &p.walk, p.pace.Ahead()
	p.kept.batch = slices.Grow(p.kept.batch[:0], want+pages.Stretch/pages.Size)
	p.batch, p.uniform = p.kept.batch, true
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

// enter begins the next process that was not walked yet. It returns false if there is none: the walk is over.
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
			w.done[w.pid] = 0 // the next list walks the id again only if its process can be opened
			return true, err
		}
		w.done[w.pid], w.process = process.Start, process
		w.mappings, err = process.Mappings()
		return true, err
	}
}

// processes lists the processes of the group, and reports whether any was not walked yet.
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
	// A walked process may have ended, and another process have its id: that process is new.
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

// look examines the next stretch of a mapping, and adds the pages that must move to the batch.
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
	part := stretch{pass: p, mapping: m, from: from, size: size}
	next, err := part.find()
	if err != nil {
		return err
	}
	p.budget -= int64(next-from) / lookShare
	if again, err := part.take(); again || err != nil {
		return err
	}
	if w.from = next; next >= m.End {
		w.at, w.from = w.at+1, 0
		w.census.next()
	}
	return nil
}

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

// mayBeHuge reports whether the mapping of a page has transparent huge pages.
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

// busy returns why a page stays that the kernel could not isolate.
func (p *pass) busy() locality.Left {
	if p.pinned() {
		return locality.LeftPinned
	}
	return locality.LeftBusy
}

// pinned reports whether the process has pinned memory.
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
