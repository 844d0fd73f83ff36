package tuner_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/test/patience"
)

// TestUndoWithoutADisk: if real-time threads may use every CPU, the kernel threads that serve a disk do not run and a
// sync never ends. A due undo restores its values before the first sync. Any other undo first limits real-time threads,
// with the original limit or with the profile's.
func TestUndoWithoutADisk(t *testing.T) {
	const never = 1000 * time.Hour
	for name, tt := range map[string]struct {
		child, original, applied string
		confirm                  time.Duration
		torn, drifts             bool
		limit                    string // before the first sync
		whole                    bool   // everything is as before then
	}{
		"deadline of a looser limit":  {"deadline", "950000", "-1", time.Nanosecond, false, false, "950000", true},
		"deadline of a tighter limit": {"deadline", "-1", "950000", time.Nanosecond, false, false, "-1", true},
		// Threads may still have the profile's policies. That is recorded before they may use a whole CPU.
		"deadline of a tighter limit, and not all goes back": {"deadline", "-1", "950000", time.Nanosecond, false, true, "950000", false},
		"deadline of a looser limit, a torn journal":         {"deadline", "950000", "-1", time.Nanosecond, true, false, "-1", false},
		"rollback of a looser limit":                         {"rollback", "950000", "-1", never, false, false, "950000", false},
		"rollback of a tighter limit":                        {"rollback", "-1", "950000", never, false, false, "950000", false},
		"an apply of a looser limit that failed":             {"apply", "950000", "-1", never, false, false, "950000", true},
		"an apply of a tighter limit that failed":            {"apply", "-1", "950000", never, false, false, "-1", true},
		"an apply of a tighter limit, before its record":     {"apply whole", "-1", "950000", never, false, false, "950000", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.write("/proc/sys/kernel/random/boot_id", boot)
			h.boottime = 0 // The child uses the clock of this machine.
			h.write(rtRuntime, tt.original)
			h.write(rtPeriod, "1000000")
			before := h.files()
			values := some()
			values[rtRuntime] = tt.applied
			if !strings.HasPrefix(tt.child, "apply") {
				h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(tt.confirm, values)); must(t, err) })
			}
			if tt.torn {
				h.tear()
			}
			if tt.drifts {
				h.write(slice, "7")
			}
			now := h.untilSync(tt.child, trial{root: h.plain.Dir, state: h.state, settings: values, confirm: tt.confirm})
			if d := cmp.Diff(before, now); tt.whole && d != "" {
				t.Errorf("before the first sync (-before +after):\n%s", d)
			}
			if now[rtRuntime] != tt.limit {
				t.Errorf("before the first sync %s is %s, want %s", rtRuntime, now[rtRuntime], tt.limit)
			}
			if a, _, err := tuner.Load(h.state); tt.child == "rollback" && a.Phase != tuner.Undoing || err != nil {
				t.Errorf("before the first sync the record says %s, %v", a.Phase, err)
			}
		})
	}
}

// The files that limit real-time threads.
const (
	rtRuntime = "/proc/sys/kernel/sched_rt_runtime_us"
	rtPeriod  = "/proc/sys/kernel/sched_rt_period_us"
)

// stopped is the suffix of the state directory's name for a marker file: from now on no sync of the child ends.
const stopped = ".stopped"

// tear appends an incomplete record to the journal.
func (h *host) tear() {
	h.t.Helper()
	f, err := os.OpenFile(filepath.Join(h.state, "journal"), os.O_WRONLY|os.O_APPEND, 0)
	must(h.t, err)
	_, err = f.WriteString(`{"crc":"12`)
	must(h.t, errors.Join(err, f.Close()))
}

