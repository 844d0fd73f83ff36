package cgroupfile

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// numa is the kernel of a desk that moves pages at a write of memory nodes: from the nodes that it remembers, which are
// none for a process that began in its group.
type numa struct {
	*locks

	remembered cpuset.Set
	// moves and stays are the bytes on each node: pages that the kernel can move, and others.
	moves, stays map[int]int64
	uncounted    bool
	wrote        []string
	// after is called after each write.
	after func(writes int)
}

func newNUMA(t *testing.T) *numa {
	t.Helper()
	n := &numa{
		locks: &locks{desk: newDesk(t)}, moves: map[int]int64{0: 16 << 20}, stays: map[int]int64{},
		after: func(int) {},
	}
	n.write("sys/devices/system/node/possible", "0-2\n")
	n.write("sys/fs/cgroup/cgroup.controllers", "cpuset memory\n")
	n.host = n.plain.Cgroups()
	n.write("sys/fs/cgroup/db/cgroup.controllers", "cpuset memory\n")
	n.write("sys/fs/cgroup/db/cgroup.events", "populated 1\nfrozen 0\n")
	n.write("sys/fs/cgroup/db/cgroup.procs", "9\n")
	n.write("sys/fs/cgroup/cpuset.mems.effective", "0-1\n")
	n.write("proc/9/pagemap", "12345678")
	n.write("proc/9/stat", "9 (db) S 1 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 7 1")
	n.count()
	return n
}

// count writes the memory of the group.
func (n *numa) count() {
	if n.uncounted {
		n.plain.Remove("sys/fs/cgroup/db/memory.numa_stat")
		return
	}
	n.write("sys/fs/cgroup/db/memory.numa_stat", fmt.Sprintf("anon N0=%d N1=%d\nfile N0=%d N1=0\nshmem N0=%d N1=%d\n",
		n.moves[0], n.moves[1], n.stays[0]+1<<30, n.stays[0], n.stays[1]))
}

// written does what the kernel does at a write.
func (n *numa) written(plan.Target) {
	n.Helper()
	n.wrote = append(n.wrote, n.stands())
	all := mustParse(n.T, "0-1")
	nodes := mustParse(n.T, n.stands()).Intersect(all)
	if nodes.IsEmpty() {
		nodes = all
	}
	if before := n.plain.Read("sys/fs/cgroup/db/cpuset.mems.effective"); before != nodes.String() {
		to, _ := nodes.Min()
		for node := range n.remembered.Difference(nodes).All() {
			n.moves[to] += n.moves[node]
			n.moves[node] = 0
		}
		n.remembered = nodes
	}
	n.write("sys/fs/cgroup/db/cpuset.mems.effective", nodes.String()+"\n")
	n.count()
	n.after(len(n.wrote))
}

