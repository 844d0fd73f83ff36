package mover

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/locality"
	"github.com/berth-project/berth/internal/pages"
)

const (
	// tries is how often a page is tried that the kernel could not take.
	tries = 3
	// blockPages is how many base pages a huge page has that the kernel made of them.
	blockPages = pages.HugeSize / pages.Size
	// headsAhead is how many times the pages of a call may be in the blocks whose heads are
	// sent: most are no huge pages where few are, and then a head is one page. The pace
	// waits afterwards for those that are.
	headsAhead = 8
	// patience is how long a pass waits until the kernel reclaimed in the background, and
	// glance how often it looks meanwhile.
	patience, glance = 5 * time.Second, 100 * time.Millisecond
)

// send moves a sorted list of pages of one node to another one: those of pools, then whole
// blocks, then the rest. It returns what the target has no room for. With an error it
// returns all that has no fate yet.
func (p *pass) send(ctx context.Context, pair locality.Pair, list []page) (rest []page, err error) {
	pools, base := split(list, func(g page) bool { return g.size > pages.Size })
	rest, err = p.sendPools(ctx, pair, pools)
	if err != nil {
		return append(rest, base...), err
	}
	blocks, single := cut(base)
	more, single, err := p.sendBlocks(ctx, pair, blocks, single)
	rest = append(rest, more...)
	if err != nil {
		return append(rest, single...), err
	}
	more, err = p.attempt(ctx, pair, single, 1)
	return append(rest, more...), err
}

// sendPools moves pages of pools, as many as the pool of the target has free.
func (p *pass) sendPools(ctx context.Context, pair locality.Pair, list []page) (rest []page, err error) {
	for len(list) > 0 {
		size := list[0].size
		same, others := split(list, func(g page) bool { return g.size == size })
		free, err := pages.FreePool(p.m.opts.Kernel, pair.To, size)
		if err != nil {
			return append(rest, list...), err
		}
		n := min(len(same), int(free))
		rest = append(rest, because(same[n:], locality.LeftNoHugeBlock)...)
		more, err := p.attempt(ctx, pair, same[:n], size/pages.Size)
		rest = append(rest, more...)
		if err != nil {
			return append(rest, others...), err
		}
		list = others
	}
	return rest, nil
}

// sendBlocks moves whole blocks by their first pages, as many as the target has free blocks.
// A huge page is there as a whole then. What turns out to be base pages is added to single,
// and so is what was never huge.
func (p *pass) sendBlocks(ctx context.Context, pair locality.Pair, blocks, single []page) (rest, all []page, err error) {
	if len(blocks) == 0 {
		return nil, single, nil
	}
	free, err := pages.FreeBlocks(p.m.opts.Kernel, pair.To)
	if err != nil {
		return blocks, single, err
	}
	n := min(len(blocks)/blockPages, int(free)) * blockPages
	for i := n; i < len(blocks); i += blockPages {
		block := blocks[i : i+blockPages]
		huge, err := p.mayBeHuge(block[0])
		if err != nil {
			return append(rest, blocks[i:]...), append(single, blocks[:n]...), err
		}
		if huge {
			rest = append(rest, because(block, locality.LeftNoHugeBlock)...)
		} else {
			single = append(single, block...)
		}
	}
	blocks = blocks[:n]
	if p.order.DryRun {
		return rest, append(single, blocks...), nil
	}
	for len(blocks) > 0 {
		group := blocks[:min(len(blocks), max(1, headsAhead*p.pace.Pages()/blockPages)*blockPages)]
		blocks = blocks[len(group):]
		stay, stop := p.heads(ctx, pair, group)
		if errors.Is(stop, pages.ErrExited) {
			return append(append(rest, group...), blocks...), single, stop
		}
		var more []page
		more, single, err = p.afterHeads(pair, group, stay, single)
		rest = append(rest, more...)
		if err = errors.Join(stop, err); err != nil {
			return append(rest, blocks...), single, err
		}
	}
	return rest, single, nil
}

// heads sends the first pages of blocks, and counts nothing. It returns why the block of a
// head is left, if it is a huge page, for each head that stayed.
func (p *pass) heads(ctx context.Context, pair locality.Pair, blocks []page) (map[uint64]locality.Left, error) {
	var heads []page
	for i := 0; i < len(blocks); i += blockPages {
		heads = append(heads, blocks[i])
	}
	why, full, err := p.busy(), false, error(nil)
	for try := 0; try < tries && err == nil && !full && len(heads) > 0; try++ {
		heads, full, err = p.tryHeads(ctx, pair.To, heads, most(try, len(heads)))
		slices.Reverse(heads)
	}
	if full || err != nil {
		why = locality.LeftNoRoom
	}
	stay := map[uint64]locality.Left{}
	for _, g := range heads {
		stay[g.address] = why
	}
	return stay, err
}

