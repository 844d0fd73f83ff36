package cgroup_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/kernel/job"
)

// TestLiveLists checks the kernel behavior on which Berth relies when it sets CPUs and memory nodes. Half of it differs
// between v1 and v2.
func TestLiveLists(t *testing.T) {
	cases := []struct {
		name string
		run  func(*live)
	}{
		{"a list reads back and is in effect", (*live).listReadsBack},
		{"a child that leaves its parent", (*live).childLeaves},
		{"a parent that leaves its child", (*live).parentLeaves},
		{"an empty list", (*live).emptyList},
		{"CPUs that are not there", (*live).absentCPUs},
		{"a CPU that goes offline and comes back", (*live).hotplug},
		{"pages follow the memory nodes", (*live).pagesFollow},
		{"reading lists does not allocate", (*live).listPolling},
	}
	host := liveHost(t)
	hier, err := host.Hierarchy(cgroup.CPUSet)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g, err := scratch.New(host, "", scratch.Name("test-lists"))
			if err != nil {
				t.Fatal(err)
			}
			l := &live{T: t, host: host, version: hier.Version, group: g}
			t.Cleanup(func() {
				if err := g.Close(); err != nil {
					t.Error(err)
				}
			})
			c.run(l)
		})
	}
}

// put writes a value in the form that Encode returns.
func put(g *scratch.Group, k cgroup.Knob, v cgroup.Value) error {
	dir, file, content, err := g.Handle().Encode(k, v)
	if err != nil {
		return err
	}
	return hostwrite.Existing(dir, file, content)
}

func (l *live) read(g *scratch.Group, k cgroup.Knob) cgroup.Value {
	l.Helper()
	v, err := g.Handle().Read(k)
	l.must(err)
	return v
}

func (l *live) sub(name string) *scratch.Group {
	l.Helper()
	g, err := l.group.Sub(name)
	l.must(err)
	return g
}

// inEffect compares the result of InEffect with the kernel's effective CPUs.
func (l *live) inEffect(g *scratch.Group, v cgroup.Value, want cpuset.Set, ok bool) {
	l.Helper()
	got, is, err := g.Handle().InEffect(cgroup.KnobCPUs, v)
	l.must(err)
	if is != ok || got != want {
		l.Errorf("InEffect(%s) of %s = %s, %v; want %s, %v", v, g.Path(), got, is, want, ok)
	}
}

// two returns two different CPUs, and all CPUs of the group.
func (l *live) two() (first, second, all cpuset.Set) {
	l.Helper()
	all, err := l.group.Handle().EffectiveCPUs()
	l.must(err)
	low, _ := all.Min()
	high, _ := all.Max()
	if low == high {
		l.Skip("needs two CPUs; runs in the VM: make test")
	}
	return cpuset.Set{}.Add(low), cpuset.Set{}.Add(high), all
}

func (l *live) listReadsBack() {
	first, _, all := l.two()
	unpinned, err := l.group.Handle().Unpinned(cgroup.KnobCPUs)
	l.must(err)
	if now := l.read(l.group, cgroup.KnobCPUs); now != unpinned {
		l.Errorf("a new group has %s, want %s", now, unpinned)
	}
	l.inEffect(l.group, unpinned, all, true)
	for _, v := range []cgroup.Value{cgroup.ListValue(first), cgroup.ListValue(all)} {
		l.must(put(l.group, cgroup.KnobCPUs, v))
		if now := l.read(l.group, cgroup.KnobCPUs); now != v {
			l.Errorf("wrote %s, read %s", v, now)
		}
		set, _, err := v.List()
		l.must(err)
		l.inEffect(l.group, v, set, true)
	}
	l.inEffect(l.group, cgroup.ListValue(first), all, false)
	mems, err := l.group.Handle().EffectiveMems()
	l.must(err)
	l.must(put(l.group, cgroup.KnobMems, cgroup.ListValue(mems)))
	if now := l.read(l.group, cgroup.KnobMems); now != cgroup.ListValue(mems) {
		l.Errorf("memory nodes %s, want %s", now, mems)
	}
	if l.version == 2 {
		l.must(put(l.group, cgroup.KnobCPUs, cgroup.Inherit))
		if now := l.read(l.group, cgroup.KnobCPUs); now != cgroup.Inherit {
			l.Errorf("after an empty line: %s", now)
		}
		l.inEffect(l.group, cgroup.Inherit, all, true)
	}
}

// On v1 a child is a subset of its parent. On v2 it may name any CPU, and runs on all of its parent's CPUs if they have
// none in common.
func (l *live) childLeaves() {
	first, second, _ := l.two()
	sub := l.sub("sub")
	l.must(put(sub, cgroup.KnobCPUs, cgroup.ListValue(first)))
	l.must(put(l.group, cgroup.KnobCPUs, cgroup.ListValue(first)))
	err := put(sub, cgroup.KnobCPUs, cgroup.ListValue(second))
	if l.version == 1 {
		l.want("CPUs that the parent lacks", err, syscall.EACCES)
		l.inEffect(sub, cgroup.ListValue(first), first, true)
		return
	}
	l.must(err)
	l.inEffect(sub, cgroup.ListValue(second), first, false)
	both := cgroup.ListValue(first.Union(second))
	l.must(put(sub, cgroup.KnobCPUs, both))
	l.inEffect(sub, both, first, true)
}

