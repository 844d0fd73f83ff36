package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// listed returns a change of a group's CPUs.
func listed(owner Owner, group string, from, to Value) Change {
	c := move(group, cgroup.KnobCPUs, from, to)
	c.Owner = owner
	return c
}

func TestOrderOfLists(t *testing.T) {
	place := func(group string, from, to Value) Change { return listed(OwnerPlace, group, from, to) }
	pool := func(group string, from, to Value) Change { return listed(OwnerPool, group, from, to) }
	quota := func(group string, from, to Value) Change {
		c := move(group, cgroup.KnobMax, from, to)
		c.Owner = OwnerPlace
		return c
	}
	for _, tt := range []struct {
		name    string
		changes []Change
		want    string
	}{
		{
			"narrow from the leaves up, widen from the root down",
			[]Change{
				pool("a", "0-3", "0-1"), pool("a/b", "0-3", "0"), place("x", "0", "0-3"), place("x/y", "0", "0-2"),
			},
			"a/b: 0-3 -> 0, a: 0-3 -> 0-1, x: 0 -> 0-3, x/y: 0 -> 0-2",
		},
		{
			"others leave before a pinned group comes",
			[]Change{place("a", "0", "0-1"), pool("b", "inherit", "2-3"), pool("c", "0-3", "2-3")},
			"b: inherit -> 2-3, c: 0-3 -> 2-3, a: 0 -> 0-1",
		},
		{
			"a move releases first",
			[]Change{place("a", "0-1", "1-2"), place("b", "2-3", "0,3")},
			"a: 0-1 -> 1, b: 2-3 -> 3, a: 1 -> 1-2, b: 3 -> 0,3",
		},
		{
			"offline groups leave before online ones come, and the other way round",
			[]Change{
				pool("a", "0-5", "0-3,7"), listed(OwnerIsolate, "x", "6-7", "4-6"), pool("b", "5", "0"), listed(OwnerIsolate, "y", "7", "5"),
			},
			"a: 0-5 -> 0-3, x: 6-7 -> 6, b: 5 -> 0, y: 7 -> 5, a: 0-3 -> 0-3,7, x: 6 -> 4-6",
		},
		{
			"memory nodes that move are one write, and one of all nodes above a group that moves, too",
			[]Change{
				move("a", cgroup.KnobMems, "0-1", "1-3"), move("b", cgroup.KnobMems, "0-1", "2-3"), move("b/c", cgroup.KnobMems, "0-1", "2-3"),
			},
			"a: 0-1 -> 1-3, b: 0-1 -> 0-3, b/c: 0-1 -> 2-3, b: 0-3 -> 2-3",
		},
		{
			"memory nodes that would shift go through both lists",
			[]Change{
				move("a", cgroup.KnobMems, "1-2", "0-1"), move("b", cgroup.KnobMems, "0-1", "1-2"), move("b/c", cgroup.KnobMems, "0-1", "1-2"),
			},
			"a: 1-2 -> 0-2, a: 0-2 -> 0-1, b: 0-1 -> 0-2, b/c: 0-1 -> 0-2, b/c: 0-2 -> 1-2, b: 0-2 -> 1-2",
		},
		{
			"whoever leaves goes before whoever comes",
			[]Change{place("a", "0", "1"), place("b", "1", "2"), place("c", "2", "3"), pool("d", "3", "3-4"), pool("e", "3-4", "4")},
			"e: 3-4 -> 4, c: 2 -> 3, b: 1 -> 2, a: 0 -> 1, d: 3 -> 3-4",
		},
		{
			"a group jumps with all below it",
			[]Change{place("a", "0-1", "2-3"), place("a/b", "0-1", "2-3"), place("a/b/c", "0", "3"), place("x", "3", "4"), place("x/y", "3", "4")},
			"x: 3 -> 3-4, x/y: 3 -> 4, x: 3-4 -> 4, a: 0-1 -> 0-3, a/b: 0-1 -> 0-3, a/b/c: 0 -> 3, a/b: 0-3 -> 2-3, a: 0-3 -> 2-3",
		},
		{
			"an exchange, which nobody can do without touching",
			[]Change{place("a", "0", "1"), place("b", "1", "0")},
			"a: 0 -> 1, b: 1 -> 0",
		},
		{
			"a quota goes once the CPUs are its own, and is back before they are not",
			[]Change{
				quota("p", "100 1000", "max 1000"), quota("p/a", "100 1000", "max 1000"), place("p/a", "inherit", "0-1"),
				quota("q", "max 1000", "100 1000"), quota("q/b", "max 1000", "100 1000"), place("q/b", "2", "inherit"),
			},
			"p/a: inherit -> 0-1, p: 100 1000 -> max 1000, p/a: 100 1000 -> max 1000, " +
				"q/b: max 1000 -> 100 1000, q: max 1000 -> 100 1000, q/b: 2 -> inherit",
		},
		{
			"a quota goes once the group is where it shall be",
			[]Change{quota("a", "100 1000", "max 1000"), place("a", "0", "1"), quota("b", "max 1000", "100 1000"), place("b", "2", "3")},
			"b: max 1000 -> 100 1000, a: 0 -> 1, a: 100 1000 -> max 1000, b: 2 -> 3",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			slices.Reverse(tt.changes)
			var got []string
			for _, c := range Order(kinds(), tt.changes) {
				got = append(got, fmt.Sprintf("%s: %s -> %s", c.Object, c.From, c.Value))
			}
			if d := cmp.Diff(strings.Split(tt.want, ", "), got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// cpus is a model of cpusets: path -> list, empty for an inherited list.
type cpus map[string]cpuset.Set

// effective returns the CPUs that a group runs on according to v2. On v1 the effective list always equals the list
// itself.
func (h cpus) effective(group string) cpuset.Set {
	set := everything()
	for _, name := range append(ancestorsOf(group), group) {
		if own := h[name]; own.Intersects(set) {
			set = set.Intersect(own)
		}
	}
	return set
}

// ancestorsOf returns the groups above one, from the root down.
func ancestorsOf(group string) []string {
	var above []string
	for i, r := range group {
		if r == '/' {
			above = append(above, group[:i])
		}
	}
	return above
}

// leaves reports a group whose list has CPUs that its parent does not have, which v1 refuses and v2 ignores.
func (h cpus) leaves() string {
	for name, set := range h {
		above := ancestorsOf(name)
		if len(above) > 0 && !set.IsSubsetOf(h.effective(above[len(above)-1])) {
			return fmt.Sprintf("%s has %s, its parent %s", name, set, h.effective(above[len(above)-1]))
		}
	}
	return ""
}

// lost reports a group whose list no longer has a CPU in common with its parent's, although the group has a list now
// and at the end. v2 lets such a group run on all CPUs of the parent.
func (h cpus) lost(end cpus) string {
	for name, set := range h {
		above := ancestorsOf(name)
		if len(above) > 0 && !set.IsEmpty() && !end[name].IsEmpty() && !set.Intersects(h.effective(above[len(above)-1])) {
			return fmt.Sprintf("%s has %s, its parent %s", name, set, h.effective(above[len(above)-1]))
		}
	}
	return ""
}

func (h cpus) value(group string) Value {
	if h[group].IsEmpty() {
		return Value(cgroup.Inherit)
	}
	return Value(cgroup.ListValue(h[group]))
}

func (h cpus) write(t *rapid.T, c Change) {
	if now := h.value(c.Object); now != c.From {
		t.Fatalf("%s: stands at %s", c, now)
	}
	set, _, err := cgroup.Value(c.Value).List()
	if err != nil {
		t.Fatal(err)
	}
	h[c.Object] = set
}

// lists is a host that changes from one legal state to another.
type lists struct {
	names      []string
	owner      map[string]Owner // by top group
	start, end cpus
	changes    []Change
}

func top(group string) string { name, _, _ := strings.Cut(group, "/"); return name }

// drawLists draws trees. CPUs of a pinned tree belong to no other tree, and offline trees share no CPU with online
// trees. At the start this may not be true yet.
func drawLists(t *rapid.T, inherit bool) lists {
	l := lists{names: drawTree(t), owner: map[string]Owner{}}
	for _, name := range l.names {
		if _, known := l.owner[top(name)]; !known {
			l.owner[top(name)] = rapid.SampledFrom([]Owner{OwnerPlace, OwnerPool, OwnerIsolate}).Draw(t, "owner of "+top(name))
		}
	}
	l.start = l.draw(t, "start", inherit, rapid.Bool().Draw(t, "pinned already"))
	l.end = l.draw(t, "end", inherit, true)
	for _, name := range l.names {
		if from, to := l.start.value(name), l.end.value(name); from != to {
			l.changes = append(l.changes, listed(l.owner[top(name)], name, from, to))
		}
	}
	l.changes = rapid.Permutation(l.changes).Draw(t, "changes")
	return l
}

func (l lists) draw(t *rapid.T, label string, inherit, pinned bool) cpus {
	const all = 12
	ids := make([]int, all)
	for i := range ids {
		ids[i] = i
	}
	ids = rapid.Permutation(ids).Draw(t, label+" order")
	h := cpus{}
	free := ids
	for _, name := range l.names { // parents come before children
		above := ancestorsOf(name)
		var room cpuset.Set
		switch {
		case len(above) > 0:
			room = h.effective(above[len(above)-1])
		case pinned && l.owner[name] == OwnerPlace: // at most 7, of which 2 get 2
			n := rapid.IntRange(1, min(2, max(1, len(free)-9))).Draw(t, label+" CPUs of "+name)
			room = cpuset.Set{}.Add(free[0]).Add(free[n-1])
			free = free[n:]
			h[name] = room
			continue
		default:
			continue // later, when the remaining CPUs are known
		}
		h[name] = drawSubset(t, label+" of "+name, room, inherit)
	}
	left, _ := cpuset.Of(ids...)
	offline := left
	if pinned {
		cut := rapid.IntRange(1, len(free)-1).Draw(t, label+" boundary")
		left, _ = cpuset.Of(free[cut:]...)
		offline, _ = cpuset.Of(free[:cut]...)
	}
	for _, name := range l.names {
		if _, known := h[name]; !known && len(ancestorsOf(name)) == 0 {
			room := left
			if l.owner[name] == OwnerIsolate {
				room = offline
			}
			h[name] = drawSubset(t, label+" of "+name, room, inherit && !pinned)
		}
	}
	for _, name := range l.names { // groups below the previous groups
		above := ancestorsOf(name)
		switch {
		case len(above) == 0:
		case pinned && l.owner[top(name)] == OwnerPlace: // a pinned group and all below it
			h[name] = h.effective(top(name))
		default:
			h[name] = drawSubset(t, label+" again of "+name, h.effective(above[len(above)-1]), inherit)
		}
	}
	return h
}

func drawSubset(t *rapid.T, label string, of cpuset.Set, inherit bool) cpuset.Set {
	if inherit && rapid.IntRange(0, 3).Draw(t, label+" inherits") == 0 {
		return cpuset.Set{}
	}
	members := slices.Collect(of.Intersect(cpuset.OfWords([16]uint64{1<<12 - 1})).All())
	var set cpuset.Set
	for _, cpu := range rapid.SliceOfN(rapid.SampledFrom(members), 1, 4).Draw(t, label) {
		set = set.Add(cpu)
	}
	return set
}

// exchange reports whether trees of groups that move completely wait for each other in a ring.
func (l lists) exchange() bool {
	taken, released := map[string]cpuset.Set{}, map[string]cpuset.Set{}
	jumping := map[string]bool{}
	steps, _ := split(kinds(), l.changes)
	for _, s := range steps {
		name := top(s.change.Object)
		taken[name], released[name] = taken[name].Union(s.taken()), released[name].Union(s.released())
		jumping[name] = jumping[name] || s.jumps()
	}
	waits := map[string][]string{}
	for a := range jumping {
		for b := range jumping {
			if a != b && jumping[a] && jumping[b] && taken[a].Intersects(released[b]) {
				waits[a] = append(waits[a], b)
			}
		}
	}
	for a := range waits {
		seen := map[string]bool{}
		for todo := slices.Clone(waits[a]); len(todo) > 0; todo = todo[1:] {
			if todo[0] == a {
				return true
			}
			if !seen[todo[0]] {
				seen[todo[0]] = true
				todo = append(todo, waits[todo[0]]...)
			}
		}
	}
	return false
}

// touches returns the group whose CPUs another group got with the last write, "" for none.
func (l lists) touches(now cpus, before cpuset.Set, group string) string {
	taken := now.effective(group).Difference(before)
	for _, name := range l.names {
		if top(name) == top(group) || !l.owner[top(name)].Apart(l.owner[top(group)]) {
			continue
		}
		if shared := taken.Intersect(now.effective(name)); !shared.IsEmpty() {
			return fmt.Sprintf("%s takes %s, which %s still has", group, shared, name)
		}
	}
	return ""
}

// check makes the changes one by one, except those for which fails returns true, and checks the model after each.
func (l lists) check(t *rapid.T, v1 bool, fails func(Change) bool) cpus {
	now := cpus{}
	maps.Copy(now, l.start)
	pinned := now.leaves() == "" && !l.exchange()
	for _, c := range Order(kinds(), l.changes) {
		if fails(c) {
			continue
		}
		before := now.effective(c.Object)
		now.write(t, c)
		if bad := now.leaves(); bad != "" && v1 {
			t.Fatalf("after %s of %v: %s", c, Order(kinds(), l.changes), bad)
		}
		if bad := now.lost(l.end); bad != "" {
			t.Fatalf("after %s of %v: %s", c, Order(kinds(), l.changes), bad)
		}
		if bad := l.touches(now, before, c.Object); bad != "" && pinned {
			t.Fatalf("after %s of %v: %s", c, Order(kinds(), l.changes), bad)
		}
	}
	return now
}

func TestOrderOfListsKeepsEveryStepLegal(t *testing.T) {
	for name, v2 := range map[string]bool{"v1": false, "v2": true} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			l := drawLists(t, v2)
			if bad := l.start.leaves() + l.end.leaves(); bad != "" {
				t.Fatalf("the model drew an illegal host: %s", bad)
			}
			now := l.check(t, !v2, func(Change) bool { return false })
			for _, name := range l.names {
				if now.value(name) != l.end.value(name) {
					t.Fatalf("%s ends at %s, want %s", name, now.value(name), l.end.value(name))
				}
			}
		}))
	}
}