// tryHeads sends heads in calls of at most so many, and returns those that stayed. Full says
// that the target has no room for more.
func (p *pass) tryHeads(ctx context.Context, to int, heads []page, limit int) (stayed []page, full bool, err error) {
	for len(heads) > 0 {
		n, err := p.admit(ctx, to, min(len(heads), limit), blockPages)
		if err != nil || n == 0 {
			return append(stayed, heads...), n == 0, err
		}
		fates, err := p.call(to, heads[:n], 1, false)
		if err != nil && !errors.Is(err, pages.ErrNoMemory) {
			return append(stayed, heads...), false, err
		}
		for i, f := range fates {
			if f == pages.Stayed || f == pages.Busy {
				stayed = append(stayed, heads[i])
			}
		}
		heads = heads[n:]
	}
	return stayed, false, nil
}

// afterHeads sorts the blocks whose heads were sent. A block is a huge page that moved if
// its last page is there; it is a huge page that stayed if its head stayed and its mapping
// has huge pages. Everything else is base pages, of which the head may have moved.
func (p *pass) afterHeads(pair locality.Pair, blocks []page, stay map[uint64]locality.Left, single []page) (rest, all []page, err error) {
	var ends []uint64
	for i := 0; i < len(blocks); i += blockPages {
		ends = append(ends, blocks[i].address, blocks[i+blockPages-1].address)
	}
	nodes, err := p.walk.process.Where(ends, nil)
	if err != nil {
		return blocks, single, err
	}
	for ; len(blocks) > 0; blocks, nodes = blocks[blockPages:], nodes[2:] {
		block, headThere, lastThere := blocks[:blockPages], int(nodes[0]) == pair.To, int(nodes[1]) == pair.To
		why, huge := stay[block[0].address]
		if huge { // It stayed.
			if huge, err = p.mayBeHuge(block[0]); err != nil {
				return append(rest, blocks...), single, err
			}
		}
		switch {
		case headThere && lastThere:
			p.report.moved(pair).Huge += pages.HugeSize
			p.budget -= pages.HugeSize
			p.pace.Charge(blockPages - 1)
		case huge && why == locality.LeftNoRoom:
			rest = append(rest, because(block, why)...)
		case huge:
			p.report.leave(why, blockPages)
		case headThere:
			p.counted(pair, block[0])
			single = append(single, block[1:]...)
		default:
			single = append(single, block...)
		}
	}
	return rest, single, nil
}

// most is how many pages a call of a try may take, of so many that are left. A page that the
// kernel cannot take may keep it from all that are behind it in the list: so the next try
// begins at the other end, and lists get shorter.
func most(try, left int) int {
	switch {
	case try == 0:
		return locality.MostPages
	case try == 1:
		return 512
	case left > 128:
		return 16
	}
	return 1
}

// attempt moves pages that weigh so many base pages each, and returns those for which there
// is no room.
func (p *pass) attempt(ctx context.Context, pair locality.Pair, list []page, weight int64) (rest []page, err error) {
	full := false
	for try := 0; try < tries && len(list) > 0; try++ {
		var room bool
		list, full, room, err = p.try(ctx, pair, list, weight, most(try, len(list)))
		if err != nil {
			return list, err
		}
		if !room {
			full = true
			break
		}
	}
	if full {
		return because(list, locality.LeftNoRoom), nil
	}
	for range list {
		p.report.leave(p.busy(), weight)
	}
	return nil, nil
}

// try moves pages in calls of at most so many. It returns those to try again, and with an
// error, or without room, all that have no fate yet. Full says that the last call found no
// memory.
func (p *pass) try(ctx context.Context, pair locality.Pair, list []page, weight int64, limit int) (again []page, full, room bool, err error) {
	var stayed, busy []page
	for len(list) > 0 {
		n, err := p.admit(ctx, pair.To, min(len(list), limit, max(1, p.pace.Pages()/int(weight))), weight)
		if err != nil || n == 0 {
			return slices.Concat(stayed, busy, list), full, false, err
		}
		_, err = p.call(pair.To, list[:n], weight, weight == 1)
		if full = errors.Is(err, pages.ErrNoMemory); err != nil && !full {
			return slices.Concat(stayed, busy, list), full, true, err
		}
		stayed, busy = p.settle(pair, list[:n], stayed, busy)
		list = list[n:]
	}
	slices.Reverse(stayed)
	return append(stayed, busy...), full, true, nil
}

