package irq_test

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/irq"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/kernel/job"
)

// lists returns the text of each interrupt's list, by file.
func lists(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("/proc/irq/[0-9]*/smp_affinity_list")
	must(t, err)
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		all[file] = string(text)
	}
	return all
}

// isQueue reports whether the interrupt of a file is that of a queue of a virtio disk. The kernel places these
// interrupts itself (virtblk_probe, irq_create_affinity_masks).
func isQueue(t *testing.T, file string) bool {
	t.Helper()
	actions, err := os.ReadFile("/sys/kernel/irq/" + path.Base(path.Dir(file)) + "/actions")
	must(t, err)
	return strings.HasPrefix(string(actions), "virtio") && strings.Contains(string(actions), "-req.")
}

// TestLiveManaged gives each interrupt of the running kernel one CPU. The kernel refuses those that it places itself,
// such as those of the two-queue disk of the virtual machine, which stay. The other interrupts move. A restoration
// brings back every byte. With isolcpus=managed_irq, no interrupt of the disk is served by an isolated CPU.
func TestLiveManaged(t *testing.T) {
	guest, err := job.Guest()
	must(t, err)
	if !guest {
		t.Skip("moves interrupts of the whole host; runs in the VM: make test")
	}
	root, err := hostfs.Open("/")
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	j, err := journal.Open(t.TempDir(), "boot", irq.Values())
	must(t, err)
	t.Cleanup(func() { must(t, j.Close()) })
	a := apply.New(irq.Kinds(root), j, apply.Options{})

	before := lists(t)
	queues, moved := 0, 0
	for file, text := range before {
		at, err := irq.Target(root, file)
		must(t, err)
		now := a.Read([]plan.Target{at})[0]
		must(t, now.Err)
		to := plan.Value("1")
		if now.Value == to {
			to = "2"
		}
		r := a.Apply([]plan.Change{{From: now.Value, Setting: plan.Setting{Target: at, ID: now.ID, Value: to, Owner: "tune"}}})[0]
		stands, err := os.ReadFile(file)
		must(t, err)
		managed := errors.Is(r.Err, irq.ErrManaged)
		switch {
		case managed && (r.Wrote || string(stands) != text):
			t.Errorf("%s is managed, and has %s, had %s: %+v", file, stands, text, r)
		case !managed && (r.Err != nil || strings.TrimSpace(string(stands)) != string(to)):
			t.Errorf("%s has %s, want %s: %+v", file, stands, to, r)
		case !managed:
			moved++
		}
		if isQueue(t, file) {
			queues++
			if !managed {
				t.Errorf("%s: the queue of a disk was moved: %+v", file, r)
			}
			line, err := os.ReadFile("/proc/cmdline")
			must(t, err)
			onHousekeeping(t, string(line), path.Dir(file))
		}
	}
	_, disks := os.Stat("/sys/bus/virtio/drivers/virtio_blk")
	if disks == nil && queues < 2 || moved == 0 {
		t.Errorf("%d interrupts of queues, want 2 where the kernel has the driver (%v); %d interrupts moved", queues, disks, moved)
	}
	t.Logf("%d interrupts: %d of queues, %d moved", len(before), queues, moved)
	for _, r := range a.Restore(nil, false) {
		if r.Err != nil || r.Outcome != apply.OutcomeRestored && r.Outcome != apply.OutcomeAlready {
			t.Errorf("%+v", r)
		}
	}
	if d := cmp.Diff(before, lists(t)); d != "" {
		t.Errorf("restored (-before +after):\n%s", d)
	}
}

// onHousekeeping checks that isolated CPUs serve no managed interrupt, if the kernel was booted to keep them off.
func onHousekeeping(t *testing.T, line, dir string) {
	t.Helper()
	for token := range strings.FieldsSeq(line) {
		list, is := strings.CutPrefix(token, "isolcpus=managed_irq,domain,")
		if !is {
			continue
		}
		isolated, err := cpuset.Parse(list)
		must(t, err)
		text, err := os.ReadFile(dir + "/effective_affinity_list")
		must(t, err)
		serves, err := cpuset.Parse(strings.TrimSpace(string(text)))
		if err != nil || serves.Intersects(isolated) {
			t.Errorf("%s is served by CPUs %s, isolated are %s: %v", dir, serves, isolated, err)
		}
	}
}
