package bench

import (
	"testing"
	"time"

	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/test/plain"
)

// Time together counts while a hog runs on another thread of the server's core, even if the hog started before the
// first record. Nothing else counts.
func TestTogether(t *testing.T) {
	const server, hog, other = 7, 8, 9
	core := func(cpus ...int) (c topology.Core) {
		for _, cpu := range cpus {
			c.CPUs = c.CPUs.Add(cpu)
		}
		return c
	}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	to := func(millis, cpu, before, now int) kernel.Event {
		return kernel.Event{At: ms(millis), CPU: cpu, Before: kernel.Task{Process: before, Thread: before}, Now: kernel.Task{Process: now, Thread: now}}
	}
	smt, single := []topology.Core{core(0, 1), core(2, 3)}, []topology.Core{core(0), core(1)}
	for _, test := range []struct {
		name        string
		cores       []topology.Core
		records     []kernel.Event // the end is at 10 ms
		ran, beside int            // ms
	}{
		{"on one core", smt, []kernel.Event{to(2, 0, 0, server), to(4, 1, 0, hog), to(7, 1, hog, other)}, 8, 3},
		{"on two cores", smt, []kernel.Event{to(2, 0, 0, server), to(4, 2, 0, hog)}, 8, 0},
		{"one after the other", smt, []kernel.Event{to(2, 0, hog, server), to(5, 0, server, hog)}, 3, 0},
		{"ran before", smt, []kernel.Event{to(2, 0, 0, server), to(6, 1, hog, 0)}, 8, 4},
		{"two threads of the server", smt, []kernel.Event{to(2, 0, 0, server), to(2, 1, 0, server), to(5, 1, server, hog)}, 11, 5},
		{"no siblings", single, []kernel.Event{to(2, 0, 0, server), to(4, 1, 0, hog)}, 8, 0},
		{"no record", smt, nil, 0, 0},
	} {
		w := newScene(test.cores, map[int]side{server: online, hog: offline}, 0)
		w.take(test.records, 10*time.Millisecond)
		if w.ran != ms(test.ran) || w.beside != ms(test.beside) {
			t.Errorf("%s: %v beside hogs of %v, want %d of %d ms", test.name, w.beside, w.ran, test.beside, test.ran)
		}
	}
}

// TestTogetherAcrossReadings checks that a switch counts at its time although the reading before read other CPUs later
// than its own.
func TestTogetherAcrossReadings(t *testing.T) {
	const server, hog = 7, 8
	core := topology.Core{}
	core.CPUs = core.CPUs.Add(0).Add(1)
	w := newScene([]topology.Core{core}, map[int]side{server: online, hog: offline}, 0)
	ms, servers, hogs := time.Millisecond, kernel.Task{Process: server, Thread: server}, kernel.Task{Process: hog, Thread: hog}
	w.take([]kernel.Event{
		{At: 2 * ms, CPU: 0, Now: servers}, {At: 3 * ms, CPU: 1, Now: hogs}, {At: 7 * ms, CPU: 1, Before: hogs},
	}, 5*ms)
	if w.ran != 3*ms || w.beside != 2*ms {
		t.Errorf("until 5 ms: %v beside hogs of %v", w.beside, w.ran)
	}
	w.take([]kernel.Event{{At: 6 * ms, CPU: 0, Before: servers}, {At: 9 * ms, CPU: 1, Now: hogs}}, 10*ms)
	if w.ran != 4*ms || w.beside != 3*ms {
		t.Errorf("until 10 ms: %v beside hogs of %v, want 3 of 4 ms", w.beside, w.ran)
	}
}

// The waiting times of threads are summed. The sum is unknown if the kernel does not report them.
func TestWaited(t *testing.T) {
	host := plain.New(t)
	write := func(name, text string) { host.Write("proc/7/task/"+name, text) }
	write("7/comm", "server\n")
	root := host.Root()
	if _, ok, err := schedstat(root.FS(), 7, waited); ok || err != nil {
		t.Errorf("no schedstat: %v, %v", ok, err)
	}
	write("7/schedstat", "1000 20 3\n")
	write("8/schedstat", "1000 22 3\n")
	if sum, ok, err := schedstat(root.FS(), 7, waited); sum != 42 || !ok || err != nil {
		t.Errorf("two threads: %v, %v, %v", sum, ok, err)
	}
	write("8/schedstat", "0 0\n")
	if _, _, err := schedstat(root.FS(), 7, waited); err == nil {
		t.Error("two fields are taken for three")
	}
	if _, _, err := schedstat(root.FS(), 5, waited); err == nil {
		t.Error("a process that is not there")
	}
}
