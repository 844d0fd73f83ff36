package tuner_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/test/kernel/job"
)

// inGuest skips a test that changes the whole machine, unless it runs in the tests' virtual machine.
func inGuest(t testing.TB) {
	t.Helper()
	line, err := os.ReadFile("/proc/cmdline")
	must(t, err)
	if job.Param(string(line), job.LayoutParam) == "" {
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
	r := trial{root: "/", state: filepath.Join(t.TempDir(), "tune"), settings: settings, confirm: 5 * time.Second}
	r.apply(t, never)
	r.undone(t)
	if d := cmp.Diff(before, kernelFiles(t, settings)); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
}
