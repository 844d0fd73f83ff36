package mover

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/linux/pages"
)

const (
	// retries is how many calls that move almost nothing a list may cost after the first calls. worth is how many base
	// pages a call must move to be worth it.
	retries, worth = 16, 64
	// headRetries is retries for heads: most heads are base pages, which are sent again.
	headRetries = 4
	// blockPages is the number of base pages in a transparent huge page.
	blockPages = pages.HugeSize / pages.Size
	// headsAhead bounds the heads that are sent together: their blocks may have this many times the pages of a call.
	// Where huge pages are rare, most heads are single pages. The pace waits afterwards for heads that are huge.
	headsAhead = 8
	// margin is the fraction 1/margin of the free blocks that stays for other programs, which may use them in the
	// meantime.
	margin = 8
	// reclaim is how long move waits, once for a list, if a call finds no memory although there is room.
	reclaim = time.Second
	// patience is how long a pass waits for the kernel's background reclaim, and glance is the time between its checks.
	patience, glance = 5 * time.Second, 100 * time.Millisecond
)

// lot describes how a list is sent: base pages, first pages of blocks, or pages of a pool.
type lot struct {
	pair  locality.Pair
	size  int64 // of the pages, in bytes
	heads bool  // counted afterwards, as part of their blocks
}

// send moves a sorted list of pages of one size from one node to another: whole blocks, then the other pages. rest is
// the pages for which the target has no room; with an error it is all undecided pages.
func (p *pass) send(ctx context.Context, pair locality.Pair, list []page) (rest []page, err error) {
	if len(list) > 0 && list[0].order > 0 {
		return p.move(ctx, lot{pair: pair, size: list[0].size()}, list)
	}
	base := lot{pair: pair, size: pages.Size}
	blocks, single := cut(list, p.kept.single[:0])
	if len(blocks) == 0 {
		return p.move(ctx, base, list)
	}
	rest, p.kept.single, err = p.sendBlocks(ctx, pair, blocks, single)
	if err != nil {
		return append(rest, p.kept.single...), err
	}
	more, err := p.move(ctx, base, p.kept.single)
	return append(rest, more...), err
}

// move sends a list and counts the fate of each page, except for the pages that it returns.
func (p *pass) move(ctx context.Context, l lot, list []page) (rest []page, err error) {
	stay, why, err := p.attempt(ctx, l, list)
	if why != "" || err != nil {
		return because(stay, why), err
	}
	for _, g := range stay {
		p.report.leave(p.busy(), g.base())
	}
	return nil, nil
}

// sendBlocks moves whole blocks by their first pages, at most as many as the target has free blocks. A huge page then
// arrives whole. sendBlocks appends blocks that are base pages to single.
func (p *pass) sendBlocks(ctx context.Context, pair locality.Pair, blocks [][]page, single []page) (rest, all []page, err error) {
	for left := len(blocks); len(blocks) > 0; {
		if left, err = p.freeBlocks(ctx, pair.To, left); err != nil {
			return slices.Concat(rest, slices.Concat(blocks...)), single, err
		}
		n := min(len(blocks), left, max(1, headsAhead*p.pace.Pages()/blockPages))
		if left -= n; n == 0 {
			more, all, err := p.withoutBlock(blocks, single)
			return append(rest, more...), all, err
		}
		group := blocks[:n]
		if blocks = blocks[n:]; p.order.DryRun {
			for _, block := range group {
				single = append(single, block...)
			}
			continue
		}
		var more []page
		more, single, err = p.sendGroup(ctx, pair, group, single)
		rest = append(rest, more...)
		if err != nil {
			return slices.Concat(rest, slices.Concat(blocks...)), single, err
		}
	}
	return rest, single, nil
}

// freeBlocks waits for the pace, and returns how many free blocks a node then has, limited to most.
func (p *pass) freeBlocks(ctx context.Context, node, most int) (int, error) {
	if err := p.calm(ctx); err != nil {
		return 0, err
	}
	free, err := pages.FreeBlocks(p.m.opts.Kernel, node)
	return min(most, int(free-(free+margin-1)/margin)), err
}