// untilSync runs a child whose syncs never end. It returns the files once the child waits in a sync, because nothing
// changes any more.
func (h *host) untilSync(does string, r trial) map[string]string {
	t := h.t
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestUndoWithoutADiskChild$") //nolint:gosec // this test's own binary
	child.Env = append(append(os.Environ(), r.environ(never)...), withoutDisk+"="+does)
	child.Stdout, child.Stderr = t.Output(), t.Output()
	must(t, child.Start())
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	must(t, patience.Until(t.Context(), 10*time.Millisecond, func() string {
		if _, err := os.Stat(r.state + stopped); err != nil && len(ended) == 0 {
			return "its syncs end"
		}
		if len(ended) == 0 && !waitsToSync(t, child.Process.Pid) {
			return "it neither ended nor waits"
		}
		return ""
	}))
	now := h.files()
	must(t, child.Process.Kill())
	<-ended
	return now
}

// waitsToSync reports whether a thread of a process waits in a sync.
func waitsToSync(t testing.TB, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	must(t, err)
	for _, thread := range threads {
		text, _ := os.ReadFile(thread) // the thread may be gone
		call, _, _ := strings.Cut(string(text), " ")
		if n, err := strconv.ParseUint(call, 10, 32); err == nil && slices.Contains(syncs(), uint32(n)) {
			return true
		}
	}
	return false
}

// syncs returns the system calls that may wait for a disk.
func syncs() []uint32 {
	return []uint32{unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNCFS, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE}
}

// withoutDisk makes TestUndoWithoutADiskChild do its work.
const withoutDisk = "BERTH_TEST_WITHOUT_DISK"

// TestUndoWithoutADiskChild is a child process that keeps a deadline, rolls back, or applies. From some moment on its
// syncs never end. Without its variable it does nothing.
func TestUndoWithoutADiskChild(t *testing.T) {
	does := os.Getenv(withoutDisk)
	if does == "" {
		return
	}
	h, _ := childHost(t)
	var err error
	switch does {
	case "rollback":
		stopSyncs(t)
		h.Salvage = true // as berth tune rollback does
		u, failed := tuner.Open(h)
		must(t, failed)
		u.Rollback()
	case "deadline":
		stopSyncs(t)
		_, err = tuner.Await(t.Context(), h)
	default:
		dir := os.Getenv(childRoot)
		file, away := filepath.Join(dir, slice), os.Getenv(childState)+".away" // this process is killed
		h.Step = func(step string) {
			what, _, _ := strings.Cut(step, ": ")
			switch {
			case what == "the originals are journaled":
				if does == "apply" { // and fails: a directory accepts no text
					must(t, errors.Join(os.Rename(file, away), os.Mkdir(file, 0o755)))
				}
				stopSyncs(t)
			case what == string(apply.StepRestored) && does == "apply":
				must(t, errors.Join(os.Remove(file), os.Rename(away, file)))
				does = "apply that failed"
			}
		}
		u, failed := tuner.Open(h)
		must(t, failed)
		_, err = u.Apply(order(confirm, childValues()))
	}
	t.Errorf("it ended without a sync: %v", err)
}

// stopSyncs makes every later sync of this process hang: a seccomp filter passes the call to a listener that never
// answers.
func stopSyncs(t *testing.T) {
	t.Helper()
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // load the number of the call
	calls := syncs()
	for i, call := range calls {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: uint8(len(calls) - i)})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // no_new_privs applies to one thread until the filter applies to all
	must(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program))); errno != 0 {
		t.Fatal(errno)
	}
	must(t, os.WriteFile(os.Getenv(childState)+stopped, nil, 0o600))
}

