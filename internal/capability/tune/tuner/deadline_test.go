package tuner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/test/patience"
)

// Variables that the tests pass to their children: the tree, the state directory, the settings as FILE=VALUE, the
// number of the step at which to die, and the time until the deadline.
const (
	childRoot     = "BERTH_TEST_TUNE_ROOT"
	childState    = "BERTH_TEST_TUNE_STATE"
	childSettings = "BERTH_TEST_TUNE_SETTINGS"
	childStep     = "BERTH_TEST_TUNE_STEP"
	childConfirm  = "BERTH_TEST_TUNE_CONFIRM"
	// childStops makes the child stop at its step instead of dying. childEnds makes its first thread end before the
	// first step.
	childStops = "BERTH_TEST_TUNE_STOPS"
	// childCommand is what the child does instead of an apply: commit or rollback.
	childCommand = "BERTH_TEST_TUNE_COMMAND"
	childEnds    = "BERTH_TEST_TUNE_ENDS"
)

// never is a step that no child reaches.
const never = 1 << 20

// trial is a host with the clock of this machine. Its own processes apply and keep the deadline.
type trial struct {
	root, state string
	settings    map[string]string
	confirm     time.Duration
}

// environ returns the environment of a child.
func (r trial) environ(step int) []string {
	var settings []string
	for file, value := range r.settings {
		settings = append(settings, file+"="+value)
	}
	return []string{
		childRoot + "=" + r.root, childState + "=" + r.state, childSettings + "=" + strings.Join(settings, "\n"),
		fmt.Sprintf("%s=%d", childStep, step), childConfirm + "=" + r.confirm.String(),
	}
}

// childHost returns the host that a child works on, and whether this process is such a child.
func childHost(t *testing.T) (tuner.Host, bool) {
	dir := os.Getenv(childRoot)
	if dir == "" {
		return tuner.Host{}, false
	}
	return hostOf(t, dir, os.Getenv(childState)), true
}

func hostOf(t *testing.T, dir, state string) tuner.Host {
	t.Helper()
	root, err := hostfs.Open(dir)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	id, err := kernel.BootID(root)
	must(t, err)
	return tuner.Host{Dir: state, Root: root, Kernel: tuner.KernelOf(root), Boot: id, Now: time.Now, Boottime: kernel.Boottime}
}

// TestApplyChild is the child process of other tests: it applies and dies at its step. Without its variables it does
// nothing.
func TestApplyChild(t *testing.T) {
	h, is := childHost(t)
	if !is {
		return
	}
	fatal, err := strconv.Atoi(os.Getenv(childStep))
	must(t, err)
	confirm, err := time.ParseDuration(os.Getenv(childConfirm))
	must(t, err)
	values := childValues()
	if os.Getenv(childEnds) != "" {
		endFirstThread()
	}
	step := 0
	signal := syscall.SIGKILL
	if os.Getenv(childStops) != "" {
		signal = syscall.SIGSTOP
	}
	h.Step = func(string) {
		if step++; step == fatal {
			_ = syscall.Kill(os.Getpid(), signal)
		}
	}
	h.Keep = tuner.Keeper{Program: []string{os.Args[0], "-test.run=^TestDeadlineChild$"}}.Keep
	u, err := tuner.Open(h)
	must(t, err)
	switch os.Getenv(childCommand) {
	case "commit":
		err = u.Commit()
	case "rollback":
		u.Rollback()
	default:
		_, err = u.Apply(order(confirm, values))
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // after the last step
}

// endFirstThread ends the first thread of this process. A fatal signal has the same effect while another thread gets no
// CPU.
func endFirstThread() {
	for {
		go func() {
			runtime.LockOSThread()
			for unix.Gettid() != os.Getpid() {
				time.Sleep(time.Hour) // the sleep keeps the thread, so that the next goroutine gets another
			}
			_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
		}()
		time.Sleep(10 * time.Millisecond)
		if _, err := os.Stat("/proc/self/exe"); err != nil {
			return
		}
	}
}

// childValues returns the settings from the environment of a child.
func childValues() map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(os.Getenv(childSettings)) {
		file, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[file] = value
	}
	return values
}

// TestDeadlineChild is a child process that keeps a deadline.
func TestDeadlineChild(t *testing.T) {
	if h, is := childHost(t); is {
		_, err := tuner.Await(t.Context(), h)
		must(t, err)
	}
}

// apply runs a child that applies and is killed at a step or after the last one. It reports whether the apply was
// complete.
func (r trial) apply(t *testing.T, step int) (whole bool) {
	t.Helper()
	t.Cleanup(func() { r.kept(t) })
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestApplyChild$")
	child.Env = append(os.Environ(), r.environ(step)...)
	out, err := child.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("child at step %d: %v\n%s", step, err, out)
	}
	a, is, err := tuner.Load(r.state)
	must(t, err)
	return is && a.Phase == tuner.Trial
}

// kept waits for the end of the process that keeps the deadline, because that process uses the directory.
func (r trial) kept(t *testing.T) {
	ended := func() string { return r.keeper(t) }
	must(t, patience.Until(context.Background(), 20*time.Millisecond, ended)) //nolint:forbidigo // the context of the test has ended
}

// keeper returns the directory below /proc of the process that keeps the deadline, or "" if there is none.
func (r trial) keeper(t *testing.T) string {
	names, err := filepath.Glob("/proc/[0-9]*/environ")
	must(t, err)
	for _, name := range names {
		environ, err := os.ReadFile(name)
		if err == nil && strings.Contains(string(environ), childState+"="+r.state+"\x00") {
			return filepath.Dir(name)
		}
	}
	return ""
}

