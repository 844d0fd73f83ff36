// Package crash kills a test's own program with SIGKILL between two steps of apply, like an agent that is killed, and
// counts the steps. The test package needs a TestCrashChild that does the work.
package crash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/test/kernel/job"
)

// The environment of a child: the state directory, and the number of the step at which it dies.
const (
	dirName  = "BERTH_TEST_CRASH_DIR"
	stepName = "BERTH_TEST_CRASH_STEP"
)

// A Child is the process that dies.
type Child struct {
	// Dir is the state directory.
	Dir string

	fatal, step int
}

// Asked returns this process as a child, or false in the test itself.
func Asked(t *testing.T) (*Child, bool) {
	t.Helper()
	dir := os.Getenv(dirName)
	if dir == "" {
		return nil, false
	}
	fatal, err := strconv.Atoi(os.Getenv(stepName))
	if err != nil {
		t.Fatal(err)
	}
	return &Child{Dir: dir, fatal: fatal}, true
}

// Step is the step hook of apply.Options. It does not return from the step at which the child dies.
func (c *Child) Step(apply.Step, plan.Target) {
	if c.step++; c.step == c.fatal {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

// At runs TestCrashChild of this program until the given step (0 for none), and reports whether it was killed there.
func At(t *testing.T, dir string, step int, env ...string) bool {
	t.Helper()
	child := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestCrashChild$", "-test.v")
	child.Env = append(os.Environ(), dirName+"="+dir, fmt.Sprintf("%s=%d", stepName, step))
	child.Env = append(child.Env, env...)
	out, err := child.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(string(out), "--- PASS: TestCrashChild"):
		return false
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return true
	}
	t.Fatalf("the child at step %d: %v\n%s", step, err, out)
	return false
}

// Steps calls once for each step, until no child is killed any more. The work must have at least least steps. With
// emulated processors it omits most of many similar steps.
func Steps(t *testing.T, least int, once func(step int) (killed bool)) {
	t.Helper()
	stride, err := job.Stride()
	if err != nil {
		t.Fatal(err)
	}
	stride = min(stride, max(1, least/4))
	step := 1
	for ; once(step) && !t.Failed(); step += stride {
		if step > 500 {
			t.Fatal("the child never ran to its end")
		}
	}
	if step < least {
		t.Errorf("only %d steps", step)
	}
}

// Undone checks that all settings were restored, now or earlier by the child.
func Undone(t *testing.T, when string, list []apply.Restored) {
	t.Helper()
	for _, r := range list {
		if r.Err != nil || r.Outcome != apply.OutcomeRestored && r.Outcome != apply.OutcomeAlready {
			t.Errorf("%s: %s: %s: found %s: %v", when, r.Entry.Target, r.Outcome, r.Found, r.Err)
		}
	}
}
