package doctor_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/doctor"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/test/plain"
)

// host is an invented machine at two moments, five seconds apart: two nodes of two cores with two threads each, nearly
// idle and healthy.
type host struct{ before, now map[string]string }

const (
	cpus     = 8
	interval = 5 // seconds
	cpuDir   = "sys/devices/system/cpu/"
	debugDir = "sys/kernel/debug/sched/"
	groupDir = "sys/fs/cgroup/db.slice/"
)

// both sets a file at both moments.
func (h host) both(name, text string) { h.before[name], h.now[name] = text, text }

// change sets the content of a file at each moment.
func (h host) change(name, before, now string) { h.before[name], h.now[name] = before, now }

// task is a thread of the invented machine.
type task struct {
	pid                  int
	comm                 string
	state                byte
	flags                int
	cpu, policy, prio    int
	allowed              string
	run, wait            float64 // seconds in the interval
	turns, forced, given int
	wchan                string
}

const kernelThread, bound = 0x00200000, 0x04000000

// runs adds or replaces a thread.
func (h host) runs(t task) {
	dir := fmt.Sprintf("proc/%d/task/%d/", t.pid, t.pid)
	state := t.state
	if state == 0 {
		state = 'S'
	}
	for i, files := range []map[string]string{h.before, h.now} {
		k := float64(i)
		fields := make([]string, 50)
		for j := range fields {
			fields[j] = "7"
		}
		set := func(field int, value any) { fields[field-3] = fmt.Sprint(value) }
		set(3, string(state))
		set(9, t.flags)
		set(14, 100+int(k*t.run*100))
		set(15, 0)
		set(22, 5000)
		set(39, t.cpu)
		set(40, t.prio)
		set(41, t.policy)
		files[dir+"stat"] = fmt.Sprintf("%d (%s) %s\n", t.pid, t.comm, strings.Join(fields, " "))
		files[dir+"schedstat"] = fmt.Sprintf("%d %d %d\n", int(1e9+k*t.run*1e9), int(k*t.wait*1e9), 10+i*t.turns)
		files[dir+"status"] = fmt.Sprintf("Name:\t%s\nCpus_allowed_list:\t%s\nvoluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t%d\n",
			t.comm, t.allowed, i*t.given, i*t.forced)
		files[dir+"cmdline"], files[dir+"environ"] = "secret --password", "SECRET=1"
		if t.wchan != "" {
			files[dir+"wchan"] = t.wchan
		}
	}
}

// cpuLine returns a line of /proc/stat with seconds of user, idle, irq and steal time.
func cpuLine(name string, user, idle, irq, steal float64) string {
	return fmt.Sprintf("%s %.0f 0 0 %.0f 0 0 %.0f %.0f 0 0\n", name, 1000+user*100, 1000+idle*100, irq*100, steal*100)
}

// busy sets the activity of each CPU, in shares of the interval.
func (h host) busy(user, irq, steal [cpus]float64) {
	var before, now, lines strings.Builder
	var all [4]float64
	for cpu := range cpus {
		s := [4]float64{user[cpu], 1 - user[cpu] - irq[cpu] - steal[cpu], irq[cpu], steal[cpu]}
		for i := range s {
			s[i] *= interval
			all[i] += s[i]
		}
		name := fmt.Sprint("cpu", cpu)
		before.WriteString(cpuLine(name, 0, 0, 0, 0))
		lines.WriteString(cpuLine(name, s[0], s[1], s[2], s[3]))
	}
	now.WriteString(cpuLine("cpu", all[0], all[1], all[2], all[3]) + lines.String())
	const tail = "intr 5 5 5\nctxt 99\nprocs_running 2\nprocs_blocked 0\n"
	h.change("proc/stat", cpuLine("cpu", 0, 0, 0, 0)+before.String()+tail, now.String()+tail)
}

// counts returns a table such as /proc/interrupts; a row is the name, the numbers and a text.
func counts(rows ...string) string {
	head := "     "
	for cpu := range cpus {
		head += fmt.Sprintf(" CPU%d", cpu)
	}
	return head + "\n" + strings.Join(rows, "\n") + "\n"
}

// row returns a line of counts, with n on one CPU.
func row(name string, cpu, n int, what string) string {
	for i := range cpus {
		if i == cpu {
			name += fmt.Sprint(" ", n)
		} else {
			name += " 0"
		}
	}
	return name + " " + what
}

func each(share float64) (all [cpus]float64) {
	for i := range all {
		all[i] = share
	}
	return all
}

func only(cpu int, share float64) (all [cpus]float64) {
	all[cpu] = share
	return all
}

