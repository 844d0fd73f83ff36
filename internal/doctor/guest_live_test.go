package doctor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/doctor"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/kernel/job"
)

// faulty is a machine that belongs to the tests, so that they can change the whole host.
type faulty struct {
	root    *hostfs.Root
	groups  *cgroup.Host
	machine *topology.Topology
}

// liveFault causes a fault on the host until the test ends. It returns parts of the paths of the files that may show the
// fault, and the settings that Berth would claim.
type liveFault struct {
	code    string
	unified bool // only on cgroup v2
	cause   func(*testing.T, faulty) (files []string, managed []doctor.Managed)
}

// liveFaults are real faults of a real kernel: doctor reads no invented file.
var liveFaults = []liveFault{
	{"base-slice", false, setting("fair.slice", "200000")},
	{"migration-cost", false, setting("fair.migrationCost", "8000000")},
	{"knob-drift", false, func(t *testing.T, _ faulty) ([]string, []doctor.Managed) {
		const file = "/proc/sys/kernel/sched_rr_timeslice_ms"
		overwrite(t, file, "40")
		return []string{file}, []doctor.Managed{{File: file, Desired: "80"}}
	}},
	{"uninterruptible", false, running("stuck")},
	{"confined", false, func(t *testing.T, _ faulty) ([]string, []doctor.Managed) {
		for range 3 {
			start(t, "hog", nil)
		}
		return []string{"/proc/stat"}, nil
	}},
	{"overloaded", false, func(t *testing.T, _ faulty) ([]string, []doctor.Managed) {
		start(t, "crowd", nil)
		return []string{"/proc/stat"}, nil
	}},
	{"rt-hog", false, running("fifo")},
	{"throttled", false, func(t *testing.T, h faulty) ([]string, []doctor.Managed) {
		g := h.group(t)
		if err := g.SetMax(5000, 50000); err != nil {
			t.Fatal(err)
		}
		start(t, "free hog", g)
		return []string{g.Path()}, nil
	}},
	{"numa-remote", false, func(t *testing.T, _ faulty) ([]string, []doctor.Managed) {
		start(t, "remote", nil)
		return []string{"/numastat"}, nil
	}},
	{"numa-full", false, func(t *testing.T, _ faulty) ([]string, []doctor.Managed) {
		overwrite(t, "/proc/sys/vm/min_free_kbytes", "4096") // otherwise the kernel may keep more free than is full
		start(t, "full", nil)
		return []string{"/node1/meminfo"}, nil
	}},
	{"softirq-theft", false, func(t *testing.T, _ faulty) ([]string, []doctor.Managed) {
		loopback(t)
		start(t, "flood", nil)
		return []string{"/proc/stat"}, nil
	}},
	{"numa-mismatch", true, func(t *testing.T, h faulty) ([]string, []doctor.Managed) {
		g := h.group(t)
		if err := g.SetCPUs(h.machine.Nodes[0].CPUs); err != nil {
			t.Fatal(err)
		}
		overwrite(t, filepath.Join("/sys/fs/cgroup", g.Path(), "cpuset.mems"), fmt.Sprint(h.machine.Nodes[1].ID))
		start(t, "free hog", g)
		return []string{g.Path()}, nil
	}},
	{"split-core", true, func(t *testing.T, h faulty) ([]string, []doctor.Managed) {
		last, _ := h.machine.Online.Max()
		g := h.partition(t, "root", cpuset.Set{}.Add(last))
		start(t, "free hog", g)
		return []string{g.Path()}, nil
	}},
	{"partition-invalid", true, func(t *testing.T, h faulty) ([]string, []doctor.Managed) {
		return []string{h.partition(t, "root", h.machine.Online).Path()}, nil // no CPU is left for other tasks
	}},
	{"isolation-leak", true, func(t *testing.T, h faulty) ([]string, []doctor.Managed) {
		g := h.partition(t, "isolated", h.lastCore())
		var hogs []string
		for range 3 { // on two CPUs that are not balanced
			hogs = append(hogs, fmt.Sprintf("/proc/%d/", start(t, "free hog", g)))
		}
		return hogs, nil
	}},
	{"irq-on-isolated", true, func(t *testing.T, h faulty) ([]string, []doctor.Managed) {
		core := h.lastCore()
		h.partition(t, "isolated", core)
		return []string{interrupting(t, core)}, nil
	}},
}

// setting writes a knob of the catalog.
func setting(name, value string) func(*testing.T, faulty) ([]string, []doctor.Managed) {
	return func(t *testing.T, h faulty) ([]string, []doctor.Managed) {
		k, _ := knob.Lookup(name)
		file := knob.Open(h.root.FS()).Probe(k)[0].File
		overwrite(t, file, value)
		return []string{file}, nil
	}
}

