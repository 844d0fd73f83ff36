package bench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	_ "github.com/berth-project/berth/test/chance"
)

// The processes of the tests. Threads are numbered 10 times their process, and up.
const (
	serverProcess, hogProcess, otherProcess = 7, 8, 9

	first, second, hogThread, otherThread = 70, 71, 80, 90
)

func testSides() map[int]side { return map[int]side{serverProcess: online, hogProcess: offline} }

func taskOf(thread int) kernel.Task { return kernel.Task{Process: thread / 10, Thread: thread} }

// switched returns a switch at a millisecond; thread 0 is the idle thread.
func switched(millis, cpu, before, now int, ready bool) kernel.Event {
	return kernel.Event{At: time.Duration(millis) * time.Millisecond, CPU: cpu, Before: taskOf(before), Now: taskOf(now), Ready: ready}
}

func queued(kind kernel.EventKind, millis, thread, cpu int) kernel.Event {
	return kernel.Event{Kind: kind, At: time.Duration(millis) * time.Millisecond, Thread: thread, CPU: cpu}
}

// TestWaits checks behind whom threads of the server wait, case by case. All cases end at 20 ms.
func TestWaits(t *testing.T) {
	const ready = true
	for name, c := range map[string]struct {
		events                          []kernel.Event
		offline, online, others, nobody int // ms
		waits, unseen                   int
	}{
		"woken behind a hog": {events: []kernel.Event{
			switched(1, 0, 0, hogThread, false), queued(kernel.Woken, 2, first, 0), switched(5, 0, hogThread, first, ready),
		}, offline: 3, waits: 1},
		"woken behind another thread of the server": {events: []kernel.Event{
			switched(1, 0, 0, second, false), queued(kernel.Woken, 2, first, 0), switched(5, 0, second, first, false),
		}, online: 3, waits: 1},
		"woken behind another process": {events: []kernel.Event{
			switched(1, 0, 0, otherThread, false), queued(kernel.Woken, 2, first, 0), switched(5, 0, otherThread, first, false),
		}, others: 3, waits: 1},
		"woken on an idle CPU": {events: []kernel.Event{
			switched(1, 0, otherThread, 0, false), queued(kernel.Woken, 2, first, 0), switched(5, 0, 0, first, ready),
		}, nobody: 3, waits: 1},
		"behind one after the other": {events: []kernel.Event{
			switched(1, 0, 0, hogThread, false), queued(kernel.Woken, 2, first, 0), switched(3, 0, hogThread, otherThread, ready),
			switched(5, 0, otherThread, second, false), switched(9, 0, second, first, false),
		}, offline: 1, others: 2, online: 4, waits: 1},
		"preempted": {events: []kernel.Event{
			switched(1, 0, 0, first, false), switched(3, 0, first, hogThread, ready), switched(7, 0, hogThread, first, ready),
		}, offline: 4, waits: 1},
		"sleeps": {events: []kernel.Event{
			switched(1, 0, 0, first, false), switched(3, 0, first, hogThread, false), queued(kernel.Woken, 6, first, 0), switched(7, 0, hogThread, first, ready),
		}, offline: 1, waits: 1},
		"moved from a hog's CPU behind an online thread": {events: []kernel.Event{
			switched(1, 0, 0, hogThread, false), switched(1, 1, 0, second, false), queued(kernel.Woken, 2, first, 0),
			queued(kernel.Moved, 6, first, 1), switched(9, 1, second, first, false),
		}, offline: 4, online: 3, waits: 1},
		"moved as it wakes": {events: []kernel.Event{
			switched(1, 0, 0, hogThread, false), switched(1, 1, 0, second, false), queued(kernel.Moved, 2, first, 1),
			queued(kernel.Woken, 2, first, 1), switched(9, 1, second, first, false),
		}, online: 7, waits: 1},
		"runs on another CPU than it waited on": {events: []kernel.Event{
			switched(1, 0, 0, hogThread, false), queued(kernel.Woken, 2, first, 0), switched(5, 1, 0, first, false),
		}, offline: 3, waits: 1},
		"woken twice": {events: []kernel.Event{
			switched(1, 0, 0, hogThread, false), queued(kernel.Woken, 2, first, 0), queued(kernel.Woken, 4, first, 0), switched(5, 0, hogThread, first, ready),
		}, offline: 3, waits: 1},
		"woken while it runs": {events: []kernel.Event{
			switched(1, 0, 0, first, false), queued(kernel.Woken, 2, first, 0), switched(5, 0, first, hogThread, false),
		}},
		"still waits at the end": {events: []kernel.Event{
			switched(1, 0, 0, first, false), switched(3, 0, first, hogThread, ready),
		}, offline: 17},
		"new, and waits at the end: its process is not known": {events: []kernel.Event{
			switched(1, 0, 0, hogThread, false), queued(kernel.Woken, 2, first, 0),
		}},
		"waits of hogs and others": {events: []kernel.Event{
			switched(1, 0, hogThread, first, ready), queued(kernel.Woken, 2, otherThread, 0), switched(5, 0, first, otherThread, false),
			switched(6, 0, otherThread, hogThread, ready),
		}},
		"ran before the first event": {events: []kernel.Event{
			queued(kernel.Woken, 2, first, 0), switched(5, 0, hogThread, first, ready),
		}, offline: 3, waits: 1},
		"a CPU without any switch": {events: []kernel.Event{
			switched(1, 1, first, 0, false), queued(kernel.Woken, 2, first, 0), switched(5, 1, 0, first, false),
		}, nobody: 3, waits: 1},
		"ran unrecorded, and sleeps": {events: []kernel.Event{
			switched(1, 0, 0, hogThread, false), queued(kernel.Woken, 2, first, 0), switched(5, 0, first, hogThread, false),
		}, unseen: 1},
		"ran unrecorded, and waits again": {events: []kernel.Event{
			switched(1, 0, 0, hogThread, false), queued(kernel.Woken, 2, first, 0), switched(5, 0, first, hogThread, ready), switched(9, 0, hogThread, first, ready),
		}, offline: 4, waits: 1, unseen: 1},
		"ran and slept unrecorded: its CPU becomes idle": {events: []kernel.Event{
			switched(1, 0, 0, first, false), switched(2, 0, first, hogThread, ready), switched(5, 0, hogThread, 0, false),
		}, unseen: 1},
		"another CPU becomes idle": {events: []kernel.Event{
			switched(1, 0, 0, hogThread, false), queued(kernel.Woken, 2, first, 0), switched(3, 1, hogThread, 0, ready), switched(5, 0, hogThread, first, ready),
		}, offline: 3, waits: 1},
		"a wakeup that is not recorded": {events: []kernel.Event{
			switched(1, 0, 0, first, false), switched(3, 0, first, hogThread, false), switched(7, 0, hogThread, first, ready),
		}, unseen: 1},
		"another process's wakeup that is not recorded": {events: []kernel.Event{
			switched(1, 0, 0, otherThread, false), switched(3, 0, otherThread, hogThread, false), switched(7, 0, hogThread, otherThread, ready),
		}},
		"left a CPU after it runs on another": {events: []kernel.Event{
			switched(1, 0, 0, first, false), switched(3, 1, 0, first, false), switched(3, 0, first, hogThread, ready),
		}},
		"a thread that ended": {events: []kernel.Event{
			{At: 1, Before: kernel.Task{Process: serverProcess, Thread: 1<<32 - 1}, Now: taskOf(hogThread), Ready: true},
			{At: 2, Before: taskOf(hogThread), Now: kernel.Task{Process: serverProcess, Thread: 1<<32 - 1}, Ready: true},
		}},
	} {
		trace := newScene(nil, testSides(), 0)
		trace.take(c.events, 20*time.Millisecond)
		got := trace.waits.total()
		want := [sideCount]time.Duration{}
		for s, millis := range map[side]int{offline: c.offline, online: c.online, others: c.others, nobody: c.nobody} {
			want[s] = time.Duration(millis) * time.Millisecond
		}
		if got != want || trace.waits.ended != c.waits || trace.waits.unseen != c.unseen {
			t.Errorf("%s: others, online, offline, nobody %v in %d waits, %d unseen; want %v in %d, %d",
				name, got, trace.waits.ended, trace.waits.unseen, want, c.waits, c.unseen)
		}
	}
}

