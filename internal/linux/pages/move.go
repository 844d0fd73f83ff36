package pages

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
)

// Fate is the result of a move for one page.
type Fate uint8

const (
	// Stayed means that the kernel did not reach the page, or could not move it this time.
	Stayed Fate = iota
	// There means that the page is on the target node.
	There
	// Gone means that the process no longer has the page.
	Gone
	// Held means that another process also has the page mapped.
	Held
	// Busy means that the kernel could not remove the page from its lists this time.
	Busy
)

// unwritten is neither a node nor an error number. It marks a page for which the kernel wrote no status.
const unwritten = math.MinInt32

// Mover moves pages of processes. It reuses memory between calls, and is for one goroutine.
type Mover struct {
	nodes, status []int32
	left          []uint64
}

// Move moves pages of a process to a node, and writes the result for each page into fates, which has the length of
// addresses. All pages should be on other nodes, because a page that is already on the node ends a batch of the kernel.
// Move compares the identity of the process before and after the call. With shared, it also moves pages that other
// processes have mapped.
//
// With ErrNoMemory and ErrExited, fates is valid. With ErrMems, ErrNode and ErrRights, no page moved.
func (v *Mover) Move(p *Process, addresses []uint64, node int, shared bool, fates []Fate) error {
	if err := p.Alive(); err != nil {
		return v.gone(fates, err)
	}
	v.nodes, v.status = filled(v.nodes, len(addresses), int32(node)), filled(v.status, len(addresses), unwritten)
	flags := moveOwn
	if shared {
		flags = moveAll
	}
	n, err := p.kernel.MovePages(p.tid, addresses, v.nodes, v.status, flags)
	switch {
	case errors.Is(err, syscall.EACCES) && !p.mayUse(node):
		return fmt.Errorf("move pages of process %d to node %d: %w", p.PID, node, errors.Join(ErrMems, err))
	case err != nil:
		err = fmt.Errorf("move pages of process %d to node %d: %w", p.PID, node, called(err))
	}
	if errors.Is(err, ErrExited) {
		return v.gone(fates, err)
	}
	if err != nil && !errors.Is(err, ErrNoMemory) {
		return err
	}
	if n > 0 || err != nil {
		if again := v.ask(p, addresses); again != nil {
			return v.gone(fates, again)
		}
	}
	for i, s := range v.status {
		fates[i] = fateOf(s, int32(node))
	}
	if dead := p.Alive(); dead != nil {
		return v.gone(fates, dead)
	}
	return err
}

// filled returns n times a value, in the memory of a list.
func filled(list []int32, n int, value int32) []int32 {
	list = slices.Grow(list[:0], n)[:n]
	for i := range list {
		list[i] = value
	}
	return list
}

// ask reads the nodes of the pages for which the kernel wrote no status.
func (v *Mover) ask(p *Process, addresses []uint64) error {
	v.left = v.left[:0]
	for i, s := range v.status {
		if s == unwritten {
			v.left = append(v.left, addresses[i])
		}
	}
	var err error
	if v.nodes, err = p.Where(v.left, v.nodes); err != nil {
		return err
	}
	next := 0
	for i, s := range v.status {
		if s == unwritten {
			v.status[i] = v.nodes[next]
			next++
		}
	}
	return nil
}

// gone marks all pages as Gone if the process ended. Pages that moved before that moved in vain.
func (v *Mover) gone(fates []Fate, err error) error {
	if errors.Is(err, ErrExited) {
		for i := range fates {
			fates[i] = Gone
		}
	}
	return err
}

// fateOf translates a status: a node, or a negative error number (man 2 move_pages).
func fateOf(status, node int32) Fate {
	switch {
	case status == node:
		return There
	case status >= 0:
		return Stayed
	}
	switch syscall.Errno(-status) {
	case syscall.ENOENT, syscall.EFAULT:
		return Gone
	case syscall.EACCES:
		return Held
	case syscall.EBUSY:
		return Busy
	}
	return Stayed
}
