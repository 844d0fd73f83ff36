package kernel

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// Two formats of the same tracepoint: Linux 6.18, and one with another field in front.
const (
	wakeup618 = `name: sched_wakeup
ID: 318
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t pid;	offset:24;	size:4;	signed:1;
	field:int prio;	offset:28;	size:4;	signed:1;
	field:int target_cpu;	offset:32;	size:4;	signed:1;

print fmt: "comm=%s pid=%d prio=%d target_cpu=%03d", REC->comm, REC->pid, REC->prio, REC->target_cpu
`
	wakeupOld = `ID: 7
	field:pid_t pid;	offset:24;	size:4;	signed:1;
	field:int success;	offset:32;	size:4;	signed:1;
	field:int target_cpu;	offset:36;	size:4;	signed:1;
`
)

func TestParseFormat(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want tracepoint
		err  error
	}{
		"Linux 6.18":            {wakeup618, tracepoint{kind: Woken, id: 318, thread: 24, cpu: 32}, nil},
		"another field":         {wakeupOld, tracepoint{kind: Woken, id: 7, thread: 24, cpu: 36}, nil},
		"no id":                 {strings.Replace(wakeupOld, "ID: 7", "", 1), tracepoint{}, ErrMalformed},
		"an id that is none":    {strings.Replace(wakeupOld, "ID: 7", "ID: 70000", 1), tracepoint{}, ErrMalformed},
		"no thread":             {strings.Replace(wakeupOld, " pid;", " next_pid;", 1), tracepoint{}, ErrMalformed},
		"no CPU":                {strings.Replace(wakeupOld, "target_cpu", "cpu", 1), tracepoint{}, ErrMalformed},
		"a CPU of another size": {strings.Replace(wakeupOld, "offset:36;	size:4", "offset:36;	size:8", 1), tracepoint{}, ErrMalformed},
		"a place out of reach":  {strings.Replace(wakeupOld, "offset:36", "offset:99999", 1), tracepoint{}, ErrMalformed},
		"nothing":               {"", tracepoint{}, ErrMalformed},
	} {
		got, err := parseFormat(c.text, tracepointName{Woken, "target_cpu"})
		if !errors.Is(err, c.err) || err == nil && got != c.want {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, err, c.want, c.err)
		}
	}
}

// TestReadTracepoints checks that all tracepoints are read, and that a missing tracepoint is an error.
func TestReadTracepoints(t *testing.T) {
	tracefs := fstest.MapFS{}
	add := func(name, id, cpu string) {
		text := strings.NewReplacer("ID: 318", "ID: "+id, "target_cpu;", cpu+";").Replace(wakeup618)
		tracefs["events/sched/"+name+"/format"] = &fstest.MapFile{Data: []byte(text)}
	}
	add("sched_wakeup", "1", "target_cpu")
	add("sched_wakeup_new", "2", "target_cpu")
	if _, err := readTracepoints(tracefs); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a tracepoint is missing: %v", err)
	}
	add("sched_migrate_task", "3", "dest_cpu")
	got, err := readTracepoints(tracefs)
	want := map[uint16]tracepoint{1: {Woken, 1, 24, 32}, 2: {Woken, 2, 24, 32}, 3: {Moved, 3, 24, 32}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(tracepoint{})); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestEndWakeups checks that after the end of wakeups, such as after an error, none that some CPUs recorded remain, and
// that the recording of switches goes on.
func TestEndWakeups(t *testing.T) {
	data, head := make([]byte, leastRing), &atomic.Uint64{}
	s := Switches{
		rings:  []ring{{page: data, size: leastRing, head: head, tail: &atomic.Uint64{}}},
		points: map[uint16]tracepoint{300: {kind: Woken, id: 300, thread: 8, cpu: 16}},
	}
	head.Store(put(data, 0, recordPoint, 0, 5, 6, 13, 0, 1, 0, 20, 300, 0, 9, 0, 3))
	if err := s.endWakeups(); err != nil {
		t.Fatal(err)
	}
	if all, lost := s.Read(); len(all) != 0 || lost != 0 {
		t.Errorf("%v, %d lost", all, lost)
	}
	head.Store(put(data, head.Load(), recordSwitch, switchedOut, 0, 0, 5, 6, 16, 0, 1, 0))
	if all, lost := s.Read(); len(all) != 1 || lost != 0 || s.points != nil {
		t.Errorf("%v, %d lost, points %v", all, lost, s.points)
	}
}

// TestLiveWakeups checks on the real kernel that each thread of this test has wakeups on the CPU to which it is bound.
// Afterwards tracefs is mounted nowhere where it was not before, and no file is open. The test does not ask for every
// wakeup: a virtual machine of the tests sometimes misses some.
func TestLiveWakeups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the scheduler's events of all processes need root; runs on the host: make test")
	}
	cpus, err := OwnGroupCPUs()
	if err != nil {
		t.Fatal(err)
	}
	mounts, files := mountsAndFiles(t)
	s, err := RecordSwitches(cpus)
	if err == nil {
		err = s.RecordWakeups()
	}
	if errors.Is(err, ErrNotSupported) || errors.Is(err, ErrOtherPIDs) {
		t.Skipf("%v; runs on the host: make test", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Read() // events from before all tracepoints were there
	type bound struct{ thread, cpu int }
	ended := make(chan bound)
	for cpu := range cpus.All() {
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends
			if err := BindCPUs(cpuset.Set{}.Add(cpu)); err != nil {
				t.Error(err)
			}
			for range 100 {
				time.Sleep(20 * time.Microsecond)
			}
			ended <- bound{unix.Gettid(), cpu}
		}()
	}
	wakeups := map[bound]int{}
	for range cpus.Size() {
		wakeups[<-ended] = 0
	}
	all, lost := s.Read()
	if lost > 0 {
		t.Errorf("%d lost", lost)
	}
	for _, e := range all {
		if _, mine := wakeups[bound{e.Thread, e.CPU}]; mine && e.Kind == Woken {
			wakeups[bound{e.Thread, e.CPU}]++
		}
	}
	for one, n := range wakeups {
		if n == 0 {
			t.Errorf("thread %d has no wakeup on its CPU %d, of %d events", one.thread, one.cpu, len(all))
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if nowMounts, nowFiles := mountsAndFiles(t); nowMounts != mounts || nowFiles != files {
		t.Errorf("left: %d open files, before %d; mounts\n%s\nbefore\n%s", nowFiles, files, nowMounts, mounts)
	}
}

// mountsAndFiles returns the mounts of tracefs and the number of perf events and directories that this process has
// open.
func mountsAndFiles(t *testing.T) (mounts string, files int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, " tracefs ") {
			mounts += line
		}
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range open {
		to, err := os.Readlink("/proc/self/fd/" + one.Name())
		if err == nil && (strings.Contains(to, "perf_event") || to == "/") {
			files++
		}
	}
	return mounts, files
}
