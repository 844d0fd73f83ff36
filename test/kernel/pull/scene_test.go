package main

import (
	"maps"
	"testing"
	"time"
)

// Threads of the tests. CPU 0 starts with an online thread, CPU 1 with a hog.
const (
	runner  = 10 // of the server
	stacked = 11 // of the server
	third   = 12 // of the server
	load    = 20
	burns   = 30
	migrate = 40 // the stopper of CPU 0
)

// script builds events, each a number of microseconds after the previous event.
type script struct {
	at     time.Duration
	events []Event
}

func (s *script) add(after int, e Event) {
	s.at += time.Duration(after) * time.Microsecond
	e.At = s.at
	s.events = append(s.events, e)
}

func (s *script) wakes(after, cpu, current, thread, to int) {
	s.add(after, Event{Kind: Wakeup, CPU: cpu, Current: current, Thread: thread, To: to})
}

func (s *script) switches(after, cpu, from, to int, ready bool) {
	s.add(after, Event{Kind: Switch, CPU: cpu, Current: from, Thread: to, Ready: ready, Stopper: to == migrate})
}

func (s *script) moves(after, cpu, current, thread, to int) {
	s.add(after, Event{Kind: Migrate, CPU: cpu, Current: current, Thread: thread, To: to, Stopper: current == migrate})
}

func (s *script) ticks(after, cpu, current int, kind Kind) {
	s.add(after, Event{Kind: kind, CPU: cpu, Current: current})
}

// began returns a script in which the running threads are known, and a thread has been woken behind the runner.
func began(other int) *script {
	s := &script{}
	s.ticks(1, 0, runner, TickEnd)
	s.ticks(1, 1, other, TickEnd)
	s.wakes(1, 0, runner, stacked, 0)
	return s
}

