package hostfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/hostfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/test/crash"
)

// The settings of the running kernel that the tests change and restore. interval is how often the kernel gathers memory
// statistics, in seconds. printk is which kernel messages are printed; its last number only applies to the next boot.
const (
	interval = "/proc/sys/vm/stat_interval"
	printk   = "/proc/sys/kernel/printk"
)

// live returns the kinds of the running kernel. The end of the test checks that its settings are as before.
func live(t *testing.T) apply.Kinds {
	t.Helper()
	if testing.Short() {
		t.Skip("changes the real kernel's settings: make test runs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("real settings need root; runs in the VM: make test")
	}
	for _, name := range []string{interval, printk} {
		before := content(t, name)
		if err := unix.Access(name, unix.W_OK); err != nil {
			t.Skipf("%s: %v; runs in the VM: make test", name, err)
		}
		t.Cleanup(func() {
			if now := content(t, name); now != before {
				must(t, os.WriteFile(name, []byte(before), 0))
				t.Errorf("%s was left at %q", name, now)
			}
		})
	}
	return kinds(t, "/")
}

func kinds(t *testing.T, dir string) apply.Kinds {
	t.Helper()
	root, err := hostfs.Open(dir)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return hostfile.Kinds(root)
}

func content(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	return string(data)
}

func openJournal(t *testing.T, dir string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(dir, boot, hostfile.Values())
	must(t, err)
	t.Cleanup(func() { must(t, j.Close()) })
	return j
}

// another returns a change of the setting to another value: the last number differs.
func another(t *testing.T, k apply.Kinds, file string) plan.Change {
	t.Helper()
	c := change(t, k, file, "")
	words := strings.Fields(string(c.From))
	last, err := strconv.Atoi(words[len(words)-1])
	must(t, err)
	words[len(words)-1] = strconv.Itoa(max(1, (last+1)%8))
	c.Value = plan.Value(strings.Join(words, " "))
	return c
}

func TestRunningKernel(t *testing.T) {
	for _, file := range []string{interval, printk} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			k := live(t)
			before := content(t, file)
			j := openJournal(t, t.TempDir())
			a := apply.New(k, j, apply.Options{})
			c := another(t, k, file)
			if r := a.Apply([]plan.Change{c})[0]; r.Err != nil || !r.Wrote || r.Effective != c.Value {
				t.Fatalf("%+v", r)
			}
			if now := strings.Join(strings.Fields(content(t, file)), " "); now != string(c.Value) {
				t.Errorf("the kernel has %q, want %q", now, c.Value)
			}
			restored(t, a, apply.OutcomeRestored)
			if now := content(t, file); now != before || len(j.Entries()) != 0 {
				t.Errorf("restored to %q, want %q; entries %v", now, before, j.Entries())
			}
		})
	}
}

// TestRunningKernelDrift checks that the restoration leaves another writer's value alone.
func TestRunningKernelDrift(t *testing.T) {
	k := live(t)
	before := content(t, interval)
	j := openJournal(t, t.TempDir())
	a := apply.New(k, j, apply.Options{})
	c := another(t, k, interval)
	if r := a.Apply([]plan.Change{c})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	must(t, os.WriteFile(interval, []byte("77"), 0))
	restored(t, a, apply.OutcomeDrifted)
	if now := content(t, interval); now != "77\n" {
		t.Errorf("it became %q", now)
	}
	must(t, os.WriteFile(interval, []byte(before), 0))
	restored(t, a, apply.OutcomeAlready)
}

