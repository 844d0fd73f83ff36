package main

import (
	"slices"
	"time"
)

// role is the side of the benchmark that a thread belongs to.
type role uint8

const (
	other  role = iota // Neither: the load, the kernel, other processes of the host. Work that is not idle-class.
	server             // The request server: online work.
	hog                // Offline work, if any.
)

// shortStack is how long a thread may wait stacked before the wait counts as a stack.
const shortStack = 500 * time.Microsecond

// scene follows which thread runs on each CPU, and where threads of the server wait, during one arm of the benchmark.
// Its zero value with roles and an arm is ready for the first event of a trace.
//
// A thread waits from its wakeup, or from its preemption, until it is switched in.
type scene struct {
	roles   map[int]role
	arm     *Arm
	cpus    []processor
	waiting map[int]*wait
	at      time.Duration
}

// processor is the known state of one CPU.
type processor struct {
	known   bool
	current int
	stopper bool // Its current thread is the stopper.
	ticking bool // It balances because of a tick.
	queued  int  // Number of the server's threads that wait here.
}

// wait is one wait of one thread of the server.
type wait struct {
	cpu  int
	time [places]time.Duration
	by   Mover // The last mover, if any.
}

// take processes the next event.
func (s *scene) take(e Event) {
	s.pass(e.At)
	s.runs(e)
	cpu := s.cpu(e.CPU)
	switch e.Kind {
	case Switch:
		if e.Ready {
			s.begin(e.Current, e.CPU)
		}
		s.cpu(e.CPU).current, s.cpu(e.CPU).stopper = e.Thread, e.Stopper
		s.end(e.Thread)
		if e.Thread == 0 {
			s.empty(e.CPU)
		}
	case Wakeup:
		// A thread on its way to sleep may be woken while it is still current; it does not wait.
		if !slices.ContainsFunc(s.cpus, func(c processor) bool { return c.known && c.current == e.Thread }) {
			s.begin(e.Thread, e.To)
		}
	case Migrate:
		s.move(e.Thread, e.To, mover(*cpu))
	case TickBegin:
		cpu.ticking = true
	case TickEnd:
		cpu.ticking = false
	}
}

// runs accepts the event's current thread as the one that runs there, because the trace may lack the switch to it. On
// one tested host, a CPU recorded no switch away from a kernel thread or from idle. It is unknown when such a thread
// began to run, so its wait does not count.
func (s *scene) runs(e Event) {
	cpu := s.cpu(e.CPU)
	if !cpu.known || cpu.current != e.Current {
		cpu.known, cpu.current = true, e.Current
		cpu.stopper = e.Stopper && e.Kind != Switch
	}
	if w := s.waiting[e.Current]; w != nil {
		s.leave(e.Current, w)
		s.arm.Unclear++
	}
}

// empty ends all waits on a CPU that becomes idle: those threads have run without a recorded switch.
func (s *scene) empty(cpu int) {
	for thread, w := range s.waiting {
		if w.cpu == cpu {
			s.leave(thread, w)
			s.arm.Unclear++
		}
	}
}

// mover returns what makes a CPU move a thread now. The stopper moves a thread for a tick that found no other way
// (kernel/sched/fair.c, active_load_balance_cpu_stop). Otherwise the CPU is about to become idle
// (sched_balance_newidle), because a waking thread is moved before it waits.
func mover(c processor) Mover {
	switch {
	case c.ticking:
		return Tick
	case c.stopper:
		return Stopper
	}
	return NewIdle
}

// cpu returns a CPU, and adds it if necessary. The pointer is valid until the next call.
func (s *scene) cpu(n int) *processor {
	for len(s.cpus) <= n {
		s.cpus = append(s.cpus, processor{})
	}
	return &s.cpus[n]
}

// begin starts the wait of a server thread on a CPU.
func (s *scene) begin(thread, cpu int) {
	if s.roles[thread] != server || s.waiting[thread] != nil {
		return
	}
	if s.waiting == nil {
		s.waiting = map[int]*wait{}
	}
	s.waiting[thread] = &wait{cpu: cpu}
	s.cpu(cpu).queued++
}

// leave removes a thread from the waiting threads.
func (s *scene) leave(thread int, w *wait) {
	delete(s.waiting, thread)
	s.cpu(w.cpu).queued--
}

// end ends the wait of a thread that runs now.
func (s *scene) end(thread int) {
	w := s.waiting[thread]
	if w == nil {
		return
	}
	s.leave(thread, w)
	s.arm.Waits++
	for p, d := range w.time {
		s.arm.Time[Place(p)] += milliseconds(d)
	}
	if stacked := w.time[BesideHogs]; stacked > shortStack {
		s.arm.stacks = append(s.arm.stacks, stacked)
		s.arm.Ended[w.by]++
	}
}

// move moves a waiting thread to another CPU.
func (s *scene) move(thread, to int, by Mover) {
	w := s.waiting[thread]
	if w == nil {
		return
	}
	s.cpu(w.cpu).queued--
	s.cpu(to).queued++
	w.cpu, w.by = to, by
	s.arm.Moved[by]++
}

// pass adds the time up to now to each waiting thread. The records of two CPUs may be slightly out of order: then now
// is earlier, and pass subtracts the excess.
func (s *scene) pass(now time.Duration) {
	passed := now - s.at
	s.at = now
	if len(s.waiting) == 0 {
		return
	}
	beside := s.beside()
	for _, w := range s.waiting {
		w.time[s.place(w, beside)] += passed
	}
}

// place returns where a thread waits, depending on what its own CPU runs and on the other CPUs. Of several threads on
// an idle CPU one is about to run, and the others wait behind it.
func (s *scene) place(w *wait, beside Place) Place {
	switch c := s.cpu(w.cpu); {
	case c.known && c.current == 0 && c.queued == 1:
		return OnIdle
	case s.roles[c.current] == hog:
		return BehindHog
	}
	return beside
}

// beside returns the place of a thread that waits behind online work. A CPU with a waiting thread counts neither as
// idle nor as running only hogs.
func (s *scene) beside() Place {
	beside := Busy
	for _, c := range s.cpus {
		switch {
		case !c.known || c.queued > 0:
		case c.current == 0:
			return BesideIdle
		case s.roles[c.current] == hog:
			beside = BesideHogs
		}
	}
	return beside
}