// TestOrderOfRealTime: a looser limit of real-time threads is applied last and restored first, because under it all
// other work may wait for threads that do not run. A tighter limit is applied first and restored last. The kernel
// refuses a runtime that is longer than the period.
func TestOrderOfRealTime(t *testing.T) {
	const runtime, period, others = "sched_rt_runtime_us", "sched_rt_period_us", "others"
	for name, tt := range map[string]struct {
		before, values map[string]string
		on, off        []string
	}{
		"looser": {
			map[string]string{rtRuntime: "950000", rtPeriod: "1000000"},
			map[string]string{rtRuntime: "-1"},
			[]string{others, runtime},
			[]string{runtime, others},
		},
		"tighter": {
			map[string]string{rtRuntime: "-1", rtPeriod: "1000000"},
			map[string]string{rtRuntime: "950000"},
			[]string{runtime, others},
			[]string{others, runtime},
		},
		"more by both": {
			map[string]string{rtRuntime: "950000", rtPeriod: "1000000"},
			map[string]string{rtRuntime: "1990000", rtPeriod: "2000000"},
			[]string{others, period, runtime},
			[]string{period, runtime, others},
		},
		"less by both": {
			map[string]string{rtRuntime: "1990000", rtPeriod: "2000000"},
			map[string]string{rtRuntime: "950000", rtPeriod: "1000000"},
			[]string{runtime, period, others},
			[]string{others, period, runtime},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			for file, text := range tt.before {
				h.write(file, text)
			}
			values := some()
			maps.Copy(values, tt.values)
			var done []string
			h.step = func(step string) {
				what, at, _ := strings.Cut(step, ": ")
				if what != string(apply.StepWritten) && what != string(apply.StepRestored) {
					return
				}
				name := others
				if _, file, _ := strings.Cut(at, " "); file == runtime || file == period {
					name = file
				}
				if done = append(done, name); len(done) > 1 {
					done = slices.Compact(done)
				}
			}
			h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, values)); must(t, err) })
			if d := cmp.Diff(tt.on, done); d != "" {
				t.Errorf("applied (-want +got):\n%s", d)
			}
			done = nil
			h.do(func(u *tuner.Tuner) { u.Rollback() })
			if d := cmp.Diff(tt.off, done); d != "" {
				t.Errorf("put back (-want +got):\n%s", d)
			}
		})
	}
}

// TestLimitsAndAllElse: some limits can be restored only after another value, and some values only after a limit. All
// of them are restored.
func TestLimitsAndAllElse(t *testing.T) {
	for name, tt := range map[string]struct{ late, after, original, applied string }{
		"a looser limit, late":     {rtRuntime, autogroup, "-1", "950000"},
		"a tighter limit, late":    {rtRuntime, autogroup, "950000", "-1"},
		"after a looser limit":     {autogroup, rtRuntime, "-1", "950000"},
		"after a tighter limit":    {autogroup, rtRuntime, "950000", "-1"},
		"after what is undone too": {autogroup, workqueue, "950000", "-1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.write(rtRuntime, tt.original)
			h.write(rtPeriod, "1000000")
			before := h.files()
			values := some()
			values[rtRuntime] = tt.applied
			h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, values)); must(t, err) })
			file, away := h.plain.Path(tt.late), filepath.Join(t.TempDir(), "away")
			must(t, errors.Join(os.Rename(file, away), os.Mkdir(file, 0o755)))
			h.step = func(step string) {
				what, at, _ := strings.Cut(step, ": ")
				if what == string(apply.StepRestored) && strings.ReplaceAll(at, " ", "/") == tt.after {
					must(t, errors.Join(os.Remove(file), os.Rename(away, file)))
				}
			}
			h.do(func(u *tuner.Tuner) {
				for file, o := range outcomes(u.Rollback()) {
					if o != apply.OutcomeRestored {
						t.Errorf("%s: %s", file, o)
					}
				}
				if _, is := u.Applied(); is {
					t.Error("it is on record still")
				}
			})
			if d := cmp.Diff(before, h.files()); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestCommitOfWhatWasNotWritten: an apply that ends after its record but before the limit of real-time threads cannot
