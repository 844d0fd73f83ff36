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
	var heads []page
	for i := 0; i < n; i += blockPages {
		heads = append(heads, blocks[i])
	}
	if p.order.DryRun {
		return rest, append(single, blocks...), nil
	}
	stay, stop := p.heads(ctx, pair, heads)
	if errors.Is(stop, pages.ErrExited) {
		return append(rest, blocks...), single, stop
	}
	more, single, err := p.afterHeads(pair, blocks, stay, single)
	return append(rest, more...), single, errors.Join(stop, err)
}

// heads sends the first pages of blocks, and counts nothing. It returns why the block of a
// head is left, if it is a huge page, for each head that stayed.
func (p *pass) heads(ctx context.Context, pair locality.Pair, heads []page) (map[uint64]locality.Left, error) {
	stay := map[uint64]locality.Left{}
	mark := func(list []page, why locality.Left) {
		for _, g := range list {
			stay[g.address] = why
		}
	}
	for try := 0; try < tries && len(heads) > 0; try++ {
		var again []page
		for len(heads) > 0 {
			n, err := p.admit(ctx, pair.To, min(len(heads), max(1, headsAhead*p.pace.Pages()/blockPages)), blockPages)
			if err != nil || n == 0 {
				mark(append(again, heads...), locality.LeftNoRoom)
				return stay, err
			}
			fates, err := p.call(pair.To, heads[:n], 1, false)
			if err != nil && !errors.Is(err, pages.ErrNoMemory) {
				mark(append(again, heads...), locality.LeftNoRoom)
				return stay, err
			}
			for i, f := range fates {
				if f == pages.Stayed {
					again = append(again, heads[i])
				}
			}
			heads = heads[n:]
		}
		heads = again
	}
	mark(heads, p.busy())
	return stay, nil
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

// attempt moves pages that weigh so many base pages each, and returns those for which there
// is no room. What the kernel could not take is tried again in smaller lists and from the
// other end: a page that it cannot take may keep it from those behind it.
func (p *pass) attempt(ctx context.Context, pair locality.Pair, list []page, weight int64) (rest []page, err error) {
	full := false
	for try, most := range [tries]int{locality.MostPages, 512, 16} {
		var stayed []page
		for len(list) > 0 {
			n, err := p.admit(ctx, pair.To, min(len(list), most, max(1, p.pace.Pages()/int(weight))), weight)
			if err != nil {
				return append(stayed, list...), err
			}
			if n == 0 {
				return because(append(stayed, list...), locality.LeftNoRoom), nil
			}
			fates, err := p.call(pair.To, list[:n], weight, weight == 1)
			if err != nil && !errors.Is(err, pages.ErrNoMemory) {
				return append(stayed, list...), err
			}
			full = err != nil
			for i, f := range fates {
				switch f {
				case pages.There:
					p.counted(pair, list[i])
				case pages.Gone:
					p.report.leave(locality.LeftGone, weight)
				case pages.Held:
					p.report.leave(locality.LeftShared, weight)
				default:
					stayed = append(stayed, list[i])
				}
			}
			list = list[n:]
		}
		if list = stayed; try+1 < tries {
			slices.Reverse(list)
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
	p.report.Longest = max(p.report.Longest, took)
	p.pace.Called(began, took, moved*int(weight), base)
	p.publish()
	return p.fates, err
}

// admit waits until a call may be made, and returns how many of want pages it may take, each
// weighing so many base pages: 0 where the target has no room for them.
func (p *pass) admit(ctx context.Context, to, want int, weight int64) (int, error) {
	least := min(int64(want), max(1, locality.FewestPages/weight)) * weight * pages.Size
	for waited := time.Duration(0); ; {
		if err := p.calm(ctx); err != nil {
			return 0, err
		}
		now, err := p.memory(to)
		if err != nil {
			return 0, err
		}
		room := now.Room(p.unused(to))
		switch {
		case room < least, !now.Allows(least) && waited >= patience:
			return 0, nil
		case now.Allows(least):
			return int(min(int64(want), min(room, now.Headroom())/(weight*pages.Size))), nil
		}
		if err := p.wait(ctx, glance); err != nil {
			return 0, err
		}
		waited += glance
	}
}

// calm waits for the pace, and through pauses.
func (p *pass) calm(ctx context.Context) error {
	for {
		if p.canceled(ctx) {
			return ErrCanceled
		}
		now := p.m.opts.Clock()
		if p.pace.Due(now) {
			if err := p.signs(now); err != nil {
				return err
			}
		}
		if why := p.pace.Paused(now); why != p.report.Reason {
			p.report.Phase, p.report.Reason = Paused, why
			if why == "" {
				p.report.Phase = Moving
			}
			p.publish()
		}
		left := p.pace.Wait(now)
		if left <= 0 {
			return nil
		}
		if err := p.wait(ctx, min(left, time.Second)); err != nil {
			return err
		}
	}
}

// signs has the pace take in what shows that others are disturbed.
func (p *pass) signs(now time.Duration) error {
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
