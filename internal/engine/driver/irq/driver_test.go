package irq_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/irq"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/hostfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// machine is a tree with the interrupts of a network card.
type machine struct {
	t    *testing.T
	dir  string
	root *hostfs.Root
	a    *apply.Applier
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir()}
	m.interrupt("24", "nic-rx-0", "0-3")
	m.interrupt("25", "nic-rx-1", "0-3")
	m.write("proc/irq/default_smp_affinity", "0000000f\n", 0o644)
	var err error
	m.root, err = hostfs.Open(m.dir)
	must(t, err)
	t.Cleanup(func() { _ = m.root.Close() })
	j, err := journal.Open(t.TempDir(), "boot", irq.Values())
	must(t, err)
	t.Cleanup(func() { must(t, j.Close()) })
	m.a = apply.New(irq.Kinds(m.root), j, apply.Options{})
	return m
}

func (m *machine) write(name, text string, mode fs.FileMode) {
	m.t.Helper()
	file := filepath.Join(m.dir, name)
	must(m.t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(m.t, os.WriteFile(file, []byte(text), 0o644))
	must(m.t, os.Chmod(file, mode))
}

func (m *machine) interrupt(number, action, cpus string) {
	m.t.Helper()
	m.write("proc/irq/"+number+"/smp_affinity_list", cpus+"\n", 0o644)
	m.write("sys/kernel/irq/"+number+"/chip_name", "PCI-MSIX-0000:00:04.0\n", 0o444)
	m.write("sys/kernel/irq/"+number+"/hwirq", action[len(action)-1:]+"\n", 0o444)
	m.write("sys/kernel/irq/"+number+"/actions", action+"\n", 0o444)
}

func (m *machine) content(name string) string {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.dir, name))
	must(m.t, err)
	return string(text)
}

// change is planned from what stands.
func (m *machine) change(file, to string) plan.Change {
	m.t.Helper()
	at, err := irq.Target(m.root, file)
	must(m.t, err)
	now := m.a.Read([]plan.Target{at})[0]
	must(m.t, now.Err)
	return plan.Change{From: now.Value, Setting: plan.Setting{Target: at, ID: now.ID, Value: plan.Value(to), Owner: "tune"}}
}

// TestWriteAndRestore: however a set of CPUs is written, it is the same.
func TestWriteAndRestore(t *testing.T) {
	for file, tt := range map[string]struct{ same, to, back string }{
		"/proc/irq/24/smp_affinity_list": {"0,1-3", "2", "0-3"},
		"/proc/irq/default_smp_affinity": {"f", "4", "0000000f"},
	} {
		t.Run(file, func(t *testing.T) {
			m := newMachine(t)
			if r := m.a.Apply([]plan.Change{m.change(file, tt.same)})[0]; r.Err != nil || r.Wrote {
				t.Errorf("what stands was written: %+v", r)
			}
			if r := m.a.Apply([]plan.Change{m.change(file, tt.to)})[0]; r.Err != nil || m.content(file) != tt.to {
				t.Errorf("%+v; %q", r, m.content(file))
			}
			if r := m.a.Restore(nil, false); len(r) != 1 || r[0].Outcome != apply.OutcomeRestored || m.content(file) != tt.back {
				t.Errorf("%+v; %q", r, m.content(file))
			}
		})
	}
}

// TestNumbersMove: an interrupt whose number another one has by now is not written, and one
// that has another number has nothing to restore.
func TestNumbersMove(t *testing.T) {
	m := newMachine(t)
	c := m.change("/proc/irq/24/smp_affinity_list", "1")
	if r := m.a.Apply([]plan.Change{c})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	next := m.change("/proc/irq/25/smp_affinity_list", "1")
	m.interrupt("24", "nic-rx-1", "1")
	m.interrupt("25", "nic-rx-0", "0-3")
	if r := m.a.Apply([]plan.Change{next})[0]; !errors.Is(r.Err, apply.ErrGone) || r.Wrote {
		t.Errorf("the other interrupt was written: %+v", r)
	}
	if r := m.a.Restore(nil, false); len(r) != 1 || r[0].Outcome != apply.OutcomeGone || m.content("proc/irq/24/smp_affinity_list") != "1\n" {
		t.Errorf("%+v", r)
	}
}