// healthy returns the machine without faults.
func healthy(t *testing.T) host {
	t.Helper()
	text, err := os.ReadFile("../../testdata/machines/vm-2s2n-smt.txtar")
	if err != nil {
		t.Fatal(err)
	}
	h := host{before: map[string]string{}, now: map[string]string{}}
	name := ""
	for line := range strings.Lines(string(text)) {
		if marker, is := strings.CutPrefix(line, "-- "); is {
			name = strings.TrimSuffix(marker, " --\n")
			h.both(name, "")
		} else if name != "" {
			h.both(name, h.now[name]+line)
		}
	}
	h.change("proc/uptime", "1000.00 1.00\n", fmt.Sprintf("%d.00 1.00\n", 1000+interval))
	h.both("proc/loadavg", "0.80 0.70 0.60 1/99 4242\n")
	h.both("proc/cpuinfo", "processor : 0\nmodel name : secret\nflags\t\t: fpu ht\n")
	h.both("proc/sys/kernel/hostname", "web01.example.org\n")
	h.both("proc/self/mountinfo", "20 1 0:20 / / rw - ext4 web01.example.org:/export rw\n30 20 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n")
	h.both("proc/self/stat", "1 (berth) R 0\n")
	h.busy(each(0.1), each(0), each(0))
	for _, what := range []string{"io", "memory"} {
		h.both("proc/pressure/"+what, "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
	}
	h.both("proc/interrupts", counts(row("24:", 0, 5, "PCI-MSIX eth0-rx"), row("LOC:", 0, 9, "Local timer interrupts")))
	h.both("proc/irq/24/effective_affinity_list", "0\n")
	h.both("proc/softirqs", counts(row("NET_RX:", 0, 7, "")))
	h.both("proc/net/softnet_stat", "00000010 00000000 00000000 00000000\n00000010 00000000 00000000 00000000\n")
	h.both("sys/class/net/eth0/device/numa_node", "0\n")
	h.both("sys/class/net/eth0/device/msi_irqs/24", "msix\n")
	h.both(debugDir+"base_slice_ns", "2800000\n")
	h.both(debugDir+"migration_cost_ns", "500000\n")
	h.both(cpuDir+"smt/control", "on\n")
	h.both("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
	h.both("proc/berth/managed", "sys/kernel/mm/transparent_hugepage/enabled madvise\n")
	for cpu := range cpus {
		state := fmt.Sprintf("%scpu%d/cpuidle/state", cpuDir, cpu)
		for i, latency := range []string{"0\n", "170\n"} {
			dir := fmt.Sprintf("%s%d/", state, i)
			h.both(dir+"name", fmt.Sprintf("C%d\n", i))
			h.both(dir+"latency", latency)
			h.change(dir+"usage", "0\n", "1000\n")
			h.change(dir+"above", "0\n", "500\n")
		}
		h.both(fmt.Sprintf("%scpu%d/thermal_throttle/core_throttle_count", cpuDir, cpu), "3\n")
	}
	for node := range 2 {
		dir := fmt.Sprintf("sys/devices/system/node/node%d/", node)
		h.both(dir+"meminfo", fmt.Sprintf("Node %d MemTotal: 1000000 kB\nNode %d MemFree: 500000 kB\nNode %d Inactive(file): 1 kB\n", node, node, node))
		h.change(dir+"numastat", "local_node 0\nother_node 0\n", "local_node 100000\nother_node 10\n")
	}
	h.both("sys/fs/cgroup/cgroup.controllers", "cpu cpuset memory\n")
	h.both("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n")
	h.both("sys/fs/cgroup/cpuset.mems.effective", "0-1\n")
	h.group("0-3", "0", "member")
	h.both(groupDir+"cpu.max", "20000 100000\n")
	h.change(groupDir+"cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n", "nr_periods 50\nnr_throttled 10\nthrottled_usec 90000\n")
	h.runs(task{pid: 2, comm: "kthreadd", flags: kernelThread, cpu: 1})
	h.runs(task{pid: 3, comm: "ksoftirqd/4", flags: kernelThread | bound, cpu: 4, run: 1})
	h.runs(task{pid: 100, comm: "db", cpu: 7, allowed: "0-7", run: 0.5, wait: 0.1, turns: 100, forced: 10, given: 90})
	return h
}

// group sets the CPUs, memory nodes and partition of the only group.
func (h host) group(cpus, mems, partition string) {
	h.both(groupDir+"cpuset.cpus.effective", cpus+"\n")
	h.both(groupDir+"cpuset.mems.effective", mems+"\n")
	h.both(groupDir+"cpuset.cpus.partition", partition+"\n")
	h.both(groupDir+"cgroup.events", "populated 1\nfrozen 0\n")
}

// sample writes files to a directory and samples it as a host.
func sample(t *testing.T, files map[string]string) *doctor.Sample {
	t.Helper()
	h := plain.New(t)
	for name, text := range files {
		h.Write(name, text)
	}
	s, err := doctor.Take(h.Root(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t *testing.T, dir string) *hostfs.Root {
	t.Helper()
	root, err := hostfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

// examine compares both moments.
func (h host) examine(t *testing.T) doctor.Report {
	t.Helper()
	before, errBefore := doctor.SampleOf(h.before)
	now, errNow := doctor.SampleOf(h.now)
	if err := errors.Join(errBefore, errNow); err != nil {
		t.Fatal(err)
	}
	return doctor.Examine(before, now)
}

// codes returns the findings of a report, with their severity.
func codes(r doctor.Report) map[string]doctor.Severity {
	all := map[string]doctor.Severity{}
	for _, f := range r.Findings {
		all[f.Code] = f.Severity
	}
	return all
}

// unpacked writes a bundle to a directory, as --root does.
func unpacked(t *testing.T, bundle []byte) *hostfs.Root {
	t.Helper()
	recording, err := topology.ParseRecording(bundle)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, recording); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

// clone returns a copy that a test can change.
func (h host) clone() host { return host{maps.Clone(h.before), maps.Clone(h.now)} }
