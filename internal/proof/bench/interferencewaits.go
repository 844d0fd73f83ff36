package bench

import (
	"math"
	"time"

	"github.com/berth-project/berth/internal/linux/kernel"
)

// side is the side of a process: online is the server, offline are the hogs. All else belongs to others, also the
// program that makes the load.
type side uint8

const (
	others side = iota
	online
	offline
	// nobody is the side of a CPU that is idle, or whose thread is not known yet.
	nobody
	sideCount
)

// behind says what ran on the CPUs of waiting threads of online work, in mean numbers of waiting threads.
type behind struct {
	Offline, Online, Others, Nobody float64
	// Waits is the number of waits that ended. Unseen is the number of waits without a recorded begin or end.
	Waits, Unseen int
}

// waits adds up how long threads of online work were ready to run without a CPU, by the side that ran on their CPU in
// the meantime.
//
// A wait begins with the wakeup of a thread, on the CPU of the wakeup, or when a thread that could run on leaves its
// CPU. It ends when the thread runs, on any CPU. The kernel records the moves of threads that wait, so the CPU is known
// at any time. A wakeup names a thread and no process: therefore all threads are followed, and a wait counts once the
// thread's process is known. A wait from before the first event does not count.
//
// Not every kernel records all of these events. A wait without a recorded end does not count, and no event that is
// missing adds time to a side: a thread that leaves a CPU does not wait, and no thread waits on a CPU that becomes idle.
// The latter would be wrong for a group that its quota throttles, and beside core scheduling.
type waits struct {
	sides   map[int]side  // by process
	waiting map[int]*wait // by thread, of any process but those known to be of another side
	// processes has the process of each thread that ran, asleep the threads whose last switch was to sleep.
	processes map[int]int
	asleep    map[int]bool
	time      [sideCount]time.Duration // of the waits that ended
	// ended counts waits that ended, unseen those without a recorded begin or end.
	ended, unseen int
}

// wait is the wait of one thread up to now.
type wait struct {
	cpu  int
	time [sideCount]time.Duration
}

// pass adds time that passed on all CPUs.
func (w *waits) pass(passed time.Duration, running map[int]kernel.Task) {
	for _, one := range w.waiting {
		one.time[w.on(one.cpu, running)] += passed
	}
}

// on returns the side that runs on a CPU.
func (w *waits) on(cpu int, running map[int]kernel.Task) side {
	if task, known := running[cpu]; known && task.Thread != 0 {
		return w.sides[task.Process]
	}
	return nobody
}

// happens processes an event. running has its effect already.
func (w *waits) happens(e kernel.Event, running map[int]kernel.Task) {
	switch e.Kind {
	case kernel.Switched:
		w.leaves(e, running)
		w.runs(e.Now)
		if e.Now.Thread == 0 {
			w.empty(e.CPU)
		}
	case kernel.Woken:
		delete(w.asleep, e.Thread)
		if waiting := w.waiting[e.Thread]; waiting != nil {
			waiting.cpu = e.CPU
		} else if !isRunning(e.Thread, running) { // a thread on its way to sleep may be woken before it is there
			w.waiting[e.Thread] = &wait{cpu: e.CPU}
		}
	case kernel.Moved:
		if waiting := w.waiting[e.Thread]; waiting != nil {
			waiting.cpu = e.CPU
		}
	}
}

// leaves processes the thread that leaves the CPU. A thread that ended has no number. A thread that already runs on
// another CPU has left it before: the times of two CPUs may differ slightly.
func (w *waits) leaves(e kernel.Event, running map[int]kernel.Task) {
	if e.Before.Thread == 0 || e.Before.Thread == math.MaxUint32 {
		return
	}
	w.processes[e.Before.Thread] = e.Before.Process
	w.drop(e.Before.Thread)
	if w.sides[e.Before.Process] != online || isRunning(e.Before.Thread, running) {
		return
	}
	if e.Ready {
		w.waiting[e.Before.Thread] = &wait{cpu: e.CPU}
	} else {
		w.asleep[e.Before.Thread] = true
	}
}

// drop forgets the wait of a thread that has run in the meantime.
func (w *waits) drop(thread int) {
	if w.waiting[thread] == nil {
		return
	}
	delete(w.waiting, thread)
	if w.sides[w.processes[thread]] == online {
		w.unseen++
	}
}

// empty forgets the waits on a CPU that becomes idle.
func (w *waits) empty(cpu int) {
	for thread, one := range w.waiting {
		if one.cpu == cpu {
			w.drop(thread)
		}
	}
}

// runs processes the thread that has the CPU now.
func (w *waits) runs(now kernel.Task) {
	if now.Thread == 0 || now.Thread == math.MaxUint32 {
		return
	}
	w.processes[now.Thread] = now.Process
	waited := w.waiting[now.Thread]
	delete(w.waiting, now.Thread)
	if w.asleep[now.Thread] {
		delete(w.asleep, now.Thread)
		w.unseen++
	}
	if waited == nil || w.sides[now.Process] != online {
		return
	}
	w.ended++
	for s, d := range waited.time {
		w.time[s] += d
	}
}

// since returns the figures of a period.
func (w *waits) since(period time.Duration) behind {
	all := w.total()
	per := func(s side) float64 { return float64(all[s]) / float64(max(period, 1)) }
	return behind{Offline: per(offline), Online: per(online), Others: per(others), Nobody: per(nobody), Waits: w.ended, Unseen: w.unseen}
}

// total returns the time of all waits up to now, also of those that last.
func (w *waits) total() [sideCount]time.Duration {
	all := w.time
	for thread, one := range w.waiting {
		if process, known := w.processes[thread]; known && w.sides[process] == online {
			for s, d := range one.time {
				all[s] += d
			}
		}
	}
	return all
}

func isRunning(thread int, running map[int]kernel.Task) bool {
	for _, task := range running {
		if task.Thread == thread {
			return true
		}
	}
	return false
}
