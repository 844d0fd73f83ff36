package switchback_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/capability/tune/evidence"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// The environment of a child of BenchmarkSchedule: its role and its duration.
const (
	childRole   = "BERTH_TEST_SCHEDULED"
	childLasts  = "BERTH_TEST_LASTS"
	schedulings = "BERTH_SCHEDULE_RAW" // a file for the raw data
)

// A waker runs once per period for the CPU time of works, which is 10 % of a CPU. So the machine stays usable with
// SCHED_FIFO, too, and the waker never reaches the limit of real-time threads.
const (
	wakes = 5 * time.Millisecond
	works = 500 * time.Microsecond
	lasts = 2 * time.Second
)

// hogsPerCPU is the number of spinning processes per CPU.
const hogsPerCPU = 2

// waker is one arm: the scheduling of its thread.
type waker struct {
	name string
	kernel.Scheduling
}

func wakers() []waker {
	fifo, other := kernel.FIFO, kernel.Other
	return []waker{
		{"default", kernel.Scheduling{Class: &other}},
		{"slice 100us", kernel.Scheduling{Class: &other, Slice: 100 * time.Microsecond}},
		{"fifo:50", kernel.Scheduling{Class: &fifo, Priority: 50}},
	}
}

// waited is the measurement of a waker: how long after its time it started and finished, in nanoseconds.
type waited struct {
	Round int     `json:"round"`
	Arm   string  `json:"arm"`
	Wakes int     `json:"wakes"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Done  float64 `json:"doneP99"`
}

// scheduled runs a child of BenchmarkSchedule: a hog or a waker.
func scheduled(role string) error {
	runtime.LockOSThread()
	d, err := time.ParseDuration(os.Getenv(childLasts))
	if err != nil {
		return err
	}
	end := now() + int64(d)
	if role == "hog" {
		burn(now, int64(d))
		return nil
	}
	i, err := strconv.Atoi(role)
	if err != nil {
		return err
	}
	if err := kernel.Schedule(wakers()[i].Scheduling); err != nil {
		return err
	}
	var late, done []float64
	for at := now() + int64(wakes); at < end; at += int64(wakes) { // also if it is late: a late request waits, too
		when := unix.NsecToTimespec(at)
		for err = unix.EINTR; errors.Is(err, unix.EINTR); {
			err = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &when, nil)
		}
		if err != nil {
			return fmt.Errorf("sleep: %w", err)
		}
		late = append(late, float64(max(1, now()-at)))
		burn(spent, int64(works))
		done = append(done, float64(now()-at))
	}
	slices.Sort(late)
	slices.Sort(done)
	n := len(late)
	if n == 0 {
		return fmt.Errorf("woke never in %v", d)
	}
	return json.NewEncoder(os.Stdout).Encode(waited{Arm: wakers()[i].name, Wakes: n, P50: late[n/2], P99: late[n*99/100], Done: done[n*99/100]})
}

// burn spins until a clock has advanced by a duration.
func burn(clock func() int64, by int64) {
	for left, began := by, clock(); left > 0; left = by - (clock() - began) {
		continue
	}
}

func now() int64 { return clock(unix.CLOCK_MONOTONIC) }

// spent returns the CPU time of this thread.
func spent() int64 { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

func clock(id int32) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return t.Nano()
}

// BenchmarkSchedule measures how long a thread that wakes 200 times a second waits for a CPU, beside two hogs per CPU:
// unchanged, with its own slice, and with SCHED_FIFO. The arms of a round run in random order. -benchtime sets the
// number of rounds; a few rounds give no interval. BERTH_SCHEDULE_RAW names a file that gets a line per run.
func BenchmarkSchedule(b *testing.B) {
	if testing.Short() {
		b.Skip("takes seconds a round")
	}
	for range hogsPerCPU * runtime.NumCPU() {
		hog := scheduledChild(b, "hog", time.Hour)
		if err := hog.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = hog.Process.Kill()
			_ = hog.Wait()
		})
	}
	var raw bytes.Buffer
	arms, seed := wakers(), rand.Uint64()
	lot := rand.New(rand.NewPCG(seed, 0))
	rounds := make([][]waited, b.N)
	for n := range rounds {
		rounds[n] = make([]waited, len(arms))
		for _, i := range lot.Perm(len(arms)) {
			w := wake(b, i)
			w.Round, rounds[n][i] = n, w
			if err := json.NewEncoder(&raw).Encode(w); err != nil {
				b.Fatal(err)
			}
		}
	}
	if file := os.Getenv(schedulings); file != "" {
		if err := os.WriteFile(file, raw.Bytes(), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	b.Logf("%d rounds, %d CPUs, %d hogs, seed %d", b.N, runtime.NumCPU(), hogsPerCPU*runtime.NumCPU(), seed)
	for i, arm := range arms {
		b.Log(arm.name + ": " + compared(b, rounds, i))
	}
}

// wake runs one waker.
func wake(b *testing.B, arm int) (w waited) {
	b.Helper()
	cmd := scheduledChild(b, strconv.Itoa(arm), lasts)
	out, err := cmd.Output()
	if err != nil {
		b.Skipf("%s: %v: %s", wakers()[arm].name, err, out)
	}
	if err := json.Unmarshal(out, &w); err != nil {
		b.Fatal(err)
	}
	return w
}

func scheduledChild(b *testing.B, role string, d time.Duration) *exec.Cmd {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childRole+"="+role, childLasts+"="+d.String(), "GOGC=off")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// compared describes how long an arm waited, and its ratio to the first arm, with the interval.
func compared(b *testing.B, rounds [][]waited, arm int) string {
	b.Helper()
	var said []string
	for _, m := range []struct {
		name  string
		value func(waited) float64
	}{
		{"p50", func(w waited) float64 { return w.P50 }},
		{"p99", func(w waited) float64 { return w.P99 }},
		{"done p99", func(w waited) float64 { return w.Done }},
	} {
		rule := evidence.Standard()
		rule.Most = max(rule.Most, len(rounds))
		trial, err := evidence.New(rule)
		if err != nil {
			b.Fatal(err)
		}
		var all []float64
		for _, round := range rounds {
			all = append(all, m.value(round[arm]))
			if err := trial.Add(evidence.Pair{With: m.value(round[arm]), Without: m.value(round[0])}); err != nil {
				b.Fatal(err)
			}
		}
		slices.Sort(all)
		text := fmt.Sprintf("%s %.0f us", m.name, all[len(all)/2]/1000)
		if r := trial.Result(); arm > 0 {
			text += fmt.Sprintf(" (%.3f of the default", r.Ratio)
			if r.High > 0 {
				text += fmt.Sprintf(", %.3f to %.3f", r.Low, r.High)
			}
			text += ")"
			b.ReportMetric(r.Ratio, strings.ReplaceAll(wakers()[arm].name+"/"+m.name, " ", "-"))
		}
		said = append(said, text)
	}
	return strings.Join(said, ", ")
}
