package main

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// Kind is the kind of a trace event.
type Kind uint8

// The events that are recorded.
const (
	Switch    Kind = iota // A CPU switches from its current thread to another.
	Wakeup                // A thread becomes ready to run on a CPU.
	Migrate               // A thread moves to the queue of another CPU.
	TickBegin             // A CPU begins to balance because of a tick of its own or of a CPU that kicked it,
	TickEnd               // and stops.
)

// Event is a line of the trace.
type Event struct {
	Kind    Kind
	At      time.Duration // By the monotonic clock.
	CPU     int           // The CPU of the event,
	Current int           // and its current thread; 0 is the idle thread.
	Stopper bool          // The current thread is the CPU's stopper; for a switch, the next thread is.
	Ready   bool          // For a switch: the thread that leaves is still ready to run.
	Thread  int           // The thread that is switched in, wakes or moves.
	To      int           // The thread's CPU afterwards, for Wakeup and Migrate.
}

// Errors of a trace that is not valid for figures.
var (
	errLine = errors.New("a line of the trace is not understood")
	errLost = errors.New("events were lost")
)

// stopper is the prefix of the names of stopper threads (kernel/stop_machine.c, cpu_stop_threads).
const stopper = "migration/"

// parse parses a line of tracefs' file trace, such as
//
//	berth-20350   [000] dN.2. 81369.002951: sched_wakeup: comm=berth pid=20352 prio=120 target_cpu=000
//
// ok is false for a line without an event. The name of a thread may contain anything, so parse searches for numbers
// from the end of a line where possible.
func parse(line []byte) (e Event, ok bool, err error) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] == '#' {
		return e, false, nil
	}
	if bytes.HasPrefix(line, []byte("CPU:")) && bytes.Contains(line, []byte("LOST")) {
		return e, false, fmt.Errorf("%w: %s", errLost, line)
	}
	f := fields{line: line}
	task, cpu, rest := f.task(line)
	_, rest = f.cut(bytes.TrimLeft(rest, " "), " ") // flags
	at, rest := f.cut(bytes.TrimLeft(rest, " "), ": ")
	name, rest := f.cut(rest, ": ")
	thread := task[bytes.LastIndexByte(task, '-')+1:]
	e = Event{CPU: f.number(cpu), At: f.time(at), Current: f.number(thread), Stopper: bytes.HasPrefix(task, []byte(stopper))}
	f.event(&e, string(name), rest)
	return e, f.err == nil, f.err
}

// fields parses the parts of a line, and remembers the first error.
type fields struct {
	line []byte
	err  error
}

// task returns the task, the number of the CPU in its brackets, and the remaining text. Names may contain brackets,
// too.
func (f *fields) task(line []byte) (task, cpu, rest []byte) {
	for from := 0; ; {
		at := bytes.Index(line[from:], []byte(" ["))
		if at < 0 {
			f.fail("no CPU")
			return nil, nil, nil
		}
		from += at + len(" [")
		cpu, rest, _ = bytes.Cut(line[from:], []byte("] "))
		if len(cpu) > 0 && len(bytes.Trim(cpu, "0123456789")) == 0 {
			return bytes.TrimRight(line[:from-len(" [")], " "), cpu, rest
		}
	}
}

// event parses the fields that are specific to a kind of event.
func (f *fields) event(e *Event, name string, rest []byte) {
	switch name {
	case "sched_switch":
		e.Kind = Switch
		before, next := f.cut(rest, " ==> next_comm=")
		state := before[bytes.LastIndexByte(before, '=')+1:]
		e.Ready = len(state) > 0 && state[0] == 'R'
		e.Stopper = bytes.HasPrefix(next, []byte(stopper))
		e.Thread = f.value(next, " next_pid=")
	case "sched_wakeup", "sched_wakeup_new":
		e.Kind, e.Thread, e.To = Wakeup, f.value(rest, " pid="), f.value(rest, " target_cpu=")
	case "sched_migrate_task":
		e.Kind, e.Thread, e.To = Migrate, f.value(rest, " pid="), f.value(rest, " dest_cpu=")
	case "softirq_entry":
		e.Kind = TickBegin
	case "softirq_exit":
		e.Kind = TickEnd
	default:
		f.fail("event " + name)
	}
}

// cut returns the text before and after the first sep.
func (f *fields) cut(text []byte, sep string) (before, after []byte) {
	before, after, found := bytes.Cut(text, []byte(sep))
	if !found {
		f.fail("no " + sep)
	}
	return before, after
}

// value returns the number after the last name.
func (f *fields) value(text []byte, name string) int {
	at := bytes.LastIndex(text, []byte(name))
	if at < 0 {
		f.fail("no" + name)
		return 0
	}
	number, _, _ := bytes.Cut(text[at+len(name):], []byte(" "))
	return f.number(number)
}

// number parses digits. strconv would need a string, and a trace has millions of numbers.
func (f *fields) number(text []byte) (n int) {
	if len(text) == 0 || len(text) > 10 {
		f.fail("a number")
		return 0
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			f.fail("a number")
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// time parses seconds with six digits after the point.
func (f *fields) time(text []byte) time.Duration {
	whole, micros := f.cut(text, ".")
	if len(micros) != 6 {
		f.fail("a time")
	}
	return time.Duration(f.number(whole))*time.Second + time.Duration(f.number(micros))*time.Microsecond
}

func (f *fields) fail(what string) {
	if f.err == nil {
		f.err = fmt.Errorf("%w, by %s: %s", errLine, what, f.line)
	}
}