// settle counts the pages of a call by their fates, and adds to stayed and busy those to try
// again: the busy ones last, because each ends a batch of the kernel.
func (p *pass) settle(pair locality.Pair, list, stayed, busy []page) (again, last []page) {
	for i, f := range p.fates {
		switch g := list[i]; f {
		case pages.There:
			p.counted(pair, g)
		case pages.Gone:
			p.report.leave(locality.LeftGone, g.size/pages.Size)
		case pages.Held:
			p.report.leave(locality.LeftShared, g.size/pages.Size)
		case pages.Busy:
			busy = append(busy, g)
		default:
			stayed = append(stayed, g)
		}
	}
	return stayed, busy
}

// counted counts a page that moved.
func (p *pass) counted(pair locality.Pair, g page) {
	m := p.report.moved(pair)
	if p.budget -= g.size; g.size > pages.Size {
		m.HugeTLB += g.size
	} else {
		m.Base += g.size
	}
}

// call makes one call for pages that weigh so many base pages each. Base says that it shows
// what a page costs. A dry run makes none, and all pages are there.
func (p *pass) call(to int, list []page, weight int64, base bool) ([]pages.Fate, error) {
	p.list, p.fates = p.list[:0], p.fates[:0]
	for _, g := range list {
		p.list, p.fates = append(p.list, g.address), append(p.fates, pages.There)
	}
	if p.order.DryRun {
		p.taken[to] += int64(len(list)) * weight * pages.Size
		return p.fates, nil
	}
	began := p.m.opts.Clock()
	err := p.m.calls.Move(p.walk.process, p.list, to, false, p.fates)
	took := p.m.opts.Clock() - began
	moved := 0
	for _, f := range p.fates {
		if f == pages.There {
			moved++
		}
	}
	p.report.Calls++
	p.report.Called += took
	p.report.Longest = max(p.report.Longest, took)
	p.pace.Called(began, took, moved*int(weight), base)
	p.publish()
	return p.fates, err
}

// admit waits until a call may be made, and returns how many of want pages it may take, each
// weighing so many base pages: 0 where the target has no room for them.
func (p *pass) admit(ctx context.Context, to, want int, weight int64) (int, error) {
	least := min(int64(want), max(1, locality.FewestPages/weight)) * weight * pages.Size
	for {
		if err := p.calm(ctx); err != nil {
			return 0, err
		}
		memory, err := p.memory(to)
		if err != nil {
			return 0, err
		}
		room, now := memory.Room(p.unused(to)), p.m.opts.Clock()
		if memory.Allows(least) && room >= least {
			delete(p.short, to)
			return int(min(int64(want), min(room, memory.Headroom())/(weight*pages.Size))), nil
		}
		if _, waits := p.short[to]; !waits {
			p.short[to] = now
		}
		if room < least || now-p.short[to] >= patience {
			return 0, nil
		}
		if err := p.wait(ctx, glance); err != nil {
			return 0, err
		}
	}
}

// calm waits for the pace, and through pauses.
func (p *pass) calm(ctx context.Context) error {
	for {
		if p.canceled(ctx) {
			return ErrCanceled
		}
		now := p.m.opts.Clock()
		if err := p.signs(now); err != nil {
			return err
		}
		p.showPause(p.pace.Paused(now))
		left := p.pace.Wait(now)
		if left <= 0 {
			return nil
		}
		if err := p.wait(ctx, min(left, time.Second)); err != nil {
			return err
		}
	}
}

// showPause publishes why there is a pause, or that it is over.
func (p *pass) showPause(why string) {
	if why == p.report.Reason {
		return
	}
	p.report.Phase, p.report.Reason = Paused, why
	if why == "" {
		p.report.Phase = Moving
	}
	p.publish()
}

// signs has the pace take in what shows that others are disturbed, when that is due.
func (p *pass) signs(now time.Duration) error {
	if !p.pace.Due(now) {
		return nil
	}
	stalled, err := p.m.opts.Groups.Stalled(p.order.Group)
	if err != nil {
		return err
	}
	out, err := pages.SwappedOut(p.m.opts.Kernel)
	if err != nil {
		return err
	}
	p.pace.Look(now, locality.Signs{Stalled: stalled, SwappedOut: out})
	return nil
}

// cut takes whole blocks out of a sorted list: neighbours that fill 2 MiB from a multiple of
// it on.
func cut(list []page) (blocks, single []page) {
	for i := 0; i < len(list); {
		if list[i].address%pages.HugeSize == 0 && i+blockPages <= len(list) &&
			list[i+blockPages-1].address == list[i].address+pages.HugeSize-pages.Size {
			blocks = append(blocks, list[i:i+blockPages]...)
			i += blockPages
			continue
		}
		single = append(single, list[i])
		i++
	}
	return blocks, single
}

func split(list []page, is func(page) bool) (yes, no []page) {
	for _, g := range list {
		if is(g) {
			yes = append(yes, g)
		} else {
			no = append(no, g)
		}
	}
	return yes, no
}

func because(list []page, why locality.Left) []page {
	for i := range list {
		list[i].why = why
	}
	return list
}