func mustParse(t *testing.T, list string) cpuset.Set {
	t.Helper()
	set, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// SetList is systemd's write.
func (n *numa) SetList(unit string, k cgroup.Knob, v cgroup.Value) error {
	if unit != "db" || k != cgroup.KnobMems {
		n.Errorf("systemd was asked for %s of %s", k, unit)
	}
	n.wrote = append(n.wrote, "systemd:")
	n.write("sys/fs/cgroup/db/cpuset.mems", string(v)+"\n")
	return nil
}

// writes has a driver write memory nodes over others.
func (n *numa) writes(driver plan.Driver, aside *Aside, from, mems cgroup.Value) (plan.Value, error) {
	n.Helper()
	kinds := kindsOf(knownHost{n.host, pages.Within(n)}, n, aside)
	target := plan.Target{Driver: driver, Object: "db", Knob: string(cgroup.KnobMems)}
	d := kinds[driver].Opener.Open(apply.Call{Written: n.written})
	if opened, ok := d.(io.Closer); ok {
		defer opened.Close()
	}
	_, id, err := d.Read(target)
	if err != nil {
		n.Fatal(err)
	}
	return d.Write(plan.Change{Setting: plan.Setting{Target: target, ID: id, Value: plan.Value(mems)}, From: plan.Value(from)})
}

// TestPagesThatAFirstWriteLeaves: if the kernel moved nothing at the first write of memory nodes, the driver writes the
// value before and the new value once more. It does so only then, and only once.
func TestPagesThatAFirstWriteLeaves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to cgroup.Value
		change   func(*numa)
		wrote    string
		left     int64 // on node 0
	}{
		"a process that began in the group": {from: cgroup.Inherit, to: "1", wrote: "1 0-2 1"},
		"a list before":                     {from: "0-1", to: "1", change: func(n *numa) { n.has("0-1", "0-1") }, wrote: "1 0-1 1"},
		"another list before":               {from: "0", to: "1", change: func(n *numa) { n.has("0", "0") }, wrote: "1 0 1"},
		"a process that was attached":       {from: cgroup.Inherit, to: "1", change: func(n *numa) { n.remembered = mustParse(n.T, "0-1") }, wrote: "1"},
		"pages that stay":                   {from: cgroup.Inherit, to: "1", change: func(n *numa) { n.stays[0] = 4096 }, wrote: "1 0-2 1", left: 4096},
		"only pages that stay": {
			from: cgroup.Inherit, to: "1", wrote: "1 0-2 1", left: 2 << 20,
			change: func(n *numa) { n.stays[0], n.remembered = 2<<20, mustParse(n.T, "0-1") },
		},
		"too few pages stay": {
			from: cgroup.Inherit, to: "1", wrote: "1", left: 4096,
			change: func(n *numa) { n.stays[0], n.remembered = 4096, mustParse(n.T, "0-1") },
		},
		"nothing elsewhere": {from: cgroup.Inherit, to: "1", change: func(n *numa) { n.moves = map[int]int64{1: 4096} }, wrote: "1"},
		"more nodes":        {from: "1", to: "0-1", change: func(n *numa) { n.has("1", "1") }, wrote: "0-1", left: 16 << 20},
		"the same nodes":    {from: cgroup.Inherit, to: "0-1", wrote: "0-1", left: 16 << 20},
		"no process": {
			from: cgroup.Inherit, to: "1", wrote: "1", left: 16 << 20,
			change: func(n *numa) { n.write("sys/fs/cgroup/db/cgroup.events", "populated 0\nfrozen 0\n") },
		},
		"uncounted memory": {from: cgroup.Inherit, to: "1", change: func(n *numa) { n.uncounted = true }, wrote: "1", left: 16 << 20},
		"unknown nodes": {
			from: cgroup.Inherit, to: "1", wrote: "1", left: 16 << 20,
			change: func(n *numa) { n.plain.Remove("sys/devices/system/node/possible") },
		},
		"a write that may not end": {
			from: cgroup.Inherit, to: "1", wrote: "1", left: 16 << 20,
			change: func(n *numa) { n.after = func(int) { n.limit("-1") } },
		},
	} {
		for _, driver := range []plan.Driver{Driver, UnitDriver} {
			t.Run(name+" by "+string(driver), func(t *testing.T) {
				t.Parallel()
				n := newNUMA(t)
				if c.change != nil {
					c.change(n)
				}
				n.count()
				made, err := n.writes(driver, nil, c.from, c.to)
				if err != nil || made != plan.Value(c.to) || n.stands() != string(c.to) {
					t.Errorf("%s, %v; it has %s", made, err, n.stands())
				}
				want := strings.Fields(c.wrote)
				if driver == UnitDriver { // only the first write is systemd's
					want = append([]string{"systemd:"}, want...)
				}
				if !slices.Equal(n.wrote, want) || n.moves[0]+n.stays[0] != c.left {
					t.Errorf("wrote %q, want %q; %d bytes are left, want %d", n.wrote, want, n.moves[0]+n.stays[0], c.left)
				}
			})
		}
	}
}

// has gives the group a list.
func (n *numa) has(list, effective string) {
	n.write("sys/fs/cgroup/db/cpuset.mems", list+"\n")
	n.write("sys/fs/cgroup/db/cpuset.mems.effective", effective+"\n")
}

// TestLastWriteThatMayNotEnd: if the last of the three writes might never end, the group has the value before, and the
// error says why. An undo then has nothing to write.
func TestLastWriteThatMayNotEnd(t *testing.T) {
	t.Parallel()
	n := newNUMA(t)
	n.has("0-1", "0-1")
	n.after = func(writes int) {
		if writes == 2 {
			n.limit("-1")
		}
	}
	made, err := n.writes(Driver, nil, "0-1", "1")
	if !errors.Is(err, pages.ErrRealTime) || made != "" || n.stands() != "0-1" || strings.Join(n.wrote, " ") != "1 0-1" {
		t.Errorf("%s, %v; it has %s after %q", made, err, n.stands(), n.wrote)
	}
}

// TestCallerWithAnAside: the agent's writes are not repeated, also after AtOnce.
func TestCallerWithAnAside(t *testing.T) {
	t.Parallel()
	n := newNUMA(t)
	n.aside.AtOnce(func(string, cpuset.Set) error { return nil })
	if _, err := n.writes(Driver, n.aside, cgroup.Inherit, "1"); err != nil || strings.Join(n.wrote, " ") != "1" {
		t.Errorf("%v after %q", err, n.wrote)
	}
}