// TestRunningKernelRefuses checks the errors for a value that the kernel refuses, a file that does not exist, and files
// that are read-only.
func TestRunningKernelRefuses(t *testing.T) {
	k := live(t)
	refused := func(what string, k apply.Kinds, c plan.Change, want error) {
		t.Helper()
		a := apply.New(k, openJournal(t, t.TempDir()), apply.Options{})
		if r := a.Apply([]plan.Change{c})[0]; !errors.Is(r.Err, want) || r.Wrote || r.Applied() {
			t.Errorf("%s: wrote %v: %v, want %v", what, r.Wrote, r.Err, want)
		}
	}
	refused("no number", k, change(t, k, interval, "often"), apply.ErrRefused)
	refused("mode 0444", k, change(t, k, "/proc/sys/kernel/osrelease", "7"), hostfile.ErrReadOnly)
	refused("no such file", k, plan.Change{Setting: plan.Setting{Target: target(t, "/proc/sys/vm/no_such_knob"), Value: "1"}}, hostfile.ErrAbsent)

	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "proc"), 0o755))
	must(t, unix.Mount("proc", filepath.Join(dir, "proc"), "proc", unix.MS_RDONLY, ""))
	t.Cleanup(func() { must(t, unix.Unmount(filepath.Join(dir, "proc"), unix.MNT_DETACH)) })
	k = kinds(t, dir)
	refused("a read-only mount", k, another(t, k, interval), hostfile.ErrReadOnly)
}

// TestMountsBelow checks that a file on a filesystem mounted below the trees is not treated as a kernel setting. A file
// that such a mount hides cannot be seen: neither is touched, and no original is forgotten.
func TestMountsBelow(t *testing.T) {
	live(t)
	r := newRecorded(t)
	const knob, below, masked = "/sys/block/vda/queue/scheduler", "/sys/kernel/debug/sched/verbose", "/proc/sys/vm/stat_interval"
	r.Write(below, "N\n")
	a, j := r.applier(apply.Options{})
	var changes []plan.Change
	for _, file := range []string{knob, below, masked} {
		changes = append(changes, change(t, r.kinds, file, "5"))
	}
	for _, res := range a.Apply(changes) {
		must(t, res.Err)
	}
	for _, dir := range []string{"/sys/kernel/debug", "/sys/block"} {
		dir = r.Path(dir)
		must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"))
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	}
	file := r.Path(masked)
	must(t, unix.Mount("/dev/null", file, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(file, unix.MNT_DETACH) })
	r.Write(below, "5\n")
	for _, res := range a.Apply(changes) {
		if !errors.Is(res.Err, hostfile.ErrOutside) || res.Wrote {
			t.Errorf("%s: %+v", res.Change, res)
		}
	}
	for _, res := range a.Restore(nil, false) {
		if res.Outcome != apply.OutcomeFailed {
			t.Errorf("%s: %+v", res.Entry.Target, res)
		}
	}
	if got := r.content(below); got != "5\n" || len(j.Entries()) != len(changes) {
		t.Errorf("the file in the mount has %q; entries %v", got, j.Entries())
	}
}

// TestCrashChild is the child process of the crash test. Otherwise it does nothing.
func TestCrashChild(t *testing.T) {
	child, ok := crash.Asked(t)
	if !ok {
		return
	}
	k := kinds(t, "/")
	a := apply.New(k, openJournal(t, child.Dir), apply.Options{Step: child.Step})
	for range 2 {
		for _, file := range []string{interval, printk} {
			if r := a.Apply([]plan.Change{another(t, k, file)})[0]; r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	crash.Undone(t, "in the child", a.Restore(nil, false))
}

// TestCrashBetweenSteps kills the process with SIGKILL between every two steps. Each time, a rollback by another
// process must restore the kernel's original values.
func TestCrashBetweenSteps(t *testing.T) {
	k := live(t)
	before := content(t, interval) + content(t, printk)
	dir := t.TempDir()
	crash.Steps(t, 20, func(step int) bool {
		killed := crash.At(t, dir, step)
		j, err := journal.Open(dir, boot, hostfile.Values())
		must(t, err)
		when := fmt.Sprintf("killed at step %d", step)
		crash.Undone(t, when, apply.New(k, j, apply.Options{}).Restore(nil, false))
		if n := len(j.Entries()); n != 0 {
			t.Errorf("%s: %d entries left", when, n)
		}
		must(t, j.Close())
		if now := content(t, interval) + content(t, printk); now != before {
			t.Fatalf("%s: the kernel has %q, want %q", when, now, before)
		}
		return killed
	})
}
