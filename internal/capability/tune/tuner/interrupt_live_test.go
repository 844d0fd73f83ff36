package tuner_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/linux/knob"
)

// interrupts returns the plan of a profile that gives all interrupts these CPUs.
func interrupts(t *testing.T, h tuner.Host, cpus string) tune.Plan {
	t.Helper()
	k, _ := knob.Lookup("irq.affinity")
	value, err := k.Parse(cpus)
	must(t, err)
	survey := knob.Survey{k.Name: knob.Open(h.Root.FS()).Probe(k)}
	return tune.Make(profile.Bound{Name: "test", Settings: []profile.Setting{{Knob: k, Value: value}}}, tune.Host{Survey: survey}, nil)
}

// affinityLists returns the text of each interrupt's list, by file.
func affinityLists(t *testing.T) map[string]string {
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

// TestLiveInterrupts: a profile moves the interrupts of devices, and leaves those that the kernel places itself, each
// with the reason: the plan does so where the file's mode shows it, the apply where only the write does. verify then
// has the moved ones, and a rollback restores every byte.
func TestLiveInterrupts(t *testing.T) {
	inGuest(t)
	h := hostOf(t, "/", filepath.Join(t.TempDir(), "tune"))
	before := affinityLists(t)
	const to = "1"
	d := interrupts(t, h, to).Divide()
	if len(d.Blocked) > 0 {
		t.Errorf("blocked: %+v", d.Blocked)
	}
	u := unlocked(t, h)
	r, err := u.Apply(tuner.Order{Settings: d.Write})
	must(t, err)
	left := map[string]string{}
	for _, s := range slices.Concat(d.Left, r.Left) {
		left[s.File] = s.Why
		if s.Why == "" {
			t.Errorf("%s is left without a reason", s.File)
		}
	}
	queues, moved := 0, 0
	for file, text := range affinityLists(t) {
		_, isLeft := left[file]
		switch {
		case isLeft && text != before[file]:
			t.Errorf("%s is left (%s), and has %s, had %s", file, left[file], text, before[file])
		case !isLeft && strings.TrimSpace(text) != to:
			t.Errorf("%s has %s", file, text)
		case !isLeft:
			moved++
		}
		actions, err := os.ReadFile("/sys/kernel/irq/" + filepath.Base(filepath.Dir(file)) + "/actions")
		must(t, err)
		if strings.HasPrefix(string(actions), "virtio") && strings.Contains(string(actions), "-req.") { // virtblk_probe
			queues++
			if !isLeft {
				t.Errorf("%s, the queue of a disk, was moved", file)
			}
			t.Logf("%s: %s", file, left[file])
		}
	}
	_, disks := os.Stat("/sys/bus/virtio/drivers/virtio_blk")
	if disks == nil && queues < 2 || moved == 0 {
		t.Errorf("%d interrupts of queues, want 2 where the kernel has the driver (%v); %d interrupts moved", queues, disks, moved)
	}
	a, _ := u.Applied()
	for _, row := range a.Verify(h.Root.FS(), h.Kernel, nil) {
		if row.Differs() || left[row.File] != "" {
			t.Errorf("verified: %+v", row)
		}
	}
	for _, line := range u.Rollback() {
		if line.Err != nil {
			t.Errorf("%+v", line)
		}
	}
	must(t, u.Close())
	if d := cmp.Diff(before, affinityLists(t)); d != "" {
		t.Errorf("rolled back (-before +after):\n%s", d)
	}
}