// TestActionsChange: a device that is renamed, or that shares its interrupt with one more, has
// the same interrupt; one of a chip without numbers of its own is known by its actions.
func TestActionsChange(t *testing.T) {
	const file = "/proc/irq/24/smp_affinity_list"
	for name, tt := range map[string]struct {
		hwirq   string
		actions string
		want    apply.Outcome
	}{
		"renamed":           {"0\n", "lan0-rx-0\n", apply.OutcomeRestored},
		"shared":            {"0\n", "nic-rx-0,usb1\n", apply.OutcomeRestored},
		"no driver":         {"0\n", "\n", apply.OutcomeRestored},
		"another interrupt": {"9\n", "nic-rx-0\n", apply.OutcomeGone},
		"no number":         {"", "nic-rx-0\n", apply.OutcomeRestored},
		"no number, other":  {"", "disk\n", apply.OutcomeGone},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			if tt.hwirq == "" {
				m.write("sys/kernel/irq/24/hwirq", "", 0o444)
			}
			c := m.change(file, "1")
			if r := m.a.Apply([]plan.Change{c})[0]; r.Err != nil {
				t.Fatal(r.Err)
			}
			m.write("sys/kernel/irq/24/actions", tt.actions, 0o444)
			m.write("sys/kernel/irq/24/hwirq", tt.hwirq, 0o444)
			if at, err := irq.Target(m.root, file); err != nil || (at == c.Target) != (tt.want == apply.OutcomeRestored) {
				t.Errorf("target %v, was %v, %v", at, c.Target, err)
			}
			if r := m.a.Restore(nil, false); len(r) != 1 || r[0].Outcome != tt.want {
				t.Errorf("%+v, want %s", r, tt.want)
			}
		})
	}
}

// TestManaged: what the kernel keeps for itself is told from what it does not take.
func TestManaged(t *testing.T) {
	m := newMachine(t)
	c := m.change("/proc/irq/24/smp_affinity_list", "1")
	m.write("proc/irq/24/smp_affinity_list", "0-3\n", 0o444)
	if r := m.a.Apply([]plan.Change{c})[0]; !errors.Is(r.Err, irq.ErrManaged) || r.Wrote {
		t.Errorf("%+v", r)
	}
	must(t, os.RemoveAll(filepath.Join(m.dir, "proc/irq/25")))
	if _, err := irq.Target(m.root, "/proc/irq/25/smp_affinity_list"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := irq.Target(m.root, "/proc/irq/24/node"); !errors.Is(err, irq.ErrOutside) {
		t.Error(err)
	}
}

// TestOffline: an original of CPUs that are offline waits for one of them, and never becomes another list.
func TestOffline(t *testing.T) {
	const online = "sys/devices/system/cpu/online"
	for name, tt := range map[string]struct{ file, original, changed, also string }{
		"an interrupt":    {"proc/irq/24/smp_affinity_list", "2", "0-1", "2-3"},
		"those that come": {"proc/irq/default_smp_affinity", "0000000c", "00000003", "0000000c"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.write(online, "0-3\n", 0o444)
			m.write(tt.file, tt.original, 0o644)
			must(t, m.a.Apply([]plan.Change{m.change("/"+tt.file, tt.changed)})[0].Err)
			m.write(online, "0-1\n", 0o444)
			if r := m.a.Restore(nil, true); len(r) != 1 || r[0].Outcome != apply.OutcomeDormant || r[0].Err != nil || string(r[0].Found) != tt.changed {
				t.Errorf("a dry run: %+v", r)
			}
			if r := m.a.Restore(nil, false); len(r) != 1 || r[0].Outcome != apply.OutcomeDormant || r[0].Err != nil || m.content(tt.file) != tt.changed {
				t.Errorf("%+v; the file has %s", r, m.content(tt.file))
			}
			if r := m.a.Apply([]plan.Change{m.change("/"+tt.file, tt.also)})[0]; !errors.Is(r.Err, apply.ErrNotInForce) || r.Wrote {
				t.Errorf("CPUs that are offline: %+v", r)
			}
			m.write(online, "0-2\n", 0o444)
			if r := m.a.Restore(nil, false); len(r) != 1 || r[0].Outcome != apply.OutcomeRestored || m.content(tt.file) != tt.original {
				t.Errorf("%+v; the file has %s", r, m.content(tt.file))
			}
		})
	}
}

// TestHidden: in a container that shows no interrupts nothing is gone.
func TestHidden(t *testing.T) {
	for _, covered := range []string{"proc", "proc/irq/24"} {
		t.Run(covered, func(t *testing.T) {
			m := newMachine(t)
			if r := m.a.Apply([]plan.Change{m.change("/proc/irq/24/smp_affinity_list", "1")})[0]; r.Err != nil {
				t.Fatal(r.Err)
			}
			must(t, os.RemoveAll(filepath.Join(m.dir, "proc/irq/25")))
			must(t, os.RemoveAll(filepath.Join(m.dir, "sys/kernel/irq/24")))
			must(t, os.RemoveAll(filepath.Join(m.dir, covered)))
			if r := m.a.Restore(nil, false); len(r) != 1 || r[0].Outcome != apply.OutcomeFailed {
				t.Errorf("%+v", r)
			}
		})
	}
}
