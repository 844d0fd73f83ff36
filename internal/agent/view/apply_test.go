package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/patch"
)

// lineOf returns a view as the first line of a stream.
func lineOf(t *rapid.T, v *View) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestApply checks that a view with all later lines is as the reader of the JSON has it, with its lists in the agent's
// order, and that a line does not change the view before it.
func TestApply(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]func(now, before *View) ([]byte, error){
		"whole":   func(now, before *View) ([]byte, error) { return now.Since(before).Line() },
		"patches": patchesOf,
	} {
		t.Run(name, func(t *testing.T) { applies(t, line) })
	}
}

// patchesOf returns a line with merge patches.
func patchesOf(now, before *View) ([]byte, error) { return now.Parts().Since(before.Parts()) }

func applies(t *testing.T, lineBetween func(now, before *View) ([]byte, error)) {
	t.Helper()
	machines := []*topology.Topology{machine(t, 4), machine(t, 4), machine(t, 8)}
	rapid.Check(t, func(t *rapid.T) {
		var log Log
		machine := rapid.SampledFrom(machines)
		before := drawn(t, 0, machine.Draw(t, "machine"), &log)
		want := decoded(t, before)
		seen, err := (*View)(nil).Apply(lineOf(t, before))
		if err != nil {
			t.Fatal(err)
		}
		for second := range 3 {
			now := drawn(t, 1+second, machine.Draw(t, "machine"), &log)
			line, err := lineBetween(now, before)
			if err != nil {
				t.Fatal(err)
			}
			was := lineOf(t, seen)
			next, err := seen.Apply(line)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(was), string(lineOf(t, seen))); diff != "" {
				t.Fatalf("second %d: the view before changed (-was +is):\n%s", second, diff)
			}
			apply(want, decoded(t, json.RawMessage(line)))
			if want["obstacle"] == "" {
				delete(want, "obstacle") // a view omits an empty one
			}
			got, sent := decoded(t, next), decoded(t, now)
			for _, key := range []string{"cpus", "workloads", "changes"} {
				if diff := cmp.Diff(sent[key], got[key]); diff != "" {
					t.Fatalf("second %d: %s (-want +got):\n%s", second, key, diff)
				}
			}
			apply(got, object{}) // in the same order
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("second %d (-want +got):\n%s", second, diff)
			}
			before, seen = now, next
		}
	})
}