// withoutBlock sorts blocks for which the target has no free block: base pages need none.
func (p *pass) withoutBlock(blocks [][]page, single []page) (rest, all []page, err error) {
	for i, block := range blocks {
		huge, err := p.mayBeHuge(block[0])
		if err != nil {
			return slices.Concat(rest, slices.Concat(blocks[i:]...)), single, err
		}
		if huge {
			rest = append(rest, because(block, locality.LeftNoHugeBlock)...)
		} else {
			single = append(single, block...)
		}
	}
	return rest, single, nil
}

// sendGroup sends the first pages of blocks, and sorts the blocks by the result.
func (p *pass) sendGroup(ctx context.Context, pair locality.Pair, blocks [][]page, single []page) (rest, all []page, err error) {
	var heads []page
	for _, block := range blocks {
		heads = append(heads, block[0])
	}
	heads, why, stop := p.attempt(ctx, lot{pair: pair, size: pages.HugeSize, heads: true}, heads)
	if errors.Is(stop, pages.ErrExited) {
		return slices.Concat(blocks...), single, stop
	}
	if stop != nil {
		why = locality.LeftNoRoom
	}
	why = cmp.Or(why, p.busy())
	stay := map[uint64]locality.Left{}
	for _, g := range heads {
		stay[g.address] = why
	}
	rest, all, err = p.afterHeads(pair, blocks, stay, single)
	return rest, all, errors.Join(stop, err)
}

// afterHeads sorts the blocks whose heads were sent. A block is a huge page that moved if its last page is on the
// target. It is a huge page that stayed if its head stayed and its mapping has huge pages. All other blocks are base
// pages, whose head may have moved.
func (p *pass) afterHeads(pair locality.Pair, blocks [][]page, stay map[uint64]locality.Left, single []page) (rest, all []page, err error) {
	var ends []uint64
	for _, block := range blocks {
		ends = append(ends, block[0].address, block[blockPages-1].address)
	}
	nodes, err := p.walk.process.Where(ends, nil)
	if err != nil {
		return slices.Concat(blocks...), single, err
	}
	for i, block := range blocks {
		headThere, lastThere := int(nodes[2*i]) == pair.To, int(nodes[2*i+1]) == pair.To
		why, huge := stay[block[0].address]
		if huge { // it stayed
			if huge, err = p.mayBeHuge(block[0]); err != nil {
				return slices.Concat(rest, slices.Concat(blocks[i:]...)), single, err
			}
		}
		switch {
		case headThere && lastThere:
			p.report.moved(pair).Huge += pages.HugeSize
			p.budget -= pages.HugeSize
			p.pace.Charge(blockPages - 1)
		case huge && (why == locality.LeftNoRoom || why == locality.LeftNoHugeBlock):
			rest = append(rest, because(block, why)...)
		case huge:
			p.report.leave(why, blockPages)
		case headThere:
			p.counted(pair, pages.Size, 1)
			single = append(single, block[1:]...)
		default:
			single = append(single, block...)
		}
	}
	return rest, single, nil
}

// attempt sends a list in calls, and then the pages that stayed in halves: a page that the kernel cannot move also
// keeps back the pages behind it in the list. It returns the pages that stayed. why is set if the target has nothing
// for them; with an error they are undecided.
func (p *pass) attempt(ctx context.Context, l lot, list []page) (stay []page, why locality.Left, err error) {
	var again sent
	for p.starved = false; ; {
		if stay, list = p.walk.spare(stay, list); len(list) == 0 {
			break
		}
		s, err := p.once(ctx, l, list)
		list = s.rest
		if s.moved == 0 && p.pinned() {
			p.walk.hold(s.stayed, s.busy)
			stay = slices.Concat(stay, s.stayed, s.busy)
		} else {
			again.stayed, again.busy = append(again.stayed, s.stayed...), append(again.busy, s.busy...)
		}
		if err != nil || s.why != "" {
			return slices.Concat(stay, again.backwards(), list), s.why, err
		}
	}
	more, why, err := p.halve(ctx, l, again.backwards())
	return append(stay, more...), why, err
}

