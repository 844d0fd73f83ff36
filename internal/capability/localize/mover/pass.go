package mover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/linux/pages"
)

const (
	// turnBytes is how much one order moves in its turn.
	turnBytes = 1 << 30
	// turnCalls is how many calls that move nothing use up a turn.
	turnCalls = 128
	// mostExits bounds the list of ended processes, which a fork storm makes long.
	mostExits = 100
	// mostStuck is how many processes of a group may fail to answer: each costs the pass up to five seconds.
	mostStuck = 4
)

// pass is the execution of one order over one or more turns. Only the goroutine of Run uses it.
type pass struct {
	m       *Mover
	entry   *entry
	order   Order
	report  Report
	pace    locality.Pace
	began   time.Duration // of the first turn
	walk    walk
	zones   map[int]pages.Zones
	targets map[int][]int         // of each remote node
	short   map[int]time.Duration // since when the watermarks of a node allow no call
	taken   map[stock]int64       // bytes that a dry run would have moved
	due     time.Duration         // of the next turn
	sole    map[string]bool       // shared memory that no process outside of the group has mapped
	rescan  time.Duration         // when to scan again, by the clock
	starved bool                  // a call for the list found no memory
	budget  int64                 // bytes left of the turn
	batch   []page                // pages to move
	uniform bool                  // the batch is of one lot, in the order of addresses
	// sent are the pages of the last call, and their fates.
	sent struct {
		list  []uint64
		fates []pages.Fate
	}
	// kept is reused memory for lists, which are long.
	kept struct{ batch, single []page }
}

// stock is the memory of a node: base pages, or the pool of a size.
type stock struct {
	node int
	size int64
}

// errPaused ends a turn but not the pass.
var errPaused = errors.New("pass pauses")

func newPass(m *Mover, e *entry) *pass {
	now := m.opts.Clock()
	p := &pass{m: m, entry: e, order: e.order, report: e.report, pace: locality.NewPace(e.order.Rate, now), began: now}
	p.report.Left = map[locality.Left]int64{}
	p.walk.done, p.short, p.taken = map[int]uint64{}, map[int]time.Duration{}, map[stock]int64{}
	if p.order.Targets.IsEmpty() {
		p.order.Targets = p.order.Local
	}
	return p
}

// turn moves up to turnBytes, and publishes the progress.
func (p *pass) turn(ctx context.Context) {
	more, err := true, p.prepare(ctx)
	for more && err == nil && p.budget > 0 {
		more, err = p.step(ctx)
	}
	if err == nil { // The next order must not begin with this order's debt to the rate.
		err = p.wait(ctx, p.pace.Wait(p.m.opts.Clock()))
	}
	switch {
	case errors.Is(err, errPaused):
		now := p.m.opts.Clock()
		why, left := p.pace.Paused(now)
		p.report.Phase, p.report.Reason, p.due = Paused, why, now+left
	case err != nil || !more:
		p.finish(err)
	}
	p.publish()
}

// prepare reads the state of the nodes, once a turn: the files about zones are long.
func (p *pass) prepare(ctx context.Context) error {
	p.report.Phase, p.report.Reason, p.budget = Moving, "", turnBytes
	if p.canceled(ctx) {
		return ErrCanceled
	}
	if err := pages.MayEnd(p.m.opts.Kernel); err != nil && !p.order.DryRun {
		return err
	}
	var err error
	if p.zones, err = pages.ReadZones(p.m.opts.Kernel); err != nil {
		return err
	}
	if err := p.m.mayUse(p.order.Targets); err != nil {
		return err
	}
	room := map[int]int64{}
	for node := range p.order.Targets.All() {
		now, err := p.memory(node)
		if err != nil {
			return err
		}
		room[node] = now.Room(p.order.Unused.At(node))
	}
	p.targets = p.order.Nodes.Targets(p.order.Local, func(node int) int64 { return room[node] })
	for from, to := range p.targets {
		p.targets[from] = slices.DeleteFunc(to, func(node int) bool { return !p.order.Targets.Contains(node) })
	}
	return nil
}

// memory returns the memory of a node. It subtracts what a dry run would have moved there.
func (p *pass) memory(node int) (locality.NodeMemory, error) {
	now, err := p.m.memory(node, p.zones)
	now.Free -= p.taken[stock{node, pages.Size}] + p.taken[stock{node, pages.HugeSize}]
	return now, err
}

