package agent_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// partitions reports whether groups can be cpuset partitions here. They can on cgroup v2; on v1 no group has the file.
func (s *site) partitions() bool {
	s.t.Helper()
	hier, err := s.host.Hierarchy(cgroup.CPUSet)
	if err != nil {
		s.t.Fatal(err)
	}
	if hier.Version == 2 {
		return true
	}
	name := filepath.Join("/", hier.Mount, s.group.Path(), string(cgroup.KnobPartition))
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		s.t.Errorf("%s: %v, want none in cgroup v1", name, err)
	}
	return false
}

// partition makes a group a partition of some CPUs, as an administrator does. The returned function checks that the
// partition is still valid.
func (s *site) partition(kind string, cpus cpuset.Set) (g *scratch.Group, stands func(when string)) {
	s.t.Helper()
	g = s.newGroup("partition-" + kind)
	if err := g.SetCPUs(cpus); err != nil {
		s.t.Fatal(err)
	}
	hier, err := s.host.Hierarchy(cgroup.CPUSet)
	if err != nil {
		s.t.Fatal(err)
	}
	name := filepath.Join("/", hier.Mount, g.Path(), string(cgroup.KnobPartition))
	if err := os.WriteFile(name, []byte(kind), 0); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { // A removed group keeps its CPUs until the kernel destroys it.
		if err := os.WriteFile(name, []byte(cgroup.Member), 0); err != nil {
			s.t.Error(err)
		}
	})
	stands = func(when string) {
		s.t.Helper()
		text, err := os.ReadFile(name)
		if got := strings.TrimSpace(string(text)); err != nil || got != kind {
			s.t.Errorf("%s: the partition is %q, %v", when, got, err)
		}
		if got := s.cpusOf(g); got != cpus {
			s.t.Errorf("%s: the partition has CPUs %s, want %s", when, got, cpus)
		}
	}
	stands("made")
	return g, stands
}

// An administrator's cpuset partition stays valid while Berth pins and narrows groups beside it, when a new agent
// follows, and when everything is restored. No group gets its CPUs.
func TestLivePartitionStands(t *testing.T) {
	for _, kind := range []string{"root", "isolated"} {
		t.Run(kind, func(t *testing.T) {
			p := newPair(t, "partition")
			p.hurries()
			if !p.partitions() {
				return
			}
			all := p.cpusOf(p.group)
			if all.Size() < 4 {
				t.Skipf("%d CPUs: none can be spared for a partition; runs in the VM: make vm", all.Size())
			}
			last, _ := all.Max()
			taken := cpuset.Set{}.Add(last)
			_, stands := p.partition(kind, taken)
			left := all.Difference(taken)
			limit := p.bandwidth()
			p.join("db", p.group) // the kernel refuses an empty list for a group with a process
			p.join("db", p.other)
			p.asks()
			stop := p.start()
			pinned := func(own, other cpuset.Set) bool {
				return own.Size() == 1 && !own.Intersects(other) && own.Union(other) == left
			}
			p.settles("pinned", pinned)
			stands("pinned")
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			stands("the agent stopped")
			p.start()
			p.waitReady()
			p.passes(2)
			p.settles("pinned by a new agent", pinned)
			stands("a new agent came")
			if err := os.Remove(filepath.Join(p.dir, "workloads/w.yaml")); err != nil {
				t.Fatal(err)
			}
			p.settles("not asking any more", func(own, other cpuset.Set) bool { return own == left && other == left })
			p.eventually(limit)
			stands("all is put back")
		})
	}
}

// A workload whose group is a partition gets no CPUs from Berth, and keeps its own CPUs and its quota.
func TestLivePartitionIsLeftAlone(t *testing.T) {
	p := newPair(t, "partition-own")
	p.hurries()
	if !p.partitions() {
		return
	}
	all := p.cpusOf(p.group)
	if all.Size() < 4 {
		t.Skipf("%d CPUs: none can be spared for a partition; runs in the VM: make vm", all.Size())
	}
	last, _ := all.Max()
	g, stands := p.partition("root", cpuset.Set{}.Add(last))
	p.write("workloads/w.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: w, annotations: {cpuset-scheduler: "true"}}
spec: {cgroup: %s, cpu: {limit: "1"}}
`, g.Path()))
	p.start()
	p.waitReady()
	p.until(func() string {
		if got := p.view(); !strings.Contains(got, "is a cpuset partition") {
			return "status does not say that the group is a partition: " + got
		}
		return ""
	})
	stands("asked for")
}

// A partition that was made later has some CPUs of a list that Berth restores. Berth restores the list without these
// CPUs, and adds them after the partition has ended.
func TestLivePartitionMadeMeanwhile(t *testing.T) {
	p := newPair(t, "partition-later")
	p.hurries()
	if !p.partitions() {
		return
	}
	all := p.cpusOf(p.group)
	if all.Size() < 4 {
		t.Skipf("%d CPUs: none can be spared for a partition; runs in the VM: make vm", all.Size())
	}
	last, _ := all.Max()
	taken := cpuset.Set{}.Add(last)
	left := all.Difference(taken)
	for g, list := range map[*scratch.Group]cpuset.Set{p.group: all, p.other: left} {
		if err := g.SetCPUs(list); err != nil {
			t.Fatal(err)
		}
	}
	p.join("db", p.group)
	p.asks()
	p.start()
	p.settles("pinned", func(own, other cpuset.Set) bool {
		return own.Size() == 1 && !own.Intersects(other.Union(taken)) && own.Union(other) == left
	})
	g, stands := p.partition("root", taken)
	if err := os.Remove(filepath.Join(p.dir, "workloads/w.yaml")); err != nil {
		t.Fatal(err)
	}
	p.settles("not asking any more", func(own, other cpuset.Set) bool { return own == left && other == left })
	p.passes(2)
	stands("the list went back")
	hier, err := p.host.Hierarchy(cgroup.CPUSet)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("/", hier.Mount, g.Path(), string(cgroup.KnobPartition)), []byte(cgroup.Member), 0); err != nil {
		t.Fatal(err)
	}
	p.settles("the partition has ended", func(own, other cpuset.Set) bool { return own == all && other == left })
}
