package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/linux/topology"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// object is a JSON object as the reader of a stream gets it.
type object = map[string]any

// decoded returns what a reader gets of a value.
func decoded(t *rapid.T, value any) object {
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var o object
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// listed returns a value of an object as a list.
func listed(o object, key string) []any {
	l, _ := o[key].([]any)
	return l
}

// mergePatch is MergePatch of RFC 7396.
func mergePatch(target, change any) any {
	members, is := change.(object)
	if !is {
		return change
	}
	next := object{}
	if old, is := target.(object); is {
		maps.Copy(next, old)
	}
	for key, value := range members {
		if value == nil {
			delete(next, key)
		} else {
			next[key] = mergePatch(next[key], value)
		}
	}
	return next
}

// apply updates a view as the documentation says, from JSON alone.
func apply(v, d object) {
	set, _ := d["set"].(object)
	maps.Copy(v, set)
	gone, _ := d["gone"].(object)
	patches, _ := d["patches"].(object)
	for key, name := range map[string]func(any) string{
		"cpus":      func(e any) string { return fmt.Sprint(e.(object)["id"]) },
		"workloads": func(e any) string { return fmt.Sprint(e.(object)["name"]) },
		"changes":   func(e any) string { return fmt.Sprint([]any{e.(object)["object"], e.(object)["knob"]}) },
	} {
		var left []any
		for _, e := range listed(v, key) {
			is := func(other any) bool { return name(other) == name(e) }
			if slices.ContainsFunc(listed(gone, key), func(n any) bool { return fmt.Sprint(n) == name(e) }) {
				continue
			}
			if i := slices.IndexFunc(listed(d, key), is); i >= 0 {
				e = listed(d, key)[i]
			}
			if i := slices.IndexFunc(listed(patches, key), is); i >= 0 {
				e = mergePatch(e, listed(patches, key)[i])
			}
			left = append(left, e)
		}
		for _, e := range listed(d, key) {
			if !slices.ContainsFunc(left, func(other any) bool { return name(other) == name(e) }) {
				left = append(left, e)
			}
		}
		slices.SortStableFunc(left, func(a, b any) int { return cmpText(name(a), name(b)) })
		v[key] = left
	}
	events := append(listed(v, "events"), listed(d, "events")...)
	v["events"] = events[max(0, len(events)-kept):]
}

func cmpText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// drawn returns a random view of a host at a moment, whose events continue a log.
func drawn(t *rapid.T, second int, machine *topology.Topology, log *Log) *View {
	names := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.ID[string])
	f := Facts{Version: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "version"), At: time.Unix(int64(second), 0).UTC()}
	o := capability.Outcome{Node: capability.Sections{"beds": rapid.IntRange(1, 2).Draw(t, "beds")}}
	o.Shown.Machine = machine
	o.Shown.Obstacle = rapid.SampledFrom([]string{"", "it is Sunday"}).Draw(t, "obstacle")
	for i, name := range names.Draw(t, "rows") {
		w := capability.Workload{Name: name, State: "Active", Warnings: rapid.SliceOf(rapid.SampledFrom([]string{"x", "y"})).Draw(t, "warnings")}
		o.Rows = append(o.Rows, capability.Row{Workload: w, Section: capability.Quota{Limit: float64(rapid.IntRange(0, 1).Draw(t, "limit"))}})
		o.Shown.Holdings = append(o.Shown.Holdings, capability.Holding{Workload: name, CPUs: machine.Cores[i%len(machine.Cores)].CPUs, Exclusive: rapid.Bool().Draw(t, "exclusive")})
	}
	for _, name := range names.Draw(t, "changes") {
		f.Changes = append(f.Changes, Change{Object: name, Knob: "cpu.max", Writes: rapid.IntRange(1, 2).Draw(t, "writes")})
	}
	for _, name := range names.Draw(t, "throttled") {
		if f.Throttling == nil {
			f.Throttling = map[string]*Throttling{}
		}
		f.Throttling[name] = &Throttling{Limit: 1, Periods: uint64(rapid.IntRange(0, 1).Draw(t, "periods"))} //nolint:gosec // it is 0 or 1
	}
	for range machine.Online.Size() {
		f.Loads = append(f.Loads, float64(rapid.IntRange(0, 1).Draw(t, "load")))
	}
	for range rapid.SampledFrom([]int{0, 0, 1, 3, kept + 1}).Draw(t, "events") {
		log.Add(Event{At: f.At, Text: fmt.Sprint(second, " ", len(log.events))})
	}
	for _, about := range names.Draw(t, "renewed") {
		log.Renew(Event{At: f.At, About: about, Reason: "CPUBurstLimited"})
	}
	f.Events = log.All()
	var err error
	if f.Report, err = Join(nil, []Said{{"place", o}}); err != nil {
		t.Fatal(err)
	}
	return Of(f)
}