// running starts a process that is the fault.
func running(name string) func(*testing.T, faulty) ([]string, []doctor.Managed) {
	return func(t *testing.T, _ faulty) ([]string, []doctor.Managed) {
		return []string{fmt.Sprintf("/proc/%d/", start(t, name, nil))}, nil
	}
}

// TestLiveFaults checks that the right code comes first for all real faults but at most one. The control of each fault is
// the same machine before it: there doctor finds nothing, and nothing after the last fault.
func TestLiveFaults(t *testing.T) {
	if !ours() {
		t.Skip("changes the whole host; runs in the VM: make verify-kernels")
	}
	var err error
	h := faulty{root: open(t, "/")}
	if h.groups, err = cgroup.Open(h.root); err != nil {
		t.Fatal(err)
	}
	if h.machine, err = topology.Discover(h.root.FS()); err != nil {
		t.Fatal(err)
	}
	var made, missed []string
	for _, f := range liveFaults {
		if f.unified && h.groups.Layout() != "v2" {
			continue
		}
		t.Run(f.code, func(t *testing.T) {
			h.healthy(t)
			files, managed := f.cause(t, h)
			made = append(made, f.code)
			if !h.first(t, f.code, files, managed) {
				missed = append(missed, f.code)
			}
		})
	}
	t.Logf("the right code comes first for %d of %d faults", len(made)-len(missed), len(made))
	if len(missed) > 1 || h.groups.Layout() == "v2" && len(made) < 15 {
		t.Errorf("not first: %v, of %v", missed, made)
	}
	h.healthy(t)
}

// ours reports whether this machine belongs to the tests.
func ours() bool {
	guest, err := job.Guest()
	return err == nil && guest
}

// healthy fails the test if doctor finds a fault.
func (h faulty) healthy(t *testing.T) {
	t.Helper()
	for _, f := range watch(t, h.root, time.Second).Findings {
		if f.Severity != doctor.Info {
			t.Errorf("%s is found on a healthy host: %v", f.Code, f.Evidence)
		}
	}
}

// first reports whether this code is the first finding, with a value of one of these files. It samples longer each time,
// because an emulated machine does little in a second beside the sampling itself.
func (h faulty) first(t *testing.T, code string, files []string, managed []doctor.Managed) bool {
	t.Helper()
	for d := 200 * time.Millisecond; d < 10*time.Second; d *= 4 {
		r := watch(t, h.root, d, managed...)
		if len(r.Findings) > 0 && r.Findings[0].Code == code {
			t.Logf("comes first after %v", d)
			shows(t, r, code, files...)
			return true
		}
		t.Logf("after %v: %+v", d, r.Findings)
	}
	return false
}

// group makes a group for a fault.
func (h faulty) group(t *testing.T) *scratch.Group {
	t.Helper()
	g, err := scratch.New(h.groups, "", scratch.Name("test-fault"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// partition makes a group that is a partition of these CPUs.
func (h faulty) partition(t *testing.T, kind string, cpus cpuset.Set) *scratch.Group {
	t.Helper()
	g := h.group(t)
	if err := g.SetCPUs(cpus); err != nil {
		t.Fatal(err)
	}
	overwrite(t, filepath.Join("/sys/fs/cgroup", g.Path(), "cpuset.cpus.partition"), kind)
	return g
}

func (h faulty) lastCore() cpuset.Set { return h.machine.Cores[len(h.machine.Cores)-1].CPUs }

// interrupting makes a CPU of a set handle the interrupts of a serial port, to which it writes until the test ends. It
// returns the directory of the interrupt.
func interrupting(t *testing.T, cpus cpuset.Set) string {
	t.Helper()
	port, err := os.OpenFile("/dev/ttyS0", os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/interrupts")
	if err != nil {
		t.Fatal(err)
	}
	dir := ""
	for line := range strings.Lines(string(text)) {
		if number, rest, _ := strings.Cut(line, ":"); strings.HasSuffix(strings.TrimSpace(rest), "ttyS0") {
			dir = "/proc/irq/" + strings.TrimSpace(number)
		}
	}
	if dir == "" {
		t.Fatalf("no interrupt of ttyS0:\n%s", text)
	}
	overwrite(t, dir+"/smp_affinity_list", cpus.String())
	written := make(chan error)
	go func() {
		for t.Context().Err() == nil {
			if _, err := fmt.Fprintln(port, "doctor: a line for an interrupt"); err != nil {
				written <- err
				return
			}
		}
		written <- port.Close()
	}()
	t.Cleanup(func() {
		if err := <-written; err != nil {
			t.Error(err)
		}
	})
	return dir
}

// loopback brings the loopback interface up.
func loopback(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		t.Fatal(err)
	}
}

// overwrite writes a file of the kernel, and restores it when the test ends.
func overwrite(t *testing.T, file, text string) {
	t.Helper()
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(file, before, 0); err != nil {
			t.Errorf("put back %s: %v", file, err)
		}
	})
}