// undone waits until no profile is applied.
func (r trial) undone(t *testing.T) {
	t.Helper()
	err := patience.Until(t.Context(), 20*time.Millisecond, func() string {
		a, is, err := tuner.Load(r.state)
		switch {
		case err != nil:
			return err.Error()
		case is:
			return "still " + string(a.Phase)
		}
		return ""
	})
	must(t, err)
}

// TestDeadlineOutlivesItsApply: the applying process is killed. At the deadline, not before, everything is restored
// without any further command.
func TestDeadlineOutlivesItsApply(t *testing.T) {
	t.Parallel()
	kills := 3
	if text := os.Getenv("BERTH_TUNE_KILLS"); text != "" {
		var err error
		kills, err = strconv.Atoi(text)
		must(t, err)
	}
	for n := range kills {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.write("/proc/sys/kernel/random/boot_id", boot)
			before := h.files()
			r := trial{root: h.plain.Dir, state: filepath.Join(t.TempDir(), "tune"), settings: some(), confirm: time.Second}
			for !r.apply(t, never) { // On a slow machine the deadline may pass before the apply ends.
				r.undone(t)
				r.confirm *= 2
			}
			a, _, err := tuner.Load(r.state)
			must(t, err)
			r.undone(t)
			if late := kernel.Boottime() - a.Deadline; late < 0 {
				t.Errorf("undone %v before the deadline", -late)
			} else {
				t.Logf("undone %v after the deadline", late)
			}
			if d := cmp.Diff(before, h.files()); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestDeadlineOutlivesItsRecord: while the record cannot be read, the keeper waits. Once it can be read, the keeper
// undoes what is due.
func TestDeadlineOutlivesItsRecord(t *testing.T) {
	h := newHost(t)
	before := h.files()
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, some())); must(t, err) })
	h.boottime += confirm
	file, away := filepath.Join(h.state, "applied"), filepath.Join(t.TempDir(), "away")
	must(t, os.Rename(file, away))
	must(t, os.Mkdir(file, 0o755)) // Like a record on a failing disk, it cannot be read.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := tuner.Await(ctx, h.host()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it waits no more: %v", err)
	}
	must(t, os.Remove(file))
	must(t, os.Rename(away, file))
	_, err := tuner.Await(t.Context(), h.host())
	must(t, err)
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
}

// TestDeadlineTriesAgain: a file that cannot be written at the deadline, but a moment later, is restored in the end.
func TestDeadlineTriesAgain(t *testing.T) {
	h := newHost(t)
	before := h.files()
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, some())); must(t, err) })
	file, away := h.plain.Path(slice), filepath.Join(t.TempDir(), "away")
	must(t, os.Rename(file, away))
	must(t, os.Mkdir(file, 0o755)) // Like a kernel file that answers EBUSY, it accepts no text.
	h.boottime += confirm
	ended := make(chan error, 1)
	go func() {
		_, err := tuner.Await(t.Context(), h.host())
		ended <- err
	}()
	must(t, patience.Until(t.Context(), 10*time.Millisecond, func() string {
		a, is, err := tuner.Load(h.state)
		if err != nil || !is || a.Phase != tuner.Undoing {
			return fmt.Sprintf("the record is %v %s, %v", is, a.Phase, err)
		}
		return ""
	}))
	// The exchange is atomic: if the file were missing for a moment, the undo would treat the setting as gone.
	must(t, unix.Renameat2(unix.AT_FDCWD, away, unix.AT_FDCWD, file, unix.RENAME_EXCHANGE))
	must(t, <-ended)
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
}

// written reports whether a file was written since a time, even if the keeper has restored its text.
func (h *host) written(since time.Time) (is bool) {
	h.t.Helper()
	for name := range h.files() {
		info, err := os.Stat(h.plain.Path(name))
		must(h.t, err)
		is = is || info.ModTime().After(since)
	}
	return is
}

// TestDeadApplyIsUndoneAtOnce: an apply that was killed halfway is undone at once, without waiting for the deadline.
func TestDeadApplyIsUndoneAtOnce(t *testing.T) {
	h := newHost(t)
	h.write("/proc/sys/kernel/random/boot_id", boot)
	before, began := h.files(), time.Now()
	r := trial{root: h.plain.Dir, state: filepath.Join(t.TempDir(), "tune"), settings: some(), confirm: time.Hour}
	const writing = 8
	if r.apply(t, writing) {
		t.Fatal("the apply came to its end")
	}
	if !h.written(began) {
		t.Error("nothing had been written")
	}
	must(t, unlocked(t, hostOf(t, r.root, r.state)).Close())
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
	r.undone(t) // so that the child ends too
}

// TestDeadlineOfAStoppedApply: an apply that a signal stopped holds the directory's lock, even if its first thread has
// ended. At the deadline it continues, ends, and is undone.
func TestDeadlineOfAStoppedApply(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{"whole": nil, "without its first thread": {childEnds + "=1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.write("/proc/sys/kernel/random/boot_id", boot)
			before := h.files()
			r := trial{root: h.plain.Dir, state: filepath.Join(t.TempDir(), "tune"), settings: some(), confirm: 10 * time.Second} // before that the test has to see the stop
			t.Cleanup(func() { r.kept(t) })
			const writing = 8
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestApplyChild$")
			child.Env = slices.Concat(os.Environ(), r.environ(writing), []string{childStops + "=1"}, more)
			must(t, child.Start())
			var status syscall.WaitStatus
			_, err := syscall.Wait4(child.Process.Pid, &status, syscall.WUNTRACED, nil)
			must(t, err)
			if !status.Stopped() || cmp.Equal(before, h.files()) {
				t.Fatalf("it did not stop in the middle of its writes: %v", status)
			}
			r.undone(t)
			_ = child.Wait() // it killed itself after it continued
			if d := cmp.Diff(before, h.files()); d != "" {
				t.Error(d)
			}
		})
	}
}
