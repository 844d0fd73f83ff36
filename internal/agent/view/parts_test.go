package view

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability"
)

// TestPatches checks what a line with patches has: a changed field and its path, null for a field that is gone, and whole
// entries that are new or need null themselves.
func TestPatches(t *testing.T) {
	t.Parallel()
	view := func(workloads ...Workload) *View { return &View{Format: Format, Workloads: workloads} }
	with := func(name string, sections capability.Sections) Workload {
		return Workload{Name: name, Status: &Status{Workload: capability.Workload{Name: name}, Sections: sections}}
	}
	deep := json.RawMessage(strings.Repeat(`{"a":`, 70) + `1` + strings.Repeat(`}`, 70))
	for name, c := range map[string]struct {
		before, now *View
		want        string
	}{
		"nothing":      {view(Workload{Name: "a"}), view(Workload{Name: "a"}), `}`},
		"a number":     {view(Workload{Name: "a", Quota: &capability.Quota{Periods: 1}}), view(Workload{Name: "a", Quota: &capability.Quota{Periods: 2}}), `,"patches":{"workloads":[{"name":"a","quota":{"periods":2}}]}}`},
		"a part less":  {view(Workload{Name: "a", Quota: &capability.Quota{}}), view(Workload{Name: "a"}), `,"patches":{"workloads":[{"name":"a","quota":null}]}}`},
		"new and gone": {view(Workload{Name: "a"}), view(Workload{Name: "b"}), `,"workloads":[{"name":"b"}],"gone":{"workloads":["a"]}}`},
		"deep":         {view(with("a", nil)), view(with("a", capability.Sections{"x": deep})), `,"workloads":[{"name":"a","status":{"name":"a","state":"","since":"0001-01-01T00:00:00Z","policy":"","x":` + string(deep) + `}}]}`},
		"null":         {view(with("a", capability.Sections{"x": 1})), view(with("a", capability.Sections{"x": nil})), `,"workloads":[{"name":"a","status":{"name":"a","state":"","since":"0001-01-01T00:00:00Z","policy":"","x":null}}]}`},
	} {
		text, err := patchesOf(c.now, c.before)
		_, got, _ := strings.Cut(strings.TrimSuffix(string(text), "\n"), `"loadSeconds":0}`)
		if got != c.want || err != nil {
			t.Errorf("%s: %s, want %s: %v", name, got, c.want, err)
		}
	}
}

// TestPatchesOfEachField checks that patches set and clear each field of each entry, and that the view before keeps its
// own.
func TestPatchesOfEachField(t *testing.T) {
	t.Parallel()
	filled := func(n int) *View {
		v := &View{Format: Format, CPUs: make([]CPU, 1), Workloads: make([]Workload, 1), Changes: make([]Change, 1)}
		if n > 0 {
			for _, entry := range []reflect.Value{reflect.ValueOf(&v.CPUs[0]), reflect.ValueOf(&v.Workloads[0]), reflect.ValueOf(&v.Changes[0])} {
				fill(t, entry.Elem(), &n)
			}
		}
		v.CPUs[0].ID, v.Workloads[0].Name, v.Changes[0].Object, v.Changes[0].Knob = 7, "w", "o", "k"
		return v
	}
	read := func(v *View) *View {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := (*View)(nil).Apply(text)
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	views := []*View{filled(1), filled(1000), filled(0), filled(2000)}
	for i, now := range views[1:] {
		line, err := patchesOf(now, views[i])
		if err != nil || !strings.Contains(string(line), `"patches":{"cpus":[`) {
			t.Fatalf("%s: %v", line, err)
		}
		before := read(views[i])
		got, err := before.Apply(line)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(asJSON(t, now), asJSON(t, got)); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
		if diff := cmp.Diff(asJSON(t, views[i]), asJSON(t, before)); diff != "" {
			t.Errorf("step %d: the view before (-want +got):\n%s", i, diff)
		}
	}
}

// TestPatchesOfManyMoments checks lines that follow each other, as in a stream: an entry that changed once and then stays.
func TestPatchesOfManyMoments(t *testing.T) {
	t.Parallel()
	was := (&View{Workloads: []Workload{{Name: "a", Quota: &capability.Quota{}}, {Name: "b"}}}).Parts()
	for i, periods := range []uint64{1, 1, 1, 2} {
		is := (&View{Workloads: []Workload{{Name: "a", Quota: &capability.Quota{Periods: periods}}, {Name: "b"}}}).Parts()
		line, err := is.Since(was)
		if changes := strings.Contains(string(line), `{"name":"a","quota":{"periods":`); changes != (i == 0 || i == 3) || err != nil {
			t.Errorf("line %d: %s, %v", i, line, err)
		}
		was = is
	}
}

// asJSON returns the entries of a view as a reader of the JSON has them.
func asJSON(t *testing.T, v *View) (entries [3]any) {
	t.Helper()
	for i, list := range []any{v.CPUs, v.Workloads, v.Changes} {
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	return entries
}

// BenchmarkSincePatches makes a line with patches, in which each load and quota of 512 CPUs and 500 workloads changed. The
// earlier view is encoded, as in a stream.
func BenchmarkSincePatches(b *testing.B) {
	m := machine(b, 512)
	views := [2]*View{large(b, m, 0), large(b, m, 1)}
	was, second := views[0].Parts(), 0
	b.ReportAllocs()
	for b.Loop() {
		second++
		is := views[second%2].Parts()
		if _, err := is.Since(was); err != nil {
			b.Fatal(err)
		}
		was = is
	}
}
