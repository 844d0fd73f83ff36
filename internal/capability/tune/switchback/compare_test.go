package switchback_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/tune/evidence"
	"github.com/berth-project/berth/internal/capability/tune/switchback"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/test/patience"
)

// childDir is the directory of a change, and childDoes is the action of this test binary as the measured command.
const (
	childDir  = "BERTH_TEST_SWITCHBACK_DIR"
	childDoes = "BERTH_TEST_SWITCHBACK_DOES"
)

// TestMain lets the test binary act as the measured command.
func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		if err := scheduled(role); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	dir, does := os.Getenv(childDir), os.Getenv(childDoes)
	if dir == "" {
		os.Exit(m.Run())
	}
	_, err := os.Stat(filepath.Join(dir, "on"))
	switch {
	case does == "fails":
		fmt.Println("cannot do it")
		os.Exit(3)
	case does == "leaves":
		if err := leave(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("latency 1 ms")
	case does == "stays":
		<-time.After(time.Hour)
	case does == "hangs":
		_ = os.WriteFile(filepath.Join(dir, "runs"), nil, 0o600)
		<-time.After(time.Hour)
	case err == nil:
		fmt.Println("latency 1 ms\nlatency 50 ms")
	default:
		fmt.Println("latency 1 ms\nlatency 100 ms")
	}
}