func (l *live) parentLeaves() {
	first, second, _ := l.two()
	sub := l.sub("sub")
	l.must(put(sub, cgroup.KnobCPUs, cgroup.ListValue(first)))
	err := put(l.group, cgroup.KnobCPUs, cgroup.ListValue(second))
	if l.version == 1 {
		l.want("a parent without its child's CPUs", err, syscall.EBUSY)
		return
	}
	l.must(err)
	l.inEffect(sub, cgroup.ListValue(first), second, false)
}

func (l *live) emptyList() {
	first, _, _ := l.two()
	l.must(put(l.group, cgroup.KnobCPUs, cgroup.ListValue(first)))
	l.want("an empty list", put(l.group, cgroup.KnobCPUs, ""), cgroup.ErrMalformed)
	err := put(l.group, cgroup.KnobCPUs, cgroup.Inherit)
	if l.version == 2 {
		l.must(err)
		l.emptyBusyList()
		return
	}
	l.want("to inherit", err, cgroup.ErrMalformed)
	dir, err := l.group.Handle().Dir(cgroup.CPUSet)
	l.must(err)
	l.spin(l.group)
	l.want("to empty a cpuset with a process", hostwrite.Existing(dir, "cpuset.cpus", "\n"), syscall.ENOSPC)
	l.must(hostwrite.Existing(dir, "cpuset.cpus", "")) // nothing is written, nothing is refused
	if now := l.read(l.group, cgroup.KnobCPUs); now != cgroup.ListValue(first) {
		l.Errorf("now %s, want %s", now, first)
	}
	l.must(l.group.Kill())
	l.eventually("the cpuset can be emptied", func() bool { return hostwrite.Existing(dir, "cpuset.cpus", "\n") == nil })
	_, err = l.group.Handle().Read(cgroup.KnobCPUs)
	l.want("an empty cpuset", err, cgroup.ErrUnset)
}

// emptyBusyList checks that v2 does not accept an empty list for a group with processes either. A list of all possible
// CPUs has the same effect.
func (l *live) emptyBusyList() {
	first, _, all := l.two()
	mems, err := l.group.Handle().EffectiveMems()
	l.must(err)
	l.must(put(l.group, cgroup.KnobCPUs, cgroup.ListValue(first)))
	l.must(put(l.group, cgroup.KnobMems, cgroup.ListValue(mems)))
	l.spin(l.group)
	for _, k := range []cgroup.Knob{cgroup.KnobCPUs, cgroup.KnobMems} {
		l.want("to empty a cpuset with a process", put(l.group, k, cgroup.Inherit), syscall.ENOSPC)
		unlimited := l.group.Handle().Unlimited(k)
		l.must(put(l.group, k, unlimited))
		if _, ok, err := l.group.Handle().InEffect(k, cgroup.Inherit); err != nil || !ok {
			l.Errorf("%s with %s is not like inheriting: %v", k, unlimited, err)
		}
	}
	l.inEffect(l.group, cgroup.Inherit, all, true)
}

func (l *live) absentCPUs() {
	_, _, all := l.two()
	beyond := cpuset.Set{}.Add(cpuset.Max - 1)
	for _, set := range []cpuset.Set{beyond, beyond.Union(all)} {
		err := put(l.group, cgroup.KnobCPUs, cgroup.ListValue(set))
		if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ERANGE) {
			l.Errorf("CPUs %s: %v, want EINVAL or ERANGE", set, err)
		}
	}
	if err := put(l.group, cgroup.KnobMems, "1000"); !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ERANGE) {
		l.Errorf("memory node 1000: %v, want EINVAL or ERANGE", err)
	}
}

// ownMachine skips the test on a machine that other programs use.
func (l *live) ownMachine() {
	l.Helper()
	guest, err := job.Guest()
	l.must(err)
	if !guest {
		l.Skip("takes a CPU away from everybody; runs in the VM: make test")
	}
}

func (l *live) setOnline(cpu int, online string) {
	l.Helper()
	l.must(os.WriteFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu), []byte(online), 0))
}

