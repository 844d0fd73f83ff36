package main

import (
	"errors"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const at = 81369*time.Second + 2951*time.Microsecond
	for name, c := range map[string]struct {
		line string
		want Event
		err  error
	}{
		"wakeup": {
			line: "           berth-20350   [000] dN.2. 81369.002951: sched_wakeup: comm=berth pid=20352 prio=120 target_cpu=001",
			want: Event{Kind: Wakeup, At: at, Current: 20350, Thread: 20352, To: 1},
		},
		"a new thread": {
			line: "          <idle>-0       [015] d..2. 81369.002951: sched_wakeup_new: comm=berth pid=7 prio=120 target_cpu=015",
			want: Event{Kind: Wakeup, At: at, CPU: 15, Thread: 7, To: 15},
		},
		"sleeps": {
			line: "exe-20 [001] d..2. 81369.002951: sched_switch: prev_comm=exe prev_pid=20 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120",
			want: Event{Kind: Switch, At: at, CPU: 1, Current: 20},
		},
		"preempted by the stopper": {
			line: "exe-20 [001] d..2. 81369.002951: sched_switch: prev_comm=exe prev_pid=20 prev_prio=120 prev_state=R+ ==> next_comm=migration/1 next_pid=22 next_prio=0",
			want: Event{Kind: Switch, At: at, CPU: 1, Current: 20, Ready: true, Stopper: true, Thread: 22},
		},
		"moved by the stopper": {
			line: "     migration/1-22      [001] d..2. 81369.002951: sched_migrate_task: comm=exe pid=20 prio=120 orig_cpu=1 dest_cpu=0",
			want: Event{Kind: Migrate, At: at, CPU: 1, Current: 22, Stopper: true, Thread: 20},
		},
		"a tick balances": {
			line: "          <idle>-0       [000] ..s1. 81369.002951: softirq_entry: vec=7 [action=SCHED]",
			want: Event{Kind: TickBegin, At: at},
		},
		"and ends": {
			line: "          <idle>-0       [000] ..s1. 81369.002951: softirq_exit: vec=7 [action=SCHED]",
			want: Event{Kind: TickEnd, At: at},
		},
		"names that hold anything": {
			line: "a-1 [x] pid=3: -20 [001] d..2. 81369.002951: sched_switch: prev_comm=a-1 [x] pid=3:  prev_pid=20 prev_prio=120 prev_state=R ==> next_comm=b next_pid=1 c next_pid=9 next_prio=1",
			want: Event{Kind: Switch, At: at, CPU: 1, Current: 20, Ready: true, Thread: 9},
		},
		"a woken name that holds anything": {
			line: "<...>-20 [001] d..2. 81369.002951: sched_wakeup: comm=a pid=3 [001]  pid=20352 prio=120 target_cpu=001",
			want: Event{Kind: Wakeup, At: at, CPU: 1, Current: 20, Thread: 20352, To: 1},
		},
		"comment":      {line: "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION"},
		"buffer":       {line: "##### CPU 1 buffer started ####"},
		"nothing":      {line: "  "},
		"lost":         {line: "CPU:1 [LOST 12 EVENTS]", err: errLost},
		"another one":  {line: "exe-20 [001] d..2. 81369.002951: sched_waking: comm=a pid=1 prio=120 target_cpu=001", err: errLine},
		"no CPU":       {line: "exe-20 d..2. 81369.002951: softirq_exit: vec=7", err: errLine},
		"no thread":    {line: "exe- [001] d..2. 81369.002951: softirq_exit: vec=7", err: errLine},
		"no task":      {line: " [001] d..2. 81369.002951: softirq_exit: vec=7", err: errLine},
		"no time":      {line: "exe-20 [001] d..2. sched_switch: prev_pid=1", err: errLine},
		"another time": {line: "exe-20 [001] d..2. 81369.2951: softirq_exit: vec=7", err: errLine},
		"cut in half":  {line: "exe-20 [001] d..2. 81369.002951: sched_wakeup: comm=berth pid=203", err: errLine},
		"cut earlier":  {line: "exe-20 [001] d..2. 813", err: errLine},
		"half a switch": {
			line: "exe-20 [001] d..2. 81369.002951: sched_switch: prev_comm=exe prev_pid=20 prev_prio=120 prev_state=S", err: errLine,
		},
		"a number that is none": {line: "exe-20 [001] d..2. 81369.002951: sched_wakeup: comm=b pid=-1 prio=120 target_cpu=001", err: errLine},
		"a number too large":    {line: "exe-20 [001] d..2. 81369.002951: sched_wakeup: comm=b pid=99999999999999999999 prio=1 target_cpu=001", err: errLine},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok, err := parse([]byte(c.line))
			if !errors.Is(err, c.err) || ok != (c.want != Event{}) {
				t.Fatalf("ok %v, %v; want the error %v", ok, err, c.err)
			}
			if ok && got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// FuzzParse checks that no line makes parse panic.
func FuzzParse(f *testing.F) {
	f.Add("exe-20 [001] d..2. 81369.002951: sched_switch: prev_comm=exe prev_pid=20 prev_prio=120 prev_state=S ==> next_comm=x next_pid=0 next_prio=120")
	f.Add("a [ [1] : ==> next_comm= next_pid=")
	f.Fuzz(func(t *testing.T, line string) {
		if _, ok, err := parse([]byte(line)); ok && err != nil {
			t.Errorf("%q: an event and %v", line, err)
		}
	})
}

// TestLostIn checks that each counter of missing events in a CPU's buffer is an error.
func TestLostIn(t *testing.T) {
	t.Parallel()
	const good = "entries: 1200\noverrun: 0\ncommit overrun: 0\nbytes: 5\noldest event ts: 1.000001\nnow ts: 2.0\ndropped events: 0\nread events: 7\n"
	for text, want := range map[string]error{
		good: nil, "": nil, "overrun: 3\n": errLost, "commit overrun: 1\n": errLost, "dropped events: 9\n": errLost,
	} {
		if err := lostIn(text); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}