// leave starts a process that outlives the command, with its output elsewhere, and records its id.
func leave(dir string) error {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childDoes+"=stays")
	if err := child.Start(); err != nil {
		return err
	}
	list, err := os.OpenFile(filepath.Join(dir, "left"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(list, child.Process.Pid)
	return errors.Join(err, list.Close())
}

// file is a change that creates a file in a directory.
type file struct {
	t      *testing.T
	dir    string
	on     int
	before func() error
	// stays is the error when the change cannot be reverted.
	stays error
}

func (f *file) On() error {
	f.on++
	if f.before != nil {
		if err := f.before(); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(f.dir, "on"), nil, 0o600)
}

func (f *file) Off() error { return errors.Join(f.stays, os.Remove(filepath.Join(f.dir, "on"))) }

// newTrial returns a trial of this test binary on a host whose kernel files do not change.
func newTrial(t *testing.T, does string) (*file, switchback.Options) {
	t.Helper()
	f := &file{t: t, dir: t.TempDir()}
	t.Setenv(childDir, f.dir)
	t.Setenv(childDoes, does)
	host := t.TempDir()
	for name, text := range map[string]string{"stat": "cpu  1 0 0 1 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0\n", "vmstat": "numa_local 5\nnuma_other 5\n"} {
		put(t, filepath.Join(host, "proc", name), text)
	}
	root, err := hostfs.Open(host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return f, switchback.Options{
		Command: []string{os.Args[0]}, Metric: regexp.MustCompile(`latency (\d+) ms`), Seed: 7,
		For: time.Hour, Host: root, Clock: kernel.Monotonic,
	}
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// gone checks that the change was reverted.
func (f *file) gone() {
	f.t.Helper()
	if _, err := os.Stat(filepath.Join(f.dir, "on")); err == nil {
		f.t.Error("the change is still there")
	}
}

// TestBetterAndWorse checks that a halved value is better, or worse if higher is better, and that each run is recorded.
func TestBetterAndWorse(t *testing.T) {
	for higher, want := range map[bool]evidence.Verdict{false: evidence.Better, true: evidence.Worse} {
		f, o := newTrial(t, "")
		var record bytes.Buffer
		o.HigherIsBetter, o.Record = higher, &record
		r, err := switchback.Compare(t.Context(), f, o)
		if err != nil || r.Verdict != want || r.Ratio != 0.5 || len(r.Runs) != 2*r.Pairs {
			t.Fatalf("%+v, %v", r, err)
		}
		f.gone()
		lines := json.NewDecoder(&record)
		firsts := map[bool]int{}
		for i, run := range r.Runs {
			var line switchback.Run
			if err := lines.Decode(&line); err != nil || line != run {
				t.Errorf("run %d: recorded %+v, %v; is %+v", i, line, err, run)
			}
			changeFirst, _ := evidence.Schedule(o.Seed, i/2)
			if run.With != ((i%2 == 0) == changeFirst) || run.Pair != i/2 || run.Void || run.Seconds <= 0 || run.CPUSeconds <= 0 {
				t.Errorf("run %d: %+v", i, run)
			}
			if i%2 == 0 && run.With {
				firsts[true]++
			}
		}
		if f.on != r.Pairs || firsts[true] == 0 || firsts[true] == r.Pairs {
			t.Errorf("on %d times in %d pairs, first in %d", f.on, r.Pairs, firsts[true])
		}
	}
}

// TestSteal checks that a pair counts as void if another machine took CPU time during either run. A host on which every
// pair is void must end as noisy.
func TestSteal(t *testing.T) {
	f, o := newTrial(t, "")
	steal := 0
	f.before = func() error {
		steal += 10
		put(t, o.Host.Join("/proc/stat"), fmt.Sprintf("cpu  1 0 0 1 0 0 0 0\ncpu0 1 0 0 1 0 0 0 %d\n", steal))
		return nil
	}
	o.Pause = 0
	r, err := switchback.Compare(t.Context(), f, o)
	if err != nil || r.Verdict != evidence.Better {
		t.Fatalf("steal between runs: %+v, %v", r, err)
	}

	put(t, o.Host.Join("/proc/stat"), "cpu  1 0 0 1 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0\n")
	// The clock is read at the start and the end of each run, between the two samples.
	clock := o.Clock
	o.Clock = func() time.Duration {
		steal += 10
		put(t, o.Host.Join("/proc/stat"), fmt.Sprintf("cpu  1 0 0 1 0 0 0 0\ncpu0 1 0 0 1 0 0 0 %d\n", steal))
		return clock()
	}
	r, err = switchback.Compare(t.Context(), f, o)
	if err != nil || r.Verdict != evidence.Noisy || r.Pairs != 0 || len(r.Runs) != 2*evidence.Standard().Most {
		t.Fatalf("steal in every run: %+v, %v", r, err)
	}
	for _, run := range r.Runs {
		if !run.Void || run.Steal != 1 {
			t.Fatalf("%+v", run)
		}
	}
	f.gone()
}

// TestStealOfOneTick checks that one tick of /proc/stat, which is more than 1 % of a short run and means little, is
// tolerated, and that two ticks void the pair.
func TestStealOfOneTick(t *testing.T) {
	for ticks, want := range map[int]evidence.Verdict{1: evidence.Better, 2: evidence.Noisy} {
		f, o := newTrial(t, "")
		looks, steal, clock := 0, 0, o.Clock
		o.Clock = func() time.Duration { // as in TestSteal, but only at the end of a run
			if looks++; looks%2 == 0 {
				steal += ticks
				put(t, o.Host.Join("/proc/stat"), fmt.Sprintf("cpu  1 0 0 1 0 0 0 0\ncpu0 1 0 0 1 0 0 0 %d\n", steal))
			}
			return clock()
		}
		r, err := switchback.Compare(t.Context(), f, o)
		if err != nil || r.Verdict != want || r.Runs[0].Steal != 1 {
			t.Errorf("%d ticks: %+v, %v", ticks, r, err)
		}
	}
}

// TestRemoteShare checks that RemoteShare is the part of the pages that came from another node between the samples.
func TestRemoteShare(t *testing.T) {
	f, o := newTrial(t, "")
	local, other := 5, 5
	clock := o.Clock
	o.Clock = func() time.Duration {
		local, other = local+3, other+1
		put(t, o.Host.Join("/proc/vmstat"), fmt.Sprintf("numa_local %d\nnuma_other %d\n", local, other))
		return clock()
	}
	r, err := switchback.Compare(t.Context(), f, o)
	if err != nil || r.Runs[0].RemoteShare != 0.25 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestWhatEndsATrial checks a failing command, a command that prints no value, a change that cannot be made, and the
// end of the time or of the context during the command. The change must be reverted in each case.
func TestWhatEndsATrial(t *testing.T) {
	busy := errors.New("busy")
	for name, tt := range map[string]struct {
		does   string
		adjust func(*file, *switchback.Options)
		want   error
		says   string
	}{
		"fails":     {"fails", func(*file, *switchback.Options) {}, switchback.ErrCommand, "cannot do it"},
		"no match":  {"", func(_ *file, o *switchback.Options) { o.Metric = regexp.MustCompile("tps (.*)") }, switchback.ErrMetric, "latency"},
		"no number": {"", func(_ *file, o *switchback.Options) { o.Metric = regexp.MustCompile("(latency)") }, switchback.ErrMetric, `"latency"`},
		"no change": {"", func(f *file, _ *switchback.Options) { f.before = func() error { return busy } }, busy, "bring the change about"},
		"missing":   {"", func(_ *file, o *switchback.Options) { o.Command = []string{"/no/such/program"} }, switchback.ErrCommand, "/no/such/program"},
	} {
		t.Run(name, func(t *testing.T) {
			f, o := newTrial(t, tt.does)
			tt.adjust(f, &o)
			if _, err := switchback.Compare(t.Context(), f, o); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %v with %q", err, tt.want, tt.says)
			}
			f.gone()
		})
	}
}

// TestInterrupt checks that an interrupt ends the command and reverts the change, and that the error is the context's.
func TestInterrupt(t *testing.T) {
	f, o := newTrial(t, "hangs")
	ctx, interrupt := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		waited <- patience.Until(ctx, 10*time.Millisecond, func() string {
			if _, err := os.Stat(filepath.Join(f.dir, "runs")); err != nil {
				return "the command does not run yet"
			}
			return ""
		})
		interrupt()
	}()
	if _, err := switchback.Compare(ctx, f, o); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	interrupt() // if Compare ended by itself, the waiting goroutine must end
	if err := <-waited; err != nil {
		t.Error(err)
	}
	f.gone()
}

// TestInterruptedChangeStays checks that a change which cannot be reverted after an interrupt is the returned error,
// because the interrupt's error would hide it.
func TestInterruptedChangeStays(t *testing.T) {
	f, o := newTrial(t, "")
	f.stays = errors.New("another program wrote it")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	f.before = func() error { interrupt(); return nil }
	if _, err := switchback.Compare(ctx, f, o); !errors.Is(err, f.stays) || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestLeftBehind checks that processes which a run leaves in its process group are gone before the next run, and after
// the last.
func TestLeftBehind(t *testing.T) {
	f, o := newTrial(t, "leaves")
	left := func() (all, running []int) {
		text, _ := os.ReadFile(filepath.Join(f.dir, "left")) // missing before the first run
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, pid)
			if syscall.Kill(pid, 0) == nil {
				running = append(running, pid)
			}
		}
		return all, running
	}
	t.Cleanup(func() {
		_, running := left()
		for _, pid := range running {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	f.before = func() error {
		if _, running := left(); len(running) > 0 {
			return fmt.Errorf("still running: %v", running)
		}
		return nil
	}
	r, err := switchback.Compare(t.Context(), f, o)
	all, running := left()
	if err != nil || len(all) != len(r.Runs) || len(running) > 0 {
		t.Errorf("%v; %d runs left %v, of which %v still run", err, len(r.Runs), all, running)
	}
}

// TestTimeIsOver checks that a trial which runs out of time ends as noisy, with the measurements so far.
func TestTimeIsOver(t *testing.T) {
	f, o := newTrial(t, "hangs")
	o.For = 200 * time.Millisecond
	if r, err := switchback.Compare(t.Context(), f, o); err != nil || r.Verdict != evidence.Noisy || r.Pairs != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	f.gone()
}