// be committed. Another apply of the profile writes the limit.
func TestCommitOfWhatWasNotWritten(t *testing.T) {
	h := newHost(t)
	h.write(rtRuntime, "950000")
	h.write(rtPeriod, "1000000")
	values := some()
	values[rtRuntime] = "-1"
	fatal, n := 0, 0
	h.step = func(step string) {
		if n++; step == "the apply is recorded" {
			fatal = n
		}
	}
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, values)); must(t, err) })
	h.do(func(u *tuner.Tuner) { u.Rollback() })
	if !h.command(fatal, func(u *tuner.Tuner) { _, _ = u.Apply(order(confirm, values)) }) {
		t.Fatal("it did not die")
	}
	h.do(func(u *tuner.Tuner) {
		if err := u.Commit(); !errors.Is(err, tuner.ErrUnwritten) {
			t.Errorf("commit: %v, want %v", err, tuner.ErrUnwritten)
		}
		if a, _ := u.Applied(); a.Phase != tuner.Trial {
			t.Errorf("it is %s now", a.Phase)
		}
	})
	h.do(func(u *tuner.Tuner) {
		_, err := u.Apply(order(confirm, values))
		must(t, errors.Join(err, u.Commit()))
	})
	if now := h.files()[rtRuntime]; now != "-1" {
		t.Errorf("the limit is %s", now)
	}
}

// TestRollbackKilledAtEachStep: the next command finishes a rollback that was killed after it had restored something.
// Only a limit of real-time threads is restored before the record says so, with no disk access in between. If the
// rollback dies there, another rollback restores everything, and a commit is refused.
func TestRollbackKilledAtEachStep(t *testing.T) {
	t.Parallel() // it waits for the disk
	for name, wait := range map[string]time.Duration{"committed": 0, "trial": confirm} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			died, marked := 0, 0
			for fatal := 1; ; fatal++ {
				h := newHost(t)
				before, applied := h.applies(wait, "950000", "-1")
				if !h.command(fatal, func(u *tuner.Tuner) { u.Rollback() }) {
					break
				}
				died++
				now, limited := h.files(), h.files()
				limited[rtRuntime] = before[rtRuntime]
				a, is, err := tuner.Load(h.state)
				must(t, err)
				if begun := !is || a.Due(h.boot, h.boottime); begun {
					marked++
				} else if !cmp.Equal(applied, now) && !cmp.Equal(limited, now) {
					t.Errorf("killed at step %d: no command sees that it is undone in part: %+v", fatal, a)
				} else {
					isWhole := cmp.Equal(applied, now)
					h.do(func(u *tuner.Tuner) {
						if err := u.Commit(); (err == nil) != isWhole {
							t.Errorf("killed at step %d: commit: %v", fatal, err)
						}
					})
					h.do(func(*tuner.Tuner) {})
					if !cmp.Equal(now, h.files()) {
						t.Errorf("killed at step %d: what was committed since is undone", fatal)
					}
					h.do(func(u *tuner.Tuner) { u.Rollback() })
				}
				h.do(func(u *tuner.Tuner) {
					if err := u.Commit(); err == nil {
						t.Errorf("killed at step %d: what was undone in part is committed", fatal)
					}
				})
				if d := cmp.Diff(before, h.files()); d != "" {
					t.Errorf("killed at step %d (-want +got):\n%s", fatal, d)
				}
				if a, is, err := tuner.Load(h.state); is || err != nil {
					t.Errorf("killed at step %d: on record: %+v, %v", fatal, a, err)
				}
			}
			if marked == 0 || marked == died {
				t.Errorf("killed %d times, %d of them once it was on record", died, marked)
			}
		})
	}
}

// applies applies a profile and returns the files before and after. The profile limits real-time threads unless applied
// is empty.
func (h *host) applies(wait time.Duration, original, applied string) (before, after map[string]string) {
	h.t.Helper()
	values := some()
	if applied != "" {
		h.write(rtRuntime, original)
		h.write(rtPeriod, "1000000")
		values[rtRuntime] = applied
	}
	before = h.files()
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(wait, values)); must(h.t, err) })
	return before, h.files()
}

