package nri

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// call is an event on its way to the handler.
type call struct {
	ctx    context.Context // ends when no call waits for the answer any more
	event  Event
	answer chan answer
	// settled is set once, by the first of two: the handler's goroutine with an answer, or the waiting goroutine when
	// it gives up.
	settled atomic.Bool
}

type answer struct {
	reply Reply
	err   error
}

// ask passes an event to the handler and waits for its answer within the limit. The runtime may see the error.
func (p *Plugin) ask(ctx context.Context, e Event) (Reply, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.within())
	defer cancel()
	c := &call{ctx: ctx, event: e, answer: make(chan answer, 1)}
	select {
	case p.calls <- c:
	default:
		return Reply{}, ErrOverrun
	}
	if p.opts.Waits != nil {
		defer func() { p.opts.Waits.Observe(time.Since(start).Seconds()) }()
	}
	select {
	case a := <-c.answer:
		return a.reply, a.err
	case <-ctx.Done():
	}
	if c.settled.Swap(true) {
		a := <-c.answer
		return a.reply, a.err
	}
	return Reply{}, p.late(e)
}

// late records that the handler missed the limit, and returns the error for the runtime.
func (p *Plugin) late(e Event) error {
	p.mu.Lock()
	p.status.Late++
	p.mu.Unlock()
	p.opts.Log.Warn("NRI request not answered in time", "event", e.Kind, "pod", e.Pod.Namespace+"/"+e.Pod.Name,
		"container", e.Container.Name, "limit", p.within())
	if e.Kind.mayRefuse() && e.Kind != Synchronize && p.opts.MustAnswer != nil && p.opts.MustAnswer(e) {
		return fmt.Errorf("%s of container %s: %w (%v)", e.Kind, e.Container.Name, ErrLate, p.within())
	}
	return nil
}

// answer passes events to the handler, one after the other, until ctx ends.
func (p *Plugin) answer(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-p.calls:
			p.handle(ctx, c)
		}
	}
}

// handle passes one call to the handler.
func (p *Plugin) handle(ctx context.Context, c *call) {
	given := c.ctx.Err() != nil
	if given && (c.event.Kind == Create || c.event.Kind == Update) {
		return // the runtime has continued without an answer, or got an error
	}
	within := c.ctx
	if given {
		fresh, cancel := context.WithTimeout(ctx, p.within())
		defer cancel()
		within = fresh
	}
	reply, err := p.opts.Handler.Handle(within, c.event)
	if err != nil && !c.event.Kind.mayRefuse() {
		p.opts.Log.Warn("NRI event failed", "event", c.event.Kind, "container", c.event.Container.ID, "err", err)
	}
	if !c.settled.Swap(true) {
		c.answer <- answer{reply, err}
		return
	}
	if err == nil && c.event.Kind.wantsReply() && !reply.isZero() {
		p.reportDropped(ctx, c.event)
	}
}

// reportDropped tells the handler that its last reply was too late.
func (p *Plugin) reportDropped(ctx context.Context, e Event) {
	ctx, cancel := context.WithTimeout(ctx, p.within())
	defer cancel()
	dropped := Event{Kind: Dropped, Lost: e.Kind, Pod: e.Pod, Container: e.Container, Requested: e.Requested}
	if _, err := p.opts.Handler.Handle(ctx, dropped); err != nil {
		p.opts.Log.Warn("NRI event failed", "event", Dropped, "container", e.Container.ID, "err", err)
	}
}