// A CPU that goes offline disappears permanently from a cpuset of v1. On v2 the list stays, and the CPU returns when it
// is online.
func (l *live) hotplug() {
	l.ownMachine()
	_, second, all := l.two()
	away, _ := all.Max()
	third := cpuset.Set{}.Add(away - 1).Union(second)
	written := cgroup.ListValue(third)
	l.must(put(l.group, cgroup.KnobCPUs, written))
	only := l.sub("only")
	l.must(put(only, cgroup.KnobCPUs, cgroup.ListValue(second)))
	l.setOnline(away, "0")
	l.Cleanup(func() { l.setOnline(away, "1") })
	left := third.Remove(away)
	l.eventually("the effective CPUs follow", func() bool {
		got, err := l.group.Handle().EffectiveCPUs()
		return err == nil && got == left
	})
	now := l.read(l.group, cgroup.KnobCPUs)
	attainable := l.group.Handle().Attainable(cgroup.KnobCPUs, written)
	if l.version == 1 {
		if now != cgroup.ListValue(left) || attainable != now {
			l.Errorf("offline: reads %s, attainable %s, want %s", now, attainable, left)
		}
		err := put(l.group, cgroup.KnobCPUs, written)
		if err == nil {
			l.Error("a cpuset of v1 took an offline CPU")
		}
	} else {
		if now != written || attainable != written {
			l.Errorf("offline: reads %s, attainable %s, want %s", now, attainable, written)
		}
		l.inEffect(l.group, written, left, true)
		l.inEffect(only, cgroup.ListValue(second), left, false)
	}
	l.setOnline(away, "1")
	if l.version == 1 {
		l.eventually("the CPU can be given back", func() bool { return put(l.group, cgroup.KnobCPUs, written) == nil })
		l.inEffect(l.group, written, third, true)
		return
	}
	l.eventually("the CPU is used again", func() bool {
		got, err := l.group.Handle().EffectiveCPUs()
		return err == nil && got == third
	})
}

// touchEnv makes the test binary a process that allocates memory and waits.
const touchEnv = "BERTH_TEST_TOUCH"

const touched = 64 << 20

// touch fills memory once its input ends, and then waits until it is killed.
func touch() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	memory := make([]byte, touched)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	fmt.Println("touched")
	time.Sleep(time.Hour)
	fmt.Println(memory[0])
}

// A change of the memory nodes moves pages on v2, and on v1 if memory_migrate is on.
func (l *live) pagesFollow() {
	mems, err := l.group.Handle().EffectiveMems()
	l.must(err)
	low, _ := mems.Min()
	high, _ := mems.Max()
	if low == high {
		l.Skip("needs two memory nodes; runs in the VM: make test")
	}
	dir, err := l.group.Handle().Dir(cgroup.CPUSet)
	l.must(err)
	move := func(node int) {
		l.must(put(l.group, cgroup.KnobMems, cgroup.ListValue(cpuset.Set{}.Add(node))))
	}
	move(low)
	pid := l.touching()
	on := func(node int) int { return pagesOn(l, pid, node) * os.Getpagesize() }
	if on(low) < touched || on(high) > touched/2 {
		l.Fatalf("%d bytes on node %d, %d on node %d", on(low), low, on(high), high)
	}
	if l.version == 1 {
		move(high)
		time.Sleep(200 * time.Millisecond)
		if on(low) < touched {
			l.Errorf("pages moved without memory_migrate: %d bytes left on node %d", on(low), low)
		}
		move(low)
		l.must(hostwrite.Existing(dir, "cpuset.memory_migrate", "1"))
	}
	move(high)
	l.eventually("the pages are on the new node", func() bool { return on(high) >= touched && on(low) < touched/2 })
}

// touching starts a process in the group that has touched its memory.
func (l *live) touching() int {
	l.Helper()
	exe, err := os.Executable()
	l.must(err)
	cmd := exec.CommandContext(l.Context(), exe)
	cmd.Env = append(os.Environ(), touchEnv+"=1", "GOMAXPROCS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	l.must(err)
	out, err := cmd.StdoutPipe()
	l.must(err)
	l.must(cmd.Start())
	l.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	l.must(l.group.Attach(cmd.Process.Pid))
	l.must(in.Close()) // it waits for the end of its input
	buf := make([]byte, 8)
	if _, err := out.Read(buf); err != nil {
		l.Fatal(err)
	}
	return cmd.Process.Pid
}

// pagesOn counts a process's anonymous pages on a node.
func pagesOn(l *live, pid, node int) int {
	l.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "numa_maps"))
	l.must(err)
	sum, mark := 0, fmt.Sprintf(" N%d=", node)
	for line := range strings.Lines(string(data)) {
		if !strings.Contains(line, "anon=") {
			continue
		}
		if _, rest, ok := strings.Cut(line, mark); ok {
			n := 0
			_, err := fmt.Sscanf(rest, "%d", &n)
			l.must(err)
			sum += n
		}
	}
	return sum
}

func (l *live) listPolling() {
	first, _, _ := l.two()
	l.must(put(l.group, cgroup.KnobCPUs, cgroup.ListValue(first)))
	g := l.group.Handle()
	for _, k := range []cgroup.Knob{cgroup.KnobCPUs, cgroup.KnobMems} {
		if n := testing.AllocsPerRun(10, func() {
			if _, err := g.Effective(k); err != nil {
				l.Error(err)
			}
		}); n > 1 {
			l.Errorf("effective %s: %v allocations", k, n)
		}
	}
}
