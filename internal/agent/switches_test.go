package agent_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/proof/scratch"
)

// onlineName and offlineName are the names of each side's threads in the kernel's records.
const (
	onlineName  = "berth-online"
	offlineName = "berth-offline"
)

// together returns the moments at which an online and an offline thread were on one core, from records of sched_switch
// in order. It also returns how often threads of each side were switched in. cores maps each CPU to its core.
func together(records []string, cores map[int]int) (moments []string, online, offline int) {
	running := map[int]string{}
	for _, record := range records {
		if s, ok := parseSwitch(record); ok {
			if _, known := running[s.cpu]; !known {
				running[s.cpu] = s.previous // running since before the first record
			}
		}
	}
	for _, record := range records {
		s, ok := parseSwitch(record)
		if !ok {
			continue
		}
		running[s.cpu] = s.next
		other := ""
		switch s.next {
		case onlineName:
			online, other = online+1, offlineName
		case offlineName:
			offline, other = offline+1, onlineName
		default:
			continue
		}
		for cpu, name := range running {
			if cpu != s.cpu && name == other && cores[cpu] == cores[s.cpu] {
				moments = append(moments, fmt.Sprintf("beside CPU %d: %s", cpu, record))
			}
		}
	}
	return moments, online, offline
}

// crossed returns the moments at which a thread ran on a core after a thread of the other side. It also returns how
// often threads of each side were switched in.
func crossed(records []string, cores map[int]int) (moments []string, online, offline int) {
	ran := map[int]string{}
	for _, record := range records {
		s, ok := parseSwitch(record)
		switch {
		case !ok:
			continue
		case s.next == onlineName:
			online++
		case s.next == offlineName:
			offline++
		default:
			continue
		}
		if before := ran[cores[s.cpu]]; before != "" && before != s.next {
			moments = append(moments, record)
		}
		ran[cores[s.cpu]] = s.next
	}
	return moments, online, offline
}

// switched is one record of sched_switch.
type switched struct {
	cpu            int
	previous, next string
}

// parseSwitch reads "  comm-12  [003] d..2.  1.234567: sched_switch: prev_comm=a … ==> next_comm=b …".
func parseSwitch(record string) (s switched, ok bool) {
	head, rest, ok := strings.Cut(record, ": sched_switch: prev_comm=")
	if !ok {
		return s, false
	}
	previous, rest, _ := strings.Cut(rest, " prev_pid=")
	_, rest, _ = strings.Cut(rest, " next_comm=")
	next, _, found := strings.Cut(rest, " next_pid=")
	open := strings.LastIndex(head, "[")
	if !found || open < 0 {
		return s, false
	}
	number, _, _ := strings.Cut(head[open+1:], "]")
	cpu, err := strconv.Atoi(number)
	return switched{cpu, previous, next}, err == nil
}

// together finds both sides on two CPUs of one core, including threads that ran before the first record. It finds
// nothing else.
func TestTogether(t *testing.T) {
	t.Parallel()
	record := func(cpu int, previous, next string) string {
		return fmt.Sprintf("   x-1   [%03d] d..2.  1.000001: sched_switch: prev_comm=%s prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=%s next_pid=8 next_prio=120", cpu, previous, next)
	}
	cores := map[int]int{0: 0, 1: 0, 2: 1, 3: 1}
	for _, test := range []struct {
		name            string
		records         []string
		beside, crossed int
	}{
		{"one after the other on a CPU", []string{record(0, "swapper/0", onlineName), record(0, onlineName, offlineName), record(0, offlineName, onlineName)}, 0, 2},
		{"on two cores", []string{record(0, "swapper/0", onlineName), record(2, "swapper/2", offlineName)}, 0, 0},
		{"on one core", []string{record(0, "swapper/0", onlineName), record(1, "swapper/1", offlineName)}, 1, 1},
		{"left before", []string{record(0, "swapper/0", onlineName), record(0, onlineName, "swapper/0"), record(1, "swapper/1", offlineName)}, 0, 1},
		{"ran before the first record", []string{record(1, "swapper/1", onlineName), record(0, offlineName, "swapper/0")}, 1, 0},
		{"two of one side", []string{record(2, "swapper/2", offlineName), record(3, "swapper/3", offlineName)}, 0, 0},
		{"another program, and no record", []string{record(2, "x", "y z"), record(3, "y", offlineName), "# tracer: nop"}, 0, 0},
	} {
		if got, _, _ := together(test.records, cores); len(got) != test.beside {
			t.Errorf("%s: %d moments beside each other, want %d: %q", test.name, len(got), test.beside, got)
		}
		if got, _, _ := crossed(test.records, cores); len(got) != test.crossed {
			t.Errorf("%s: %d moments on a core of the other side, want %d: %q", test.name, len(got), test.crossed, got)
		}
	}
}

// trace records sched_switch in its own buffers.
type trace struct {
	t   *testing.T
	dir string
}

func newTrace(t *testing.T) *trace {
	t.Helper()
	top := t.TempDir()
	if err := unix.Mount("tracefs", top, "tracefs", 0, ""); err != nil {
		t.Skipf("records of the scheduler: mount tracefs: %v; the VM has them", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(top, unix.MNT_DETACH) })
	tr := &trace{t: t, dir: filepath.Join(top, "instances", scratch.Name("test"))}
	if err := os.Mkdir(tr.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(tr.dir); err != nil {
			t.Error(err)
		}
	})
	tr.set("trace_clock", "global")
	tr.set("buffer_size_kb", "16384")
	tr.set("events/sched/sched_switch/filter", fmt.Sprintf(
		`prev_comm == "%[1]s" || next_comm == "%[1]s" || prev_comm == "%[2]s" || next_comm == "%[2]s"`, onlineName, offlineName))
	tr.set("events/sched/sched_switch/enable", "1")
	return tr
}

func (tr *trace) set(name, value string) {
	tr.t.Helper()
	if err := os.WriteFile(filepath.Join(tr.dir, name), []byte(value), 0); err != nil {
		tr.t.Fatal(err)
	}
}

// records returns the records of the time in which what ran, in order. It fails if the kernel lost any.
func (tr *trace) records(what func()) []string {
	tr.t.Helper()
	tr.set("tracing_on", "0")
	tr.set("trace", "")
	tr.set("tracing_on", "1")
	what()
	tr.set("tracing_on", "0")
	stats, err := filepath.Glob(filepath.Join(tr.dir, "per_cpu/cpu*/stats"))
	if err != nil || len(stats) == 0 {
		tr.t.Fatal(stats, err)
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(text), "\noverrun: 0\n") {
			tr.t.Fatalf("records are lost: %v\n%s", err, text)
		}
	}
	file, err := os.Open(filepath.Join(tr.dir, "trace"))
	if err != nil {
		tr.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var all []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		all = append(all, lines.Text())
	}
	if err := lines.Err(); err != nil {
		tr.t.Fatal(err)
	}
	return all
}