// TestScene covers each way in which a wait begins, continues and ends.
func TestScene(t *testing.T) {
	t.Parallel()
	type result struct {
		waits, stacks, unclear, left int
		time                         map[Place]float64
		moved, ended                 map[Mover]int
	}
	for name, c := range map[string]struct {
		script func() *script
		want   result
	}{
		"stacked until its own CPU comes free": {func() *script {
			s := began(burns)
			s.switches(1200, 0, runner, stacked, false)
			return s
		}, result{waits: 1, stacks: 1, time: map[Place]float64{BesideHogs: 1.2}, ended: map[Mover]int{OwnCPU: 1}}},
		"stacked until a tick balances": {func() *script {
			s := began(burns)
			s.ticks(900, 1, burns, TickBegin)
			s.moves(10, 1, burns, stacked, 1)
			s.ticks(10, 1, burns, TickEnd)
			s.switches(10, 1, burns, stacked, true)
			return s
		}, result{waits: 1, stacks: 1, time: map[Place]float64{BesideHogs: 0.91, BehindHog: 0.02}, moved: map[Mover]int{Tick: 1}, ended: map[Mover]int{Tick: 1}}},
		"pushed by the stopper": {func() *script {
			s := began(burns)
			s.switches(700, 0, runner, migrate, true)
			s.moves(10, 0, migrate, stacked, 1)
			s.switches(10, 1, burns, stacked, true)
			s.switches(0, 0, migrate, runner, false)
			return s
		}, result{waits: 2, stacks: 1, time: map[Place]float64{BesideHogs: 0.72, BehindHog: 0.01, Busy: 0.01}, moved: map[Mover]int{Stopper: 1}, ended: map[Mover]int{Stopper: 1}}},
		"pulled by new idle balance, beside a hog": {func() *script {
			s := began(burns)
			s.moves(600, 1, burns, stacked, 1)
			s.switches(0, 1, burns, stacked, false)
			return s
		}, result{waits: 1, stacks: 1, time: map[Place]float64{BesideHogs: 0.6}, moved: map[Mover]int{NewIdle: 1}, ended: map[Mover]int{NewIdle: 1}}},
		"pulled by new idle balance, alone": {func() *script {
			s := began(load)
			s.moves(300, 1, load, stacked, 1)
			s.switches(2, 1, load, stacked, false)
			return s
		}, result{waits: 1, time: map[Place]float64{Busy: 0.302}, moved: map[Mover]int{NewIdle: 1}}},
		"too short for a stack": {func() *script {
			s := began(burns)
			s.switches(500, 0, runner, stacked, false)
			return s
		}, result{waits: 1, time: map[Place]float64{BesideHogs: 0.5}}},
		"stacked, and a CPU is idle": {func() *script {
			s := began(0)
			s.switches(800, 0, runner, stacked, false)
			return s
		}, result{waits: 1, time: map[Place]float64{BesideIdle: 0.8}}},
		"a CPU is not with hogs only while another thread of the server waits there": {func() *script {
			s := began(burns)
			s.wakes(0, 0, runner, third, 1)
			s.switches(800, 0, runner, stacked, false)
			return s
		}, result{waits: 1, time: map[Place]float64{Busy: 0.8}, left: 1}},
		"an idle CPU beats one with hogs only": {func() *script {
			s := began(0)
			s.ticks(0, 2, burns, TickEnd)
			s.switches(800, 0, runner, stacked, false)
			return s
		}, result{waits: 1, time: map[Place]float64{BesideIdle: 0.8}}},
		"behind a hog": {func() *script {
			s := began(burns)
			s.switches(0, 0, runner, stacked, false)
			s.wakes(5, 0, stacked, runner, 1)
			s.switches(400, 1, burns, runner, true)
			return s
		}, result{waits: 2, time: map[Place]float64{BehindHog: 0.4}}},
		"preempted": {func() *script {
			s := began(burns)
			s.switches(0, 0, runner, stacked, true)
			s.switches(700, 0, stacked, runner, false)
			return s
		}, result{waits: 2, stacks: 1, time: map[Place]float64{BesideHogs: 0.7}, ended: map[Mover]int{OwnCPU: 1}}},
		"on an idle CPU": {func() *script {
			s := began(0)
			s.switches(0, 0, runner, stacked, false)
			s.wakes(5, 0, stacked, runner, 1)
			s.switches(60, 1, 0, runner, true)
			return s
		}, result{waits: 2, time: map[Place]float64{OnIdle: 0.06}}},
		"two on an idle CPU: each waits for the other": {func() *script {
			s := &script{}
			s.ticks(1, 0, 0, TickEnd)
			s.ticks(1, 1, burns, TickEnd)
			s.wakes(1, 1, burns, runner, 0)
			s.wakes(0, 1, burns, stacked, 0)
			s.switches(20, 0, 0, runner, true)
			s.switches(105, 0, runner, stacked, false)
			return s
		}, result{waits: 2, time: map[Place]float64{BesideHogs: 0.145}}},
		"current without a switch": {func() *script {
			s := began(burns)
			s.ticks(900, 1, stacked, TickBegin)
			s.switches(10, 1, stacked, burns, false)
			return s
		}, result{unclear: 1}},
		"woken while it still runs": {func() *script {
			s := began(burns)
			s.switches(0, 0, runner, stacked, false)
			s.wakes(5, 1, burns, stacked, 0)
			s.switches(900, 0, stacked, 0, false)
			return s
		}, result{waits: 1}},
		"woken twice": {func() *script {
			s := began(burns)
			s.wakes(300, 1, burns, stacked, 1)
			s.switches(300, 0, runner, stacked, false)
			return s
		}, result{waits: 1, stacks: 1, time: map[Place]float64{BesideHogs: 0.6}, ended: map[Mover]int{OwnCPU: 1}}},
		"moved before it waits": {func() *script {
			s := began(burns)
			s.switches(0, 0, runner, stacked, false)
			s.moves(5, 0, stacked, runner, 1)
			s.wakes(0, 0, stacked, runner, 1)
			s.switches(0, 1, burns, runner, true)
			return s
		}, result{waits: 2}},
		"still waiting at the end": {func() *script {
			s := began(burns)
			s.ticks(900, 1, burns, TickBegin)
			return s
		}, result{left: 1}},
		"its CPU went idle: it has run unseen": {func() *script {
			s := began(burns)
			s.switches(900, 0, runner, 0, false)
			return s
		}, result{unclear: 1}},
		"events out of order": {func() *script {
			s := began(burns)
			s.ticks(600, 0, runner, TickEnd)
			s.switches(-20, 1, burns, load, true)
			s.switches(100, 0, runner, stacked, false)
			return s
		}, result{waits: 1, stacks: 1, time: map[Place]float64{BesideHogs: 0.58, Busy: 0.1}, ended: map[Mover]int{OwnCPU: 1}}},
		"waits of others and of hogs": {func() *script {
			s := &script{}
			s.switches(1, 0, runner, load, false)
			s.wakes(1, 0, load, burns, 0)
			s.switches(900, 0, load, burns, true)
			s.switches(900, 0, burns, load, true)
			return s
		}, result{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Report{}
			s := scene{roles: map[int]role{runner: server, stacked: server, third: server, burns: hog}, arm: r.arm("arm")}
			for _, e := range c.script().events {
				s.take(e)
			}
			r.close()
			got := r.arm("arm")
			maps.DeleteFunc(got.Time, func(_ Place, ms float64) bool { return ms == 0 })
			if got.Waits != c.want.waits || got.Stacks.Count != c.want.stacks || got.Unclear != c.want.unclear {
				t.Errorf("%d waits, %d stacks, %d unclear; want %d, %d, %d", got.Waits, got.Stacks.Count, got.Unclear, c.want.waits, c.want.stacks, c.want.unclear)
			}
			if !maps.Equal(got.Time, c.want.time) || !maps.Equal(got.Moved, c.want.moved) || !maps.Equal(got.Ended, c.want.ended) {
				t.Errorf("waited %v, moved %v, ended %v; want %v, %v, %v", got.Time, got.Moved, got.Ended, c.want.time, c.want.moved, c.want.ended)
			}
			queued := 0
			for _, c := range s.cpus {
				queued += c.queued
			}
			if queued != c.want.left || len(s.waiting) != c.want.left {
				t.Errorf("%d threads in queues, %d wait, want %d", queued, len(s.waiting), c.want.left)
			}
		})
	}
}
