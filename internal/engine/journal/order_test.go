package journal

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/engine/plan"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// TestOrder checks that the entries are those of a plain map, in the order of objects and knobs, after any records.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, model := newEntries(), map[plan.Place]Entry{}
		t.Repeat(map[string]func(*rapid.T){
			"record": func(t *rapid.T) {
				target := plan.Target{
					Driver: "cgroup", Object: rapid.SampledFrom([]string{"a", "a/b", "a b", "b", "c"}).Draw(t, "object"),
					Knob: rapid.SampledFrom([]string{"cpu.max", "cpuset.cpus"}).Draw(t, "knob"),
				}
				value := rapid.SampledFrom([]plan.Value{"1", "2", "3"}).Draw(t, "value")
				e, known := model[target.Place()]
				r := targetRecord(rapid.SampledFrom([]kind{kindOriginal, kindIntent, kindRebase, kindForget}).Draw(t, "kind"), target)
				r.Value = value
				switch {
				case r.Kind == kindOriginal:
					model[target.Place()] = r.entry()
				case r.Kind == kindForget:
					delete(model, target.Place())
				case known && r.Kind == kindRebase:
					e.Original = value
					model[target.Place()] = e
				case known:
					model[target.Place()] = e.intend(nil, r)
				}
				if reason := all.take(nil, r); (reason == "") != (known || r.Kind == kindOriginal || r.Kind == kindForget) {
					t.Fatalf("%s: %q", r.Kind, reason)
				}
			},
			"": func(t *rapid.T) {
				var want []Entry
				for _, e := range model {
					want = append(want, e)
				}
				slices.SortFunc(want, func(a, b Entry) int {
					return cmp.Or(cmp.Compare(a.Target.Object, b.Target.Object), cmp.Compare(a.Target.Knob, b.Target.Knob))
				})
				got := all.sorted(nil)
				if diff := gocmp.Diff(want, got); diff != "" {
					t.Fatalf("(-want +got):\n%s", diff)
				}
				for i := range got {
					got[i].Original = "of the caller"
				}
				for _, e := range want {
					if is, known := all.entry(e.Target.Place()); !known || is.Original != e.Original {
						t.Fatalf("%s: %+v, want %+v", e.Target, is, e)
					}
				}
			},
		})
	})
}

// TestChanged checks that each change of the entries is counted, also a forgotten entry whose record cannot be written,
// and that nothing else is.
func TestChanged(t *testing.T) {
	j := mustOpen(t, t.TempDir())
	a := target("a")
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"begin", func() error { return j.Begin(entry("a", "1")) }},
		{"intend", func() error { return j.Intend(change("a", "1", "2")) }},
		{"made", func() error { return j.Made(a, "3") }},
		{"rebase", func() error { return j.Rebase(a, plan.OwnerBurst, "4") }},
		{"threads", func() error { return j.KeepThreads(a, []Thread{{TID: 1}}) }},
		{"forget", func() error { return j.Forget(a) }},
		{"record", func() error { return j.Record([]plan.Change{recorded("a", "0-7", "5")}, entry("a", "1").Since) }},
	} {
		before := j.Changed()
		must(t, step.do())
		if j.Changed() == before {
			t.Errorf("%s is not counted", step.name)
		}
	}
	before := j.Changed()
	j.Entries()
	must(t, j.Tidy())
	must(t, j.Forget(target("never")))
	if err := j.Begin(recordedEntry()); err == nil {
		t.Fatal("an original twice")
	}
	if j.Changed() != before {
		t.Error("reading is counted")
	}
	must(t, j.Close())
	if err := j.Forget(recordedEntry().Target); err == nil || len(j.Entries()) > 0 {
		t.Fatalf("forgotten in a closed journal: %v, %d entries", err, len(j.Entries()))
	}
	if j.Changed() == before {
		t.Error("an entry that only memory forgot is not counted")
	}
}

// recordedEntry returns an entry for the place of recorded("a", …).
func recordedEntry() Entry {
	e := entry("a", "1")
	e.Target = recorded("a", "", "").Target
	return e
}