// TestApplySetsEachField checks that a line can set each field of a view.
func TestApplySetsEachField(t *testing.T) {
	node := func(beds int) capability.Sections { return capability.Sections{"beds": beds} }
	before := &View{Format: Format, Version: "1", Machine: machine(t, 4), CPUs: []CPU{{ID: 1}}, Pools: []capability.Pool{{Name: "a"}, {Name: "b"}}, Node: node(1)}
	after := &View{
		Version: "2", Machine: machine(t, 8), CPUs: []CPU{{ID: 2}}, LoadSeconds: 2, Pools: []capability.Pool{{Name: "c"}}, Obstacle: "it is Sunday",
		Workloads: []Workload{{Name: "w"}}, Problems: []string{"p"}, Changes: []Change{{Object: "o"}}, Events: []Event{{Text: "e"}}, Node: node(2),
	}
	set, err := json.Marshal(after)
	if err != nil {
		t.Fatal(err)
	}
	line := `{"set":` + strings.Replace(string(set), `"v":0,`, "", 1) + `}`
	was, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	got, err := before.Apply([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	after.Format = Format
	want, first := json.Marshal(after)
	text, second := json.Marshal(got)
	if err := errors.Join(first, second); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if is, err := json.Marshal(before); string(is) != string(was) || err != nil {
		t.Errorf("the view before is %s, was %s: %v", is, was, err)
	}
}

// TestApplyLines checks which lines a view takes.
func TestApplyLines(t *testing.T) {
	first := &View{Format: Format, Version: "1", Workloads: []Workload{{Name: "b"}}}
	for name, test := range map[string]struct {
		before *View
		line   string
		want   string
		err    error
	}{
		"a view":                  {nil, `{"v":1,"version":"2","workloads":[{"name":"a"}]}`, "2 a", nil},
		"a view again":            {first, `{"v":1,"version":"2"}`, "2", nil},
		"a change":                {first, `{"set":{"version":"3"},"workloads":[{"name":"a"}]}`, "3 a b", nil},
		"one that goes":           {first, `{"set":{},"workloads":[{"name":"a"}],"gone":{"workloads":["b","c"]}}`, "1 a", nil},
		"keys of a later version": {first, `{"set":{"moons":7},"tides":[1]}`, "1 b", nil},
		"a change without a view": {nil, `{"set":{"version":"3"}}`, "", ErrNoView},
		"a patch":                 {first, `{"set":{},"patches":{"workloads":[{"name":"b","quota":{"periods":1}}]}}`, "1 b", nil},
		"a patch of another":      {first, `{"set":{},"patches":{"workloads":[{"name":"a"}]}}`, "", ErrNoEntry},
		"two patches of one":      {first, `{"set":{},"patches":{"workloads":[{"name":"b"},{"name":"b"}]}}`, "", ErrNoEntry},
		"a part twice":            {first, `{"set":{},"patches":{"workloads":[{"name":"b","status":{"x":1},"status":{"x":1}}]}}`, "", patch.ErrSyntax},
		"neither":                 {first, `{}`, "", ErrNoView},
		"another format":          {first, `{"v":2}`, "", ErrFormat},
		"a format of other types": {first, `{"v":2,"cpus":{},"gone":[]}`, "", ErrFormat},
	} {
		v, err := test.before.Apply([]byte(test.line))
		if !errors.Is(err, test.err) || (v == nil) != (err != nil) {
			t.Errorf("%s: %+v, %v", name, v, err)
			continue
		}
		if err != nil {
			continue
		}
		got := v.Version
		for _, w := range v.Workloads {
			got += " " + w.Name
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	for _, line := range []string{``, `{`, `{"set":7}`, `{"set":{"pools":7}}`, `{"v":1,"pools":7}`, `{"set":{},"workloads":[7]}`, `{"set":{},"patches":{"workloads":[7]}}`, `{"set":{},"patches":{"workloads":[{"name":"b","quota":{"periods":-1}}]}}`} {
		if v, err := first.Apply([]byte(line)); v != nil || err == nil {
			t.Errorf("%s: %+v", line, v)
		}
	}
}

// TestApplyDropsOldEvents checks that a view has no more events than a view of an agent.
func TestApplyDropsOldEvents(t *testing.T) {
	v := &View{Format: Format}
	for i := range 3 {
		v.Events = append(v.Events, Event{Text: fmt.Sprint(i)})
	}
	var d Delta
	for i := 3; i < kept+2; i++ {
		d.Events = append(d.Events, Event{Text: fmt.Sprint(i)})
	}
	d.Set = map[string]any{}
	line, err := d.Line()
	if err != nil {
		t.Fatal(err)
	}
	next, err := v.Apply(line)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(next.Events); n != kept || next.Events[0].Text != "2" || next.Events[kept-1].Text != fmt.Sprint(kept+1) || len(v.Events) != 3 {
		t.Errorf("%d events, %+v to %+v", n, next.Events[0], next.Events[n-1])
	}
}

// TestApplyTwice checks that two lines applied to the same view do not change each other's events.
func TestApplyTwice(t *testing.T) {
	v := &View{Format: Format, Events: append(make([]Event, 0, 9), Event{Text: "old"})}
	first, err := v.Apply([]byte(`{"set":{},"events":[{"text":"first"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Apply([]byte(`{"set":{},"events":[{"text":"second"}]}`)); err != nil {
		t.Fatal(err)
	}
	if len(first.Events) != 2 || first.Events[1].Text != "first" {
		t.Errorf("events %+v", first.Events)
	}
}

// BenchmarkApply applies a line in which each load and quota of 512 CPUs and 500 workloads changed.
func BenchmarkApply(b *testing.B) {
	m := machine(b, 512)
	before, now := large(b, m, 0), large(b, m, 1)
	entire, err := now.Since(before).Line()
	patches, failed := patchesOf(now, before)
	if err := errors.Join(err, failed); err != nil {
		b.Fatal(err)
	}
	for name, line := range map[string][]byte{"whole": entire, "patches": patches} {
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(float64(len(line))/1000, "kB")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := before.Apply(line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