// TestKeeperFinishesARollback: a new keeper finishes a killed rollback of a committed profile, even if the rollback
// died while it waited for the disk.
func TestKeeperFinishesARollback(t *testing.T) {
	h := newHost(t)
	before, _ := h.applies(0, "950000", "-1")
	died := func(fatal int) tuner.Phase {
		if !h.command(fatal, func(u *tuner.Tuner) { u.Rollback() }) {
			t.Fatal("it did not die")
		}
		a, _, err := tuner.Load(h.state)
		must(t, err)
		return a.Phase
	}
	fatal := 1
	for died(fatal) == tuner.Committed {
		fatal++
	}
	if h.files()[autogroup] != "0" {
		t.Fatal("more than the limit is back")
	}
	if _, err := tuner.Await(t.Context(), h.host()); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
}

// TestRollbackThatCannotBeRecorded: rollbacks on a full disk can leave another program's value behind. The rest must
// not count as a committed profile.
func TestRollbackThatCannotBeRecorded(t *testing.T) {
	for name, tt := range map[string]struct{ original, applied string }{
		"a tighter limit": {"950000", "-1"}, "a looser limit": {"-1", "950000"}, "no limit": {},
	} {
		for times := 1; times <= 2; times++ {
			t.Run(fmt.Sprintf("%s, %d", name, times), func(t *testing.T) {
				h := newHost(t)
				before, _ := h.applies(0, tt.original, tt.applied)
				h.write(slice, "7") // another program's value
				full := filepath.Join(h.state, "applied.new")
				must(t, os.Mkdir(full, 0o700))
				for range times {
					h.do(func(u *tuner.Tuner) { u.Rollback() })
				}
				if now := h.files(); now[rtRuntime] != tt.original || now[autogroup] != before[autogroup] {
					t.Errorf("the limit is %s, autogroup %s", now[rtRuntime], now[autogroup])
				}
				if a, is, err := tuner.Load(h.state); !is || err != nil || a.Phase != tuner.Undoing {
					t.Errorf("on record: %s, %v", a.Phase, err)
				}
				must(t, os.Remove(full))
				h.do(func(u *tuner.Tuner) {
					if err := u.Commit(); !errors.Is(err, tuner.ErrLeft) {
						t.Errorf("commit: %v, want %v", err, tuner.ErrLeft)
					}
				})
				h.write(slice, before[slice])
				h.do(func(u *tuner.Tuner) { u.Rollback() })
				if d := cmp.Diff(before, h.files()); d != "" {
					t.Error(d)
				}
				h.do(func(u *tuner.Tuner) {
					if _, is := u.Applied(); is {
						t.Error("it is on record still")
					}
				})
				snapshot, err := journal.Load(h.state, driver.Values())
				if err != nil || len(snapshot.Entries) > 0 {
					t.Errorf("the journal has %+v, %v", snapshot.Entries, err)
				}
			})
		}
	}
}

// TestRollbackForgetsWhatWasCommitted: a rollback that continues an incomplete undo forgets the profile of an earlier
// boot.
func TestRollbackForgetsWhatWasCommitted(t *testing.T) {
	for _, limit := range []string{"950000", "-1"} {
		t.Run(limit, func(t *testing.T) {
			h := newHost(t)
			h.write(rtRuntime, "950000")
			h.write(rtPeriod, "1000000")
			h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(0, map[string]string{autogroup: "0"})); must(t, err) })
			h.boot = "another"
			values := some()
			values[rtRuntime] = limit
			h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, values)); must(t, err) })
			h.write(slice, "7") // another program's value
			h.boottime += confirm
			h.do(func(u *tuner.Tuner) {
				if a, _ := u.Applied(); a.Phase != tuner.Undoing || a.Former == nil {
					t.Fatalf("on record: %+v", a)
				}
			})
			a, is, err := tuner.Load(h.state)
			must(t, err)
			if !is || a.Phase != tuner.Undoing || a.Former == nil {
				t.Errorf("on record after the deadline: %v %+v", is, a)
			}
			h.do(func(u *tuner.Tuner) { u.Rollback() })
			a, is, err = tuner.Load(h.state)
			must(t, err)
			if !is || a.Former != nil {
				t.Errorf("on record after the rollback: %v %+v", is, a)
			}
		})
	}
}
