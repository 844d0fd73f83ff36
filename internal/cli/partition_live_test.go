package cli_test

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

// beside is a group that is or becomes a partition, beside other groups.
type beside struct {
	q    *quay
	g    *scratch.Group
	file string
	cpus cpuset.Set
}

func (q *quay) newGroup(name string, cpus cpuset.Set) *scratch.Group {
	q.t.Helper()
	g, err := scratch.New(q.host, "", scratch.Name(name))
	if err != nil {
		q.t.Fatal(err)
	}
	q.t.Cleanup(func() { _ = g.Close() })
	if !cpus.IsEmpty() {
		if err := g.SetCPUs(cpus); err != nil {
			q.t.Fatal(err)
		}
	}
	return g
}

// hasNoPartitions checks that the kernel has no partition file, as in cgroup v1.
func (q *quay) hasNoPartitions(hier cgroup.Hierarchy) {
	q.t.Helper()
	name := filepath.Join("/", hier.Mount, q.group.Path(), string(cgroup.KnobPartition))
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		q.t.Errorf("%s: %v, want none in cgroup v1", name, err)
	}
}

func (q *quay) cpusOf(g *scratch.Group) cpuset.Set {
	q.t.Helper()
	cpus, err := g.Handle().EffectiveCPUs()
	if err != nil {
		q.t.Fatal(err)
	}
	return cpus
}

// is writes the kind of partition, as an administrator does.
func (b *beside) is(kind cgroup.Value) {
	b.q.t.Helper()
	if err := os.WriteFile(b.file, []byte(kind), 0); err != nil {
		b.q.t.Fatal(err)
	}
}

// stands checks that the group is a valid partition of its CPUs.
func (b *beside) stands(when string) {
	b.q.t.Helper()
	text, err := os.ReadFile(b.file)
	if got := strings.TrimSpace(string(text)); err != nil || got != "root" {
		b.q.t.Errorf("%s: the partition is %q, %v", when, got, err)
	}
	if got := b.q.cpusOf(b.g); got != b.cpus {
		b.q.t.Errorf("%s: the partition has CPUs %s, want %s", when, got, b.cpus)
	}
}

// TestLiveRollbackBesideAPartition: a killed agent left its CPU lists beside an administrator's partition. berth
// rollback restores the available CPUs and the partition stays valid. A partition from before the agent takes nothing
// from an original. A later partition holds a part of the original until the partition ends.
func TestLiveRollbackBesideAPartition(t *testing.T) {
	for name, before := range map[string]bool{"made before": true, "made meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			q := newQuay(t, "rollback-partition")
			hier, err := q.host.Hierarchy(cgroup.CPUSet)
			if err != nil {
				t.Fatal(err)
			}
			all := q.cpusOf(q.group)
			if hier.Version == 1 {
				q.hasNoPartitions(hier)
				return
			}
			if all.Size() < 4 {
				t.Skipf("%d CPUs are too few for a partition beside others; runs in the VM: make verify-kernels", all.Size())
			}
			last, _ := all.Max()
			left := all.Remove(last)
			p := &beside{q: q, cpus: cpuset.Set{}.Add(last)}
			p.g = q.newGroup("rollback-partition-rt", p.cpus)
			p.file = filepath.Join("/", hier.Mount, p.g.Path(), string(cgroup.KnobPartition))
			t.Cleanup(func() { p.is(cgroup.Member) })
			had := left
			if before {
				p.is("root")
			} else {
				had = all
			}
			if err := q.group.SetCPUs(had); err != nil {
				t.Fatal(err)
			}
			other := q.newGroup("rollback-partition-pool", left)
			q.write("agent.yaml", fmt.Sprintf("workloadDir: workloads\nstateDir: state\nlisten: 127.0.0.1:0\nreservedCPUs: %q\nsharedPool: [%s]\n", p.cpus, other.Path()))
			q.write("workloads/w.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: w, annotations: {cpuset-scheduler: "true"}}
spec: {cgroup: %s, cpu: {limit: "1"}}
`, q.group.Path()))
			q.setMax(100000)
			cmd := q.command("agent")
			cmd.Stderr = t.Output()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			q.until(func() string {
				own, pool := q.cpusOf(q.group), q.cpusOf(other)
				if own.Size() == 1 && own.Union(pool) == left && !own.Intersects(pool) {
					return ""
				}
				return fmt.Sprintf("the workload has CPUs %s, the pool %s", own, pool)
			})
			if !before {
				p.is("root")
			}
			p.stands("pinned")
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			p.stands("killed")
			if !before {
				out, code := q.run("rollback", "--dry-run")
				q.want(out, code, 0, "would restore in part")
				out, code = q.run("rollback")
				q.want(out, code, 4, "partly", "stays without")
				p.stands("back in part")
				if own, pool := q.cpusOf(q.group), q.cpusOf(other); own != left || pool != left {
					t.Errorf("in part the workload has CPUs %s, the pool %s, want %s", own, pool, left)
				}
				p.is(cgroup.Member)
			}
			out, code := q.run("rollback")
			q.want(out, code, 0, "restored")
			if before {
				p.stands("all is back")
			}
			if own, pool := q.cpusOf(q.group), q.cpusOf(other); own != had || pool != left {
				t.Errorf("the workload has CPUs %s, want %s, the pool %s, want %s", own, had, pool, left)
			}
			out, code = q.run("rollback")
			q.want(out, code, 0, "nothing to put back")
		})
	}
}
