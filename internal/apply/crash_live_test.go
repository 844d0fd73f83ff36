package apply_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/test/kernel/job"
)

// What a crash test hands its child: the state directory, the top group, the number of the step
// at which to die, and what to apply.
const (
	crashDir   = "BERTH_TEST_CRASH_DIR"
	crashGroup = "BERTH_TEST_CRASH_GROUP"
	crashStep  = "BERTH_TEST_CRASH_STEP"
	crashWork  = "BERTH_TEST_CRASH_WORK"
)

// quotas are settings one after the other: everything up, then the burst up under a falling
// quota, a limit taken away, and everything down below where it started.
func quotas(top string) [][]plan.Setting {
	a, b := top+"/a", top+"/b"
	return [][]plan.Setting{
		{maxTo(top, 4*period), maxTo(a, 3*period), burstTo(a, 3*period), maxTo(b, 3*period)},
		{maxTo(a, 2*period), burstTo(a, 2*period), burstTo(b, period)},
		{maxTo(top, -1), maxTo(a, -1)},
		{maxTo(top, period), maxTo(a, period/2), burstTo(a, period/4), maxTo(b, period/2), burstTo(b, 0)},
	}
}

// settingsOf are the settings that the text of a child's work stands for.
func settingsOf(t *testing.T, host *cgroup.Host, top, work string) [][]plan.Setting {
	t.Helper()
	kind, rest, _ := strings.Cut(work, " ")
	switch kind {
	case "quotas":
		return quotas(top)
	case "lists":
		words := strings.Fields(rest)
		c := cpus{plan.Value(words[0]), plan.Value(words[1]), plan.Value(words[2])}
		return spread(top, c, plan.Value(words[3]))
	case "precedence":
		low, middle, normal := weights(t, host)
		return precedences(top, low, middle, normal)
	case "isolate":
		_, middle, _ := weights(t, host)
		return isolation(coresOf(t, host, top), top, middle)
	case "isolate-anew":
		_, middle, _ := weights(t, host)
		return isolation(coresOf(t, host, top), top, middle)[:1]
	}
	t.Fatalf("no such work: %q", work)
	return nil
}

// TestCrashChild is the child; without its variables it does nothing.
func TestCrashChild(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		return
	}
	fatal, err := strconv.Atoi(os.Getenv(crashStep))
	must(t, err)
	host, work := openHost(t), os.Getenv(crashWork)
	watch := func() {}
	if strings.HasPrefix(work, "isolate") {
		watch = sides(t, host, os.Getenv(crashGroup))
	}
	step := 0
	die := func(apply.Step, plan.Target) {
		watch()
		if step++; step == fatal {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	a := apply.New(cgroupfile.Kinds(host, nil), openJournal(t, dir), apply.Options{Step: die})
	for _, settings := range settingsOf(t, host, os.Getenv(crashGroup), work) {
		for _, r := range a.Apply(changes(t, host, settings...)) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	watch = func() {} // offline work is over
	for _, r := range a.Restore(nil, false) {
		if r.Err != nil || r.Outcome != apply.OutcomeRestored && r.Outcome != apply.OutcomeAlready {
			t.Fatalf("%+v", r)
		}
	}
}

// The process dies by SIGKILL between every two steps of apply and of restore;
// each time a rollback by another process puts back every byte.
func TestCrashBetweenSteps(t *testing.T) {
	l := newLive(t)
	l.crashes("quotas", 60, l.files)
}

// crashes has a child die at each of its steps, at least so many, and a rollback by another
// process put back what look sees. After every other death another child does the work of anew,
// where there is any, as an agent that starts again does, and puts all back itself.
func (l *live) crashes(work string, least int, look func() map[string]string, anew ...string) {
	l.t.Helper()
	before, dir := look(), l.t.TempDir()
	for step := 1; ; step += stride(l.t) {
		if step > 500 {
			l.t.Fatal("the child never ran to its end")
		}
		killed := l.crash(dir, step, work)
		for _, more := range anew {
			if killed && step%2 == 0 && l.crash(dir, 0, more) {
				l.t.Fatalf("the child after step %d was killed", step)
			}
		}
		j, err := journal.Open(dir, boot, cgroupfile.Values())
		must(l.t, err)
		if !killed && len(j.Entries()) > 0 {
			l.t.Errorf("entries left by a whole run: %v", j.Entries())
		}
		for _, r := range apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{}).Restore(nil, false) {
			if r.Err != nil || r.Outcome != apply.OutcomeRestored && r.Outcome != apply.OutcomeAlready {
				l.t.Errorf("step %d: %s: %s: found %s: %v", step, r.Entry.Target, r.Outcome, r.Found, r.Err)
			}
		}
		must(l.t, j.Close())
		if d := cmp.Diff(before, look()); d != "" {
			l.t.Fatalf("killed at step %d (-before +after rollback):\n%s", step, d)
		}
		s, err := journal.Load(dir, cgroupfile.Values())
		must(l.t, err)
		if len(s.Entries) != 0 || s.Damage != nil {
			l.t.Fatalf("killed at step %d: journal %v, damage %v", step, s.Entries, s.Damage)
		}
		if !killed {
			if step < least {
				l.t.Errorf("only %d steps", step)
			}
			return
		}
	}
}

// stride says which of many like repetitions to make: all of them where processors are real.
func stride(t *testing.T) int {
	t.Helper()
	n, err := job.Stride()
	must(t, err)
	return n
}

// crash runs the child and reports whether it was killed.
func (l *live) crash(dir string, step int, work string) bool {
	l.t.Helper()
	child := exec.CommandContext(l.t.Context(), os.Args[0], "-test.run=^TestCrashChild$", "-test.v")
	child.Env = append(os.Environ(), crashDir+"="+dir, crashGroup+"="+l.top.Path(), fmt.Sprintf("%s=%d", crashStep, step), crashWork+"="+work)
	out, err := child.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(string(out), "--- PASS: TestCrashChild"):
		return false
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return true
	}
	l.t.Fatalf("child at step %d: %v\n%s", step, err, out)
	return false
}

// A crash between Intend and a write over a foreign value leaves that value
// another writer's.
func TestCrashBeforeReassertion(t *testing.T) {
	l := newLive(t)
	dir := t.TempDir()
	j := openJournal(t, dir)
	target := cgroupfile.Target(l.a.Path(), cgroup.KnobMax)
	l.applied(apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{}), maxTo(l.a.Path(), 2*period))
	must(t, l.a.SetMax(77_000, period))
	must(t, j.Intend(plan.Change{Setting: maxTo(l.a.Path(), 2*period), From: value(t, l.host, target)}))
	must(t, j.Close())
	restored(t, apply.New(cgroupfile.Kinds(l.host, nil), openJournal(t, dir), apply.Options{}), "drifted")
	if v := value(t, l.host, target); v != "77000 100000" {
		t.Errorf("the other writer's value became %s", v)
	}
}