// halve sends a list, then its remaining pages in two halves, and so on, until too many calls moved almost nothing.
func (p *pass) halve(ctx context.Context, l lot, list []page) (stay []page, why locality.Left, err error) {
	queue := [][]page{list}
	most := retries
	if l.heads {
		most = headRetries
	}
	for vain := 0; len(queue) > 0 && vain < most; {
		if list, queue = queue[0], queue[1:]; len(list) == 0 {
			continue
		}
		s, err := p.once(ctx, l, list)
		left := s.backwards()
		if err != nil || s.why != "" {
			return slices.Concat(stay, left, s.rest, slices.Concat(queue...)), s.why, err
		}
		if s.moved < worth {
			vain++
		}
		queue = slices.Insert(queue, 0, s.rest)
		if half := len(left) / 2; half > 0 {
			queue = append(queue, left[:half], left[half:])
		} else {
			stay = append(stay, left...)
		}
	}
	return slices.Concat(stay, slices.Concat(queue...)), "", nil
}

// sent is the result of one call for a list.
type sent struct {
	stayed, busy []page        // to try again
	rest         []page        // for another call
	moved        int           // base pages
	why          locality.Left // why the target accepts no more pages
}

// backwards returns the pages to try again: from the other end, and the busy ones last, because each busy page ends a
// batch of the kernel.
func (s *sent) backwards() []page {
	slices.Reverse(s.stayed)
	return slices.Concat(s.stayed, s.busy)
}

// once makes one call, as soon as it is allowed, for as many pages of a list as allowed.
func (p *pass) once(ctx context.Context, l lot, list []page) (sent, error) {
	lack := locality.LeftNoHugeBlock
	if l.size == pages.Size {
		lack = locality.LeftNoRoom
	}
	n, err := p.admit(ctx, l, len(list))
	if err == nil && n == 0 {
		if l.heads {
			lack = locality.LeftNoRoom
		}
		return sent{rest: list, why: lack}, nil
	}
	var s sent
	if err == nil {
		s, err = p.call(l, list[:n])
	}
	if err != nil && !errors.Is(err, pages.ErrNoMemory) {
		return sent{rest: list}, err
	}
	s.rest = list[n:]
	switch {
	case err == nil:
	case p.starved || l.size > pages.Size:
		s.why = lack
	default:
		p.starved = true
		return s, p.wait(ctx, reclaim)
	}
	return s, nil
}

// settle counts the pages of a call, all of one size, by their fates. Heads are counted with their blocks.
func (p *pass) settle(l lot, list []page) (s sent) {
	var there, gone, held int64
	for i, f := range p.sent.fates {
		switch f {
		case pages.There:
			there++
		case pages.Gone:
			gone++
		case pages.Held:
			held++
		case pages.Busy:
			s.busy = append(s.busy, list[i])
		case pages.Stayed:
			s.stayed = append(s.stayed, list[i])
		}
	}
	if gone+held > 0 {
		p.walk.census.change()
	}
	size := list[0].size()
	s.moved = int(there * size / pages.Size)
	if !l.heads {
		p.counted(l.pair, size, there)
		p.report.leave(locality.LeftGone, gone*size/pages.Size)
		p.report.leave(locality.LeftShared, held*size/pages.Size)
	}
	return s
}

// counted records that n pages of a size moved.
func (p *pass) counted(pair locality.Pair, size, n int64) {
	if n == 0 {
		return
	}
	m := p.report.moved(pair)
	if p.budget -= n * size; size > pages.Size {
		m.HugeTLB += n * size
	} else {
		m.Base += n * size
	}
}