// TestFigures checks that a lost event makes all figures unknown, and that they say behind whom threads wait only with
// wakeups.
func TestFigures(t *testing.T) {
	core := topology.Core{CPUs: cpuset.Set{}.Add(0).Add(1)}
	s := newScene([]topology.Core{core}, testSides(), 0)
	s.take([]kernel.Event{
		switched(0, 1, 0, hogThread, false), switched(0, 0, 0, first, false), switched(4, 0, first, hogThread, true), switched(9, 0, hogThread, first, true),
	}, 10*time.Millisecond)
	if r := s.figures(s.at, true, 1); r.together != nil || r.behind != nil || r.lost != 1 {
		t.Errorf("an event was lost: %+v", r)
	}
	if r := s.figures(s.at, false, 0); r.together == nil || *r.together != 1 || r.behind != nil {
		t.Errorf("no wakeups: %+v", r)
	}
	if r := s.figures(s.at, true, 0); r.behind == nil || *r.behind != (behind{Offline: 0.5, Waits: 1}) {
		t.Errorf("waited %+v, want half of the time behind a hog", r.behind)
	}
}

// machine is a machine that schedules at random. It writes the events, and separately counts every microsecond of each
// thread: the oracle.
type machine struct {
	now     time.Duration
	running []int       // the thread on each CPU
	ready   map[int]int // the CPU of each waiting thread
	seen    map[int]bool
	waited  map[int]*[sideCount]time.Duration // by thread
	ended   int
	rings   [][]kernel.Event
}

