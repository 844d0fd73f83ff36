package pages

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
)

// Fate is what became of one page of a list.
type Fate uint8

const (
	// Stayed says: the kernel did not come to it, or could not move it this time.
	Stayed Fate = iota
	// There says: it is on the target node.
	There
	// Gone says: it is no page of the process any more.
	Gone
	// Held says: another process has it mapped too.
	Held
	// Busy says: the kernel could not take it off its lists, this time.
	Busy
)

// unwritten is no node and no error number: the kernel did not say anything of a page.
const unwritten = math.MinInt32

// Mover moves pages of processes. It keeps memory between its calls, and is for one goroutine.
type Mover struct {
	nodes, status []int32
	left          []uint64
}

// Move moves pages of a process to a node, and says what became of each: fates has their
// length. All of them should be on other nodes, because every other page ends a batch of the
// kernel. It compares the identity of the process before and after the call. Shared says to
// move what other processes have mapped as well.
//
// With ErrNoMemory and ErrExited the fates count. With ErrMems, ErrNode and ErrRights
// nothing moved.
func (v *Mover) Move(p *Process, addresses []uint64, node int, shared bool, fates []Fate) error {
	if err := p.Alive(); err != nil {
		return v.gone(fates, err)
	}
	v.nodes, v.status = slices.Grow(v.nodes[:0], len(addresses)), slices.Grow(v.status[:0], len(addresses))
	for range addresses {
		v.nodes, v.status = append(v.nodes, int32(node)), append(v.status, unwritten)
	}
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

// ask asks for the nodes of the pages of which the kernel said nothing.
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

// gone marks the pages of a process that ended: what moved before moved in vain.
func (v *Mover) gone(fates []Fate, err error) error {
	if errors.Is(err, ErrExited) {
		for i := range fates {
			fates[i] = Gone
		}
	}
	return err
}

// fateOf reads a status: a node, or a negative error number (man 2 move_pages).
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