// TestNeedsOfLists checks that omitting a failed change, and the changes that need it, leaves a legal state.
func TestNeedsOfLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLists(t, false)
		if l.exchange() {
			return
		}
		var left []Change
		l.check(t, true, func(c Change) bool {
			needs := slices.ContainsFunc(left, func(f Change) bool { return Needs(kinds(), c, f) })
			if needs || rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
				left = append(left, c)
				return true
			}
			return false
		})
	})
}

func TestOrderOfListsIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLists(t, true)
		again := rapid.Permutation(l.changes).Draw(t, "again")
		if d := cmp.Diff(Order(kinds(), l.changes), Order(kinds(), again)); d != "" {
			t.Fatalf("the order depends on the argument's:\n%s", d)
		}
	})
}

// TestNeedsOfListsNotMore checks that a failed change does not delay unrelated changes.
func TestNeedsOfListsNotMore(t *testing.T) {
	failed := listed(OwnerPool, "a", "0-3", "0-1")
	for _, c := range []Change{
		listed(OwnerPlace, "b", "0-3", "2-3"),         // takes nothing
		listed(OwnerPlace, "b", "4", "4-5"),           // takes none of its CPUs
		listed(OwnerPool, "b", "0", "0,2"),            // neither is pinned
		move("b", cgroup.KnobMems, "0", "2-3"),        // nodes are not exclusive
		move("a", cgroup.KnobMax, "1 1000", "2 1000"), // another knob
	} {
		if Needs(kinds(), c, failed) {
			t.Errorf("%s is said to need %s", c, failed)
		}
	}
	if Needs(kinds(), listed(OwnerIsolate, "b", "0", "0,2"), listed(OwnerIsolate, "a", "0-3", "0-1")) {
		t.Error("an offline group waits for another one")
	}
	if !Needs(kinds(), listed(OwnerPlace, "b", "0", "0,2"), failed) {
		t.Error("a pinned group does not wait for whoever has its CPUs")
	}
	if !Needs(kinds(), listed(OwnerIsolate, "b", "0", "0,2"), failed) {
		t.Error("an offline group does not wait for online ones")
	}
	if !Needs(kinds(), listed(OwnerPool, "b", "0", "0,2"), listed(OwnerIsolate, "a", "0-3", "0-1")) {
		t.Error("an online group does not wait for offline ones")
	}
}
