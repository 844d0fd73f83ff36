package tuner_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/test/chance"
	"github.com/berth-project/berth/test/kernel/job"
	"github.com/berth-project/berth/test/patience"
)

// inGuest skips a test that changes the whole machine, unless it runs in the tests' virtual machine.
func inGuest(t testing.TB) {
	t.Helper()
	is, err := job.Guest()
	must(t, err)
	if !is {
		t.Skip("changes the whole host; runs in the VM: make test")
	}
}

// guest returns settings that this kernel supports. They affect the whole host, so guest skips the test outside the
// tests' virtual machine.
func guest(t *testing.T) map[string]string {
	t.Helper()
	inGuest(t)
	root := hostOf(t, "/", t.TempDir()).Root
	host := knob.Open(root.FS())
	settings := map[string]string{}
	for name, values := range map[string][]string{
		"fair.slice": {"4ms", "5ms"}, "fair.migrationCost": {"600us", "700us"}, "fair.nrMigrate": {"16", "24"},
		"sched.autogroup": {"off", "on"}, "numa.balancing": {"off", "on"}, "thp.enabled": {"never", "madvise"}, "rr.slice": {"40ms", "60ms"},
		"workqueue.cpus": {"0", "1"}, "irq.default": {"0", "1"}, "sysctl.vm.stat_interval": {"3", "4"},
	} {
		k, _ := knob.Lookup(name)
		for _, found := range host.Probe(k) {
			if found.Support != knob.Settable {
				t.Logf("%s: %s: %s", name, found.Support, found.Why)
				continue
			}
			text := values[0]
			if found.Now == text {
				text = values[1]
			}
			value, err := k.Parse(text)
			must(t, err)
			settings[found.File] = k.Written(found.Place, value)
		}
	}
	if len(settings) < 4 {
		t.Fatalf("only %d knobs can be set here", len(settings))
	}
	return settings
}

// kernelFiles returns the texts of the files of settings.
func kernelFiles(t *testing.T, settings map[string]string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, file := range slices.Sorted(maps.Keys(settings)) {
		text, err := os.ReadFile(file)
		must(t, err)
		all[file] = string(text)
	}
	return all
}

// TestLiveApplyKillRollback: the running kernel accepts a profile. After a kill at any step, the next command restores
// every byte. A rollback of the whole profile does so too.
func TestLiveApplyKillRollback(t *testing.T) {
	settings := guest(t)
	before := kernelFiles(t, settings)
	stride, err := job.Stride()
	must(t, err)
	state := filepath.Join(t.TempDir(), "tune")
	r := trial{root: "/", state: state, settings: settings, confirm: time.Hour}
	for step := 1; ; step += stride {
		whole := r.apply(t, step)
		if whole {
			for file, text := range kernelFiles(t, settings) {
				if text == before[file] {
					t.Errorf("%s still has %q", file, strings.TrimSpace(text))
				}
			}
		}
		u := unlocked(t, hostOf(t, "/", state))
		for _, line := range u.Rollback() {
			if line.Err != nil {
				t.Errorf("step %d: %s: %s: %v", step, line.Entry.Target, line.Outcome, line.Err)
			}
		}
		must(t, u.Close())
		if d := cmp.Diff(before, kernelFiles(t, settings)); d != "" {
			t.Fatalf("killed at step %d (-before +after):\n%s", step, d)
		}
		if whole {
			return
		}
	}
}

// TestLiveDeadline: nobody commits and the applying process is dead. At the deadline the kernel has its original values
// again.
func TestLiveDeadline(t *testing.T) {
	settings := guest(t)
	before := kernelFiles(t, settings)
	r := trial{root: "/", state: filepath.Join(t.TempDir(), "tune"), settings: settings, confirm: 3 * time.Second}
	r.apply(t, never)
	r.undone(t)
	if d := cmp.Diff(before, kernelFiles(t, settings)); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
}

// TestLiveRandomHistories: on the running kernel, a rollback restores every byte after any history of applies, commits
// and rollbacks, each of which SIGKILL ends at a random step or after its last one. The lists of all interrupts count too.
func TestLiveRandomHistories(t *testing.T) {
	settings := guest(t)
	stride, err := job.Stride()
	must(t, err)
	histories := 100
	if stride > 1 {
		histories = 3
	}
	lists, err := filepath.Glob("/proc/irq/[0-9]*/smp_affinity_list")
	must(t, err)
	watched := maps.Clone(settings)
	for _, file := range lists {
		watched[file] = ""
	}
	before := kernelFiles(t, watched)
	random := rand.New(rand.NewPCG(chance.Seed(), 1))
	files := slices.Sorted(maps.Keys(settings))
	kills := 0
	for n := range histories {
		state := filepath.Join(t.TempDir(), "tune")
		var said []string
		for range 1 + random.IntN(4) {
			r := trial{root: "/", state: state, settings: map[string]string{}, confirm: time.Hour}
			for _, file := range files {
				if random.IntN(3) > 0 {
					r.settings[file] = settings[file]
				}
			}
			command := []string{"apply", "apply", "commit", "rollback"}[random.IntN(4)]
			step := 1 + random.IntN(60)
			said = append(said, fmt.Sprintf("%s until step %d", command, step))
			if r.command(t, command, step) {
				kills++
			}
		}
		u := unlocked(t, hostOf(t, "/", state))
		for _, line := range u.Rollback() {
			if line.Err != nil {
				t.Errorf("history %d, %q: %s: %s: %v", n, said, line.Entry.Target, line.Outcome, line.Err)
			}
		}
		must(t, u.Close())
		if d := cmp.Diff(before, kernelFiles(t, watched)); d != "" {
			t.Fatalf("history %d, %q (-before +after):\n%s", n, said, d)
		}
	}
	t.Logf("%d histories, %d commands killed", histories, kills)
}

// command runs a child with a command that is killed at a step or after the last one, and reports whether it was killed.
// A command that is refused, such as a commit without a profile, fails instead. While the process that keeps the deadline
// undoes what a killed command left, the command waits.
func (r trial) command(t *testing.T, command string, step int) (killed bool) {
	t.Helper()
	t.Cleanup(func() { r.kept(t) })
	must(t, patience.Until(t.Context(), 100*time.Millisecond, func() string {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestApplyChild$")
		child.Env = append(append(os.Environ(), r.environ(step)...), childCommand+"="+command)
		said, err := child.CombinedOutput()
		out := string(said)
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("%s at step %d: %v\n%s", command, step, err, out)
		}
		killed = exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		switch {
		case killed, strings.Contains(out, "no profile is applied"), strings.Contains(out, "a profile is applied"):
			return ""
		case strings.Contains(out, "state directory is locked"):
			return out
		}
		t.Errorf("%s at step %d: %v\n%s", command, step, err, out)
		return ""
	}))
	return killed
}