// step collects a list of pages of one process and moves it. It reports whether there is more.
func (p *pass) step(ctx context.Context) (bool, error) {
	if p.canceled(ctx) {
		return false, ErrCanceled
	}
	more, err := true, error(nil)
	if len(p.batch) == 0 { // and no pause left pages of the last step
		began := p.m.opts.Clock()
		more, err = p.collect(ctx)
		p.report.Looked += p.m.opts.Clock() - began
	}
	if err == nil {
		err = p.place(ctx)
	}
	switch {
	case errors.Is(err, pages.ErrExited):
		p.exited(err)
		err = nil
	case errors.Is(err, pages.ErrStuck):
		err = p.skip(err)
	}
	return more, err
}

// skip ends the walk of a process that does not answer: its pages that were found and not moved stay. It returns an
// error once the pass has met too many of these processes.
func (p *pass) skip(stuck error) error {
	for _, g := range p.batch {
		p.report.leave(locality.LeftBusy, g.base())
	}
	p.batch = p.batch[:0]
	p.report.warn("its pages stay: %v", stuck)
	p.walk.leave()
	if p.walk.stuck++; p.walk.stuck >= mostStuck {
		return fmt.Errorf("%d processes of the group do not answer, the last one: %w", p.walk.stuck, stuck)
	}
	return nil
}

// exited ends the walk of a process that ended: its pages that were found and not moved count as gone.
func (p *pass) exited(err error) {
	for _, g := range p.batch {
		p.report.leave(locality.LeftGone, g.base())
	}
	p.batch = p.batch[:0]
	if len(p.report.Exited) < mostExits {
		p.report.Exited = append(p.report.Exited, Exit{PID: p.walk.pid, Err: err})
	}
	p.walk.leave()
}

// place moves the batch, the pages of each node to its first target with room, larger pages first. With an error the
// batch is the undecided pages.
func (p *pass) place(ctx context.Context) error {
	if !p.uniform {
		slices.SortFunc(p.batch, func(a, b page) int {
			if larger := b.lot() - a.lot(); larger != 0 {
				return larger
			}
			return cmp.Compare(a.address, b.address)
		})
	}
	for len(p.batch) > 0 {
		first := p.batch[0]
		from, n := int(first.node), -1
		if !p.uniform {
			n = slices.IndexFunc(p.batch, func(g page) bool { return g.lot() != first.lot() })
		}
		if n < 0 {
			n = len(p.batch)
		}
		list := p.batch[:n]
		if first.shared {
			list = p.among(list)
		}
		rest, err := p.toTargets(ctx, from, list)
		if err != nil {
			p.batch, p.uniform = slices.Concat(rest, p.batch[n:]), false
			return err
		}
		p.batch = p.batch[n:]
		if p.report.leaveFull(rest) {
			return fmt.Errorf("%w: nodes %v for pages of node %d", ErrNoRoom, p.targets[from], from)
		}
	}
	return nil
}

// toTargets tries the targets in order, and returns the pages for which none has room.
func (p *pass) toTargets(ctx context.Context, from int, rest []page) ([]page, error) {
	var err error
	for _, to := range p.targets[from] {
		if rest, err = p.send(ctx, locality.Pair{From: from, To: to}, rest); err != nil || len(rest) == 0 {
			break
		}
	}
	return rest, err
}

// finish ends the pass. It drops pages that were found and not tried.
func (p *pass) finish(err error) {
	p.walk.leave()
	r := &p.report
	for _, g := range p.batch {
		r.Found -= g.base()
	}
	r.Phase, r.Reason, r.Err, r.Ended = Done, "", err, p.m.opts.Clock()
	switch {
	case err != nil:
		r.Outcome = locality.Failed
	case r.Found == r.Left[locality.LeftSwapped]:
		r.Outcome = locality.Skipped
	default:
		r.Outcome = locality.Completed
	}
	p.m.opts.Log.Info("moved pages of a group", "order", r.Key, "group", p.order.Group,
		"outcome", r.Outcome, "bytes", r.Bytes(), "calls", r.Calls, "error", err)
}

func (p *pass) publish() {
	if passed := p.m.opts.Clock() - p.began; passed > 0 {
		p.report.Rate = float64(p.report.Bytes()) / passed.Seconds()
	}
	p.report.Pauses = p.pace.Pauses()
	p.m.publish(p.entry, p.report)
}

// canceled reports whether the pass or the mover was told to end.
func (p *pass) canceled(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	case <-p.entry.stop:
		return true
	default:
		return false
	}
}

// wait waits, unless the pass is canceled.
func (p *pass) wait(ctx context.Context, d time.Duration) error {
	if p.canceled(ctx) {
		return ErrCanceled
	}
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
	case <-p.entry.stop:
	}
	return ErrCanceled
}