// TestSince checks that a reader with a view and all later changes has the later views.
func TestSince(t *testing.T) {
	machines := []*topology.Topology{machine(t, 4), machine(t, 4), machine(t, 8)}
	rapid.Check(t, func(t *rapid.T) {
		var log Log
		machine := rapid.SampledFrom(machines)
		before := drawn(t, 0, machine.Draw(t, "machine"), &log)
		seen := decoded(t, before)
		for second := range 3 {
			now := drawn(t, 1+second, machine.Draw(t, "machine"), &log)
			delta := now.Since(before)
			sameAsJSON(t, delta)
			apply(seen, decoded(t, delta))
			want := decoded(t, now)
			apply(want, object{}) // in the same order
			if seen["obstacle"] == "" {
				delete(seen, "obstacle") // a view omits an empty one
			}
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Fatalf("second %d (-want +got):\n%s", second, diff)
			}
			before = now
		}
	})
}

// TestSinceIsSmall checks that unchanged fields are not repeated.
func TestSinceIsSmall(t *testing.T) {
	made := func() *View {
		var log Log
		log.Add(Event{Text: "it began"})
		return Of(Facts{Report: reported(t), Events: log.All(), Changes: []Change{{Object: "a"}}})
	}
	before, now := made(), made()
	now.Machine = before.Machine
	text, err := json.Marshal(now.Since(before))
	if want := `{"set":{"at":"0001-01-01T00:00:00Z","loadSeconds":0}}`; string(text) != want || err != nil {
		t.Errorf("%s, want %s: %v", text, want, err)
	}
}

// TestClusterSince checks that a reader with a Cluster and the changes has the next Cluster, with the changed nodes in
// order.
func TestClusterSince(t *testing.T) {
	t.Parallel()
	node := rapid.Custom(func(t *rapid.T) Node {
		return Node{
			Name: rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "name"), CPUs: 8, FreeCPUs: rapid.IntRange(0, 2).Draw(t, "free"),
			FreeL3: rapid.IntRange(0, 1).Draw(t, "l3"), Obstacle: rapid.SampledFrom([]string{"", "not pinnable"}).Draw(t, "obstacle"),
			Notes: rapid.SampledFrom([][]string{nil, {"cordoned"}}).Draw(t, "notes"),
		}
	})
	nodes := func(t *rapid.T, when string) []Node {
		all := rapid.SliceOfNDistinct(node, 0, 5, func(n Node) string { return n.Name }).Draw(t, when)
		slices.SortFunc(all, MoreRoom)
		return all
	}
	rapid.Check(t, func(t *rapid.T) {
		before, now := &Cluster{Nodes: nodes(t, "before")}, &Cluster{Nodes: nodes(t, "now")}
		d := now.Since(before)
		if _, whole := d.Set["nodes"]; whole {
			t.Fatal("all nodes for those that changed")
		}
		got := slices.DeleteFunc(slices.Clone(before.Nodes), func(n Node) bool {
			other := slices.ContainsFunc(d.Nodes, func(o Node) bool { return o.Name == n.Name })
			return other || d.Gone != nil && slices.Contains(d.Gone.Nodes, n.Name)
		})
		got = append(got, d.Nodes...)
		slices.SortFunc(got, MoreRoom)
		if diff := cmp.Diff(now.Nodes, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("nodes (-want +got):\n%s", diff)
		}
		for _, n := range d.Nodes {
			if slices.ContainsFunc(before.Nodes, func(o Node) bool { return reflect.DeepEqual(o, n) }) {
				t.Fatalf("%+v did not change", n)
			}
		}
	})
}