// call makes one call, and counts its pages unless it failed. A dry run makes no call, and counts all pages as moved.
func (p *pass) call(l lot, list []page) (s sent, err error) {
	p.sent.list, p.sent.fates = slices.Grow(p.sent.list[:0], len(list))[:len(list)], slices.Grow(p.sent.fates[:0], len(list))[:len(list)]
	for i := range list {
		p.sent.list[i] = list[i].address
	}
	if p.order.DryRun {
		for i := range p.sent.fates {
			p.sent.fates[i] = pages.There
		}
		p.taken[stock{l.pair.To, l.size}] += int64(len(list)) * l.size
		return p.settle(l, list), nil
	}
	began := p.m.opts.Clock()
	err = p.m.calls.Move(p.walk.process, p.sent.list, l.pair.To, list[0].shared, p.sent.fates)
	took := p.m.opts.Clock() - began
	if err == nil || errors.Is(err, pages.ErrNoMemory) {
		s = p.settle(l, list)
	}
	p.report.Calls++
	p.report.Called += took
	p.report.Longest = max(p.report.Longest, took)
	p.budget -= max(0, turnBytes/turnCalls-int64(s.moved)*pages.Size)
	p.pace.Called(began, took, len(list)*int(list[0].base()), l.size == pages.Size)
	p.publish()
	return s, err
}

// admit waits until a call may be made, and returns how many of want pages it may have: 0 if the target has nothing for
// them.
func (p *pass) admit(ctx context.Context, l lot, want int) (int, error) {
	if err := p.calm(ctx); err != nil {
		return 0, err
	}
	if !l.heads {
		want = min(want, max(1, p.pace.Pages()*pages.Size/int(l.size)))
		if l.size > pages.Size {
			free, err := pages.FreePool(p.m.opts.Kernel, l.pair.To, l.size)
			return max(0, min(want, int(free-p.taken[stock{l.pair.To, l.size}]/l.size))), err
		}
	}
	return p.reclaimed(ctx, l, int64(want))
}

// reclaimed waits for the kernel's reclaim until a node has memory for some of want pages.
func (p *pass) reclaimed(ctx context.Context, l lot, want int64) (int, error) {
	to, least := l.pair.To, min(want*l.size, max(l.size, locality.FewestPages*pages.Size))
	for {
		memory, err := p.memory(to)
		if err != nil {
			return 0, err
		}
		room, now := memory.Room(p.order.Unused.At(to)), p.m.opts.Clock()
		if memory.Allows(least) && room >= least {
			delete(p.short, to)
			return int(min(want, min(room, memory.Headroom())/l.size)), nil
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

// calm waits for the pace. It returns errPaused in a pause.
func (p *pass) calm(ctx context.Context) error {
	if p.canceled(ctx) {
		return ErrCanceled
	}
	for {
		now := p.m.opts.Clock()
		if err := p.signs(now); err != nil {
			return err
		}
		if why, _ := p.pace.Paused(now); why != "" {
			return errPaused
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

// signs gives the pace the signs of disturbance, when they are due.
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

// cut finds the whole blocks of a list: neighbors that fill 2 MiB from a multiple of 2 MiB on. If there are any it
// appends the other pages to single.
func cut(list, single []page) (blocks [][]page, all []page) {
	from := 0 // first page that is neither in a block nor in single yet
	for i := 0; i+blockPages <= len(list); {
		if list[i].address%pages.HugeSize != 0 || list[i+blockPages-1].address != list[i].address+pages.HugeSize-pages.Size {
			i++
			continue
		}
		if len(blocks) == 0 {
			single = slices.Grow(single, len(list)) // most base pages end up in single
		}
		blocks, single = append(blocks, list[i:i+blockPages]), append(single, list[from:i]...)
		i += blockPages
		from = i
	}
	if len(blocks) > 0 {
		single = append(single, list[from:]...)
	}
	return blocks, single
}

func because(list []page, why locality.Left) []page {
	for i := range list {
		list[i].blocked = why == locality.LeftNoHugeBlock
	}
	return list
}
