package cli

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/doctor"
	"github.com/berth-project/berth/internal/engine/journal"
	plainhost "github.com/berth-project/berth/test/plain"
)

// drifting is a profile with each notation of kernel values: masks, CPU lists, a scaled slice, a word, a number.
const drifting = `
apiVersion: berth.dev/v1alpha1
kind: Profile
metadata: {name: drifting}
spec:
  settings:
    net.rps: "0"
    irq.affinity: "0-1"
    irq.default: "0-1"
    sched.preempt: full
    fair.slice: 3ms
    sysctl.vm.stat_interval: 10
`

const (
	receive    = "/sys/class/net/eth0/queues/rx-0/rps_cpus"
	interrupt  = "/proc/irq/24/smp_affinity_list"
	preempt    = "/sys/kernel/debug/sched/preempt"
	statistics = "/proc/sys/vm/stat_interval"
)

// driftingHost returns a host below a directory on which the profile is committed, with values as the kernel shows them.
func driftingHost(t *testing.T) *plainhost.Host {
	t.Helper()
	h := plainhost.New(t)
	for name, content := range map[string]string{
		"p.yaml":                                  drifting,
		"/proc/sys/kernel/random/boot_id":         "11111111-2222-3333-4444-555555555555\n",
		"/sys/devices/system/cpu/online":          "0-3\n",
		"/sys/devices/system/cpu/present":         "0-3\n",
		receive:                                   "f\n",
		"/sys/class/net/eth0/device/numa_node":    "0\n",
		interrupt:                                 "0-3\n",
		"/proc/irq/24/effective_affinity_list":    "0\n",
		"/sys/kernel/irq/24/chip_name":            "PCI-MSI\n",
		"/sys/kernel/irq/24/hwirq":                "7\n",
		"/proc/irq/default_smp_affinity":          "f\n",
		preempt:                                   "none (voluntary) full\n",
		"/sys/kernel/debug/sched/base_slice_ns":   "2800000\n",
		"/sys/kernel/debug/sched/tunable_scaling": "1\n",
		statistics:                                "1\n",
	} {
		h.Write(name, content)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"tune", "apply", h.Path("p.yaml")}, {"tune", "commit"}} {
		cmd := exec.CommandContext(t.Context(), exe) // An apply makes its process real-time.
		cmd.Args = append(append([]string{"berth"}, args...), "--root", h.Dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	h.Write(receive, "00000000,00000001\n")
	h.Write(interrupt, "0,1\n")
	h.Write("/proc/irq/default_smp_affinity", "0003\n")
	h.Write(preempt, "none voluntary (full)\n")
	h.Write("/sys/kernel/debug/sched/base_slice_ns", "2999999\n")
	return h
}

// drifts returns the files that berth doctor reports as changed, and why it did not check them.
func drifts(t *testing.T, h *plainhost.Host) (files []string, skipped string) {
	t.Helper()
	managed, unread := managedFiles(h.Root(), h.Path("var/lib/berth"))
	s, err := doctor.Take(h.Root(), managed, unread)
	if err != nil {
		t.Fatal(err)
	}
	r := doctor.Examine(nil, s)
	for _, f := range r.Findings {
		for _, e := range f.Evidence {
			if f.Code == "knob-drift" {
				files = append(files, e.File)
			}
		}
	}
	for _, s := range r.Skipped {
		if s.Code == "knob-drift" {
			skipped = s.Why
		}
	}
	return files, skipped
}

// TestDoctorFindsDrift: a value that another program set is found for every kind of kernel file that a profile sets. The
// kernel's own notation of Berth's value is no drift, nor is a value of another boot or of another interrupt.
func TestDoctorFindsDrift(t *testing.T) {
	const (
		boot  = "/proc/sys/kernel/random/boot_id"
		hwirq = "/sys/kernel/irq/24/hwirq"
	)
	for what, c := range map[string]struct {
		file, content string
		want          []string
	}{
		"the kernel's notation": {want: nil},
		"a mask":                {receive, "00000000,00000003\n", []string{receive}},
		"an interrupt":          {interrupt, "0-3\n", []string{interrupt}},
		"later interrupts":      {"/proc/irq/default_smp_affinity", "f\n", []string{"/proc/irq/default_smp_affinity"}},
		"a word":                {preempt, "none (voluntary) full\n", []string{preempt}},
		"a slice":               {"/sys/kernel/debug/sched/base_slice_ns", "2800000\n", []string{"/sys/kernel/debug/sched/base_slice_ns"}},
		"a number":              {statistics, "1\n", []string{statistics}},
		"another interrupt":     {hwirq, "8\n", nil},
	} {
		h := driftingHost(t)
		if c.file == hwirq {
			h.Write(interrupt, "3\n")
		}
		if c.file != "" {
			h.Write(c.file, c.content)
		}
		if got, skipped := drifts(t, h); !cmp.Equal(got, c.want) || skipped != "" {
			t.Errorf("%s: drift of %q, want %q; skipped: %s", what, got, c.want, skipped)
		}
	}

	h := driftingHost(t)
	h.Write(statistics, "1\n")
	h.Write(boot, "another\n")
	if got, skipped := drifts(t, h); got != nil || !strings.Contains(skipped, "Berth has set no kernel file") {
		t.Errorf("another boot: drift of %q; skipped: %s", got, skipped)
	}
}

// TestDoctorReadsADamagedJournal: drift by the good lines is found, and without drift the check says that it could not
// read all.
func TestDoctorReadsADamagedJournal(t *testing.T) {
	h := driftingHost(t)
	file := h.Path("var/lib/berth/tune/journal")
	lines := strings.SplitAfter(h.Read("var/lib/berth/tune/journal"), "\n")
	at := len(lines) / 2
	lines[at] = "x" + lines[at]
	if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := managedFiles(h.Root(), h.Path("var/lib/berth")); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("error %v, want ErrDamaged", err)
	}
	if got, skipped := drifts(t, h); got != nil || !strings.Contains(skipped, "damaged") {
		t.Errorf("drift of %q; skipped: %s", got, skipped)
	}
	for _, file := range []string{receive, interrupt, preempt, statistics} {
		h.Write(file, "2\n")
	}
	if got, _ := drifts(t, h); len(got) == 0 {
		t.Error("no drift is found by the good lines")
	}
}
