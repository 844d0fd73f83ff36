package cpuset_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// model is the obvious implementation that the bit set is compared with.
type model map[int]bool

func modelOf(cpus []int) model {
	m := model{}
	for _, cpu := range cpus {
		m[cpu] = true
	}
	return m
}

func (m model) sorted() []int { return slices.Sorted(maps.Keys(m)) }

func (m model) where(keep func(int) bool) []int {
	return slices.DeleteFunc(m.sorted(), func(cpu int) bool { return !keep(cpu) })
}

func list(s cpuset.Set) []int { return slices.Collect(s.All()) }

func draw(t *rapid.T, label string) (cpuset.Set, model) {
	cpus := rapid.SliceOf(rapid.IntRange(0, cpuset.Max-1)).Draw(t, label)
	for range rapid.IntRange(0, 3).Draw(t, label+" runs") {
		lo := rapid.IntRange(0, cpuset.Max-1).Draw(t, "lo")
		for cpu := lo; cpu < min(lo+rapid.IntRange(1, 200).Draw(t, "length"), cpuset.Max); cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	s, err := cpuset.Of(cpus...)
	if err != nil {
		t.Fatal(err)
	}
	return s, modelOf(cpus)
}

func TestOperationsAgreeWithMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, ma := draw(t, "a")
		b, mb := draw(t, "b")
		inB := func(cpu int) bool { return mb[cpu] }
		both := maps.Clone(ma)
		maps.Copy(both, mb)
		same(t, "a", list(a), ma.sorted())
		same(t, "union", list(a.Union(b)), both.sorted())
		same(t, "intersect", list(a.Intersect(b)), ma.where(inB))
		same(t, "difference", list(a.Difference(b)), ma.where(func(cpu int) bool { return !mb[cpu] }))
		same(t, "subset", a.IsSubsetOf(b), len(ma.where(inB)) == len(ma))
		same(t, "intersects", a.Intersects(b), len(ma.where(inB)) > 0)
		same(t, "size", a.Size(), len(ma))
		same(t, "empty", a.IsEmpty(), len(ma) == 0)
		same(t, "equal", a == b, maps.Equal(ma, mb))
		same(t, "compare equal", a.Compare(b) == 0, a == b)
		same(t, "compare antisymmetric", a.Compare(b), -b.Compare(a))
	})
}

func TestSingleCPUsAgreeWithMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, m := draw(t, "set")
		cpu := rapid.IntRange(-2, cpuset.Max+1).Draw(t, "cpu")
		same(t, "contains", s.Contains(cpu), m[cpu])
		with, without := maps.Clone(m), maps.Clone(m)
		if cpu >= 0 && cpu < cpuset.Max {
			with[cpu] = true
		}
		delete(without, cpu)
		same(t, "add", list(s.Add(cpu)), with.sorted())
		same(t, "remove", list(s.Remove(cpu)), without.sorted())
		lowest, ok := s.Min()
		same(t, "min found", ok, len(m) > 0)
		highest, _ := s.Max()
		if ok {
			same(t, "min", lowest, m.sorted()[0])
			same(t, "max", highest, m.sorted()[len(m)-1])
		}
	})
}

func same[T any](t *rapid.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b []int) bool { return slices.Equal(a, b) })); diff != "" {
		t.Fatalf("%s: -want +got:\n%s", what, diff)
	}
}

func TestCompareOrdersByLowestCPU(t *testing.T) {
	sets := []cpuset.Set{parse(t, ""), parse(t, "700"), parse(t, "3"), parse(t, "0,9"), parse(t, "0-3"), parse(t, "4-7")}
	slices.SortFunc(sets, cpuset.Set.Compare)
	var got []string
	for _, s := range sets {
		got = append(got, s.String())
	}
	want := []string{"0-3", "0,9", "3", "4-7", "700", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestIdsOutOfRange(t *testing.T) {
	var target *cpuset.RangeError
	for _, cpu := range []int{-1, cpuset.Max} {
		if s, err := cpuset.Of(0, cpu); !errors.As(err, &target) || target.CPU != cpu || !s.IsEmpty() {
			t.Errorf("Of(0, %d) = %v, %v", cpu, s, err)
		}
	}
	if s, err := cpuset.Of(0, cpuset.Max-1); err != nil || s.Size() != 2 {
		t.Errorf("the first and the last: %v, %v", s, err)
	}
}

func TestAllStopsEarly(t *testing.T) {
	for cpu := range parse(t, "5-1000").All() {
		if cpu != 5 {
			t.Fatalf("first CPU is %d", cpu)
		}
		break
	}
}

// TestSetOperationsDoNotAllocate is the reason for the representation.
func TestSetOperationsDoNotAllocate(t *testing.T) {
	a, b := parse(t, "0-95,192-287"), parse(t, "0-1023:1/2")
	sum := 0
	allocs := testing.AllocsPerRun(100, func() {
		c := a.Union(b).Intersect(b).Difference(a).Add(7).Remove(8)
		for cpu := range c.All() {
			sum += cpu
		}
		lo, _ := c.Min()
		hi, _ := c.Max()
		sum += c.Size() + lo + hi + c.Compare(a)
		if c == a || c.IsSubsetOf(b) || !c.Intersects(b) || c.IsEmpty() || c.Contains(1) {
			sum++
		}
	})
	if allocs != 0 {
		t.Fatalf("%v allocations in set operations, want none (sum %d)", allocs, sum)
	}
}

func TestJSON(t *testing.T) {
	type doc struct {
		CPUs   cpuset.Set
		Counts map[cpuset.Set]int
	}
	in := doc{CPUs: parse(t, "0-3,8"), Counts: map[cpuset.Set]int{parse(t, "1,3"): 2}}
	data, err := json.Marshal(in)
	if err != nil || string(data) != `{"CPUs":"0-3,8","Counts":{"1,3":2}}` {
		t.Fatalf("marshal: %s, %v", data, err)
	}
	var out doc
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, out, cmp.Comparer(func(a, b cpuset.Set) bool { return a == b })); diff != "" {
		t.Fatal(diff)
	}
	var syntax *cpuset.SyntaxError
	if err := json.Unmarshal([]byte(`{"CPUs":"0-"}`), &out); !errors.As(err, &syntax) {
		t.Fatalf("garbage: %v", err)
	}
	if out.CPUs != in.CPUs {
		t.Fatal("a failed unmarshal changed the set")
	}
}

func BenchmarkDifferenceAndSize(b *testing.B) {
	x, _ := cpuset.Parse("0-191")
	y, _ := cpuset.Parse("0-191:1/2")
	b.ReportAllocs()
	for b.Loop() {
		if x.Difference(y).Size() != 96 {
			b.Fatal("wrong size")
		}
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := cpuset.Parse("0-47,96-143\n"); err != nil {
			b.Fatal(err)
		}
	}
}

func parse(tb testing.TB, text string) cpuset.Set {
	tb.Helper()
	s, err := cpuset.Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