// step lets microseconds pass, each for all threads.
func (m *machine) step(micros int) {
	for range micros {
		m.now += time.Microsecond
		for thread, cpu := range m.ready {
			by := testSides()[m.running[cpu]/10]
			if m.running[cpu] == 0 {
				by = nobody
			}
			if m.waited[thread] == nil {
				m.waited[thread] = &[sideCount]time.Duration{}
			}
			m.waited[thread][by] += time.Microsecond
		}
	}
}

func (m *machine) switchTo(cpu, thread int, ready bool) {
	before := m.running[cpu]
	m.rings[cpu] = append(m.rings[cpu], kernel.Event{At: m.now, CPU: cpu, Before: taskOf(before), Now: taskOf(thread), Ready: ready || before == 0})
	if ready && before != 0 {
		m.ready[before] = cpu
	}
	if thread != 0 && testSides()[thread/10] == online {
		m.ended++
	}
	delete(m.ready, thread)
	m.running[cpu] = thread
	m.seen[before], m.seen[thread] = true, true
}

// act does something that is possible now, with one of the threads on one of the CPUs. Any CPU may record a wakeup.
func (m *machine) act(t *rapid.T, threads []int) {
	cpu, by := rapid.IntRange(0, len(m.running)-1).Draw(t, "cpu"), rapid.IntRange(0, len(m.running)-1).Draw(t, "by")
	thread := rapid.SampledFrom(threads).Draw(t, "thread")
	at, waits := m.ready[thread]
	runs := slices.Contains(m.running, thread)
	switch what := rapid.IntRange(0, 3).Draw(t, "what"); {
	case what == 0 && !waits && !runs:
		m.ready[thread] = cpu
		m.rings[by] = append(m.rings[by], kernel.Event{Kind: kernel.Woken, At: m.now, CPU: cpu, Thread: thread})
	case what == 0 && runs: // woken on its way to sleep
		m.rings[by] = append(m.rings[by], kernel.Event{Kind: kernel.Woken, At: m.now, CPU: slices.Index(m.running, thread), Thread: thread})
	case what == 1 && waits:
		m.ready[thread] = cpu
		m.rings[by] = append(m.rings[by], kernel.Event{Kind: kernel.Moved, At: m.now, CPU: cpu, Thread: thread})
	case what == 2 && waits:
		m.switchTo(at, thread, rapid.Bool().Draw(t, "ready"))
	case what == 3 && m.running[cpu] != 0 && !slices.Contains(slices.Collect(maps.Values(m.ready)), cpu):
		m.switchTo(cpu, 0, false) // no thread waits on an idle CPU for long
	}
}

// TestWaitsAgainstAnOracle checks the sums of random histories against a count of each microsecond of each thread. The
// events arrive in readings, of which some have later events of some CPUs only.
func TestWaitsAgainstAnOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cpus := rapid.IntRange(1, 3).Draw(t, "cpus")
		threads := rapid.SliceOfNDistinct(rapid.SampledFrom([]int{70, 71, 72, 80, 81, 90, 91}), 1, 7, rapid.ID).Draw(t, "threads")
		m := machine{running: make([]int, cpus), ready: map[int]int{}, seen: map[int]bool{}, waited: map[int]*[sideCount]time.Duration{}, rings: make([][]kernel.Event, cpus)}
		for cpu := range cpus {
			m.switchTo(cpu, 0, false)
		}
		trace, until := newScene(nil, testSides(), 0), []time.Duration{}
		for range rapid.IntRange(1, 60).Draw(t, "actions") {
			m.step(rapid.IntRange(1, 5).Draw(t, "micros"))
			m.act(t, threads)
			if rapid.IntRange(0, 9).Draw(t, "reading") == 0 {
				until = append(until, m.now)
			}
		}
		m.step(rapid.IntRange(0, 5).Draw(t, "micros"))
		for _, at := range append(until, m.now) {
			var reading []kernel.Event
			for i, ring := range m.rings {
				n := 0
				for n < len(ring) && (ring[n].At <= at || rapid.Bool().Draw(t, "early")) {
					n++
				}
				reading, m.rings[i] = append(reading, ring[:n]...), ring[n:]
			}
			slices.SortStableFunc(reading, func(a, b kernel.Event) int { return cmp.Compare(a.At, b.At) })
			trace.take(reading, at)
		}
		want := [sideCount]time.Duration{}
		for thread, waited := range m.waited {
			if testSides()[thread/10] == online && m.seen[thread] {
				for s, d := range waited {
					want[s] += d
				}
			}
		}
		if got := trace.waits.total(); got != want || trace.waits.ended != m.ended || trace.waits.unseen != 0 {
			t.Fatalf("others, online, offline, nobody %v in %d waits, %d unseen; want %v in %d; %s",
				got, trace.waits.ended, trace.waits.unseen, want, m.ended, fmt.Sprint(slices.Sorted(maps.Keys(m.seen))))
		}
	})
}
