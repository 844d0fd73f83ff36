package view

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// fill gives each field a distinct value, so that none is omitted.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = time.Unix(int64(*n), int64(*n)).UTC()
		return
	case *cpuset.Set:
		*at = at.Add(*n % 100)
		return
	case *capability.Sections:
		*at = capability.Sections{"beds": *n, "a": capability.Quota{Limit: float64(*n)}, "<": []string{"&"}}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(string(rune('a' + *n%26)))
	case reflect.Int:
		v.SetInt(int64(*n))
	case reflect.Uint64:
		v.SetUint(uint64(*n)) //nolint:gosec // it counts up from 1
	case reflect.Float64:
		v.SetFloat(float64(*n) / 8)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]any{"at": *n, "obstacle": "<b>"}))
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, field, n)
		}
	default:
		t.Fatalf("a field of the kind %v: it needs a line above", v.Kind())
	}
}

// sameAsJSON fails unless a line equals the output of encoding/json.
func sameAsJSON(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, d Delta,
) {
	t.Helper()
	want, wantErr := json.Marshal(d)
	got, err := d.Line()
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("error %v, of encoding/json %v", err, wantErr)
	}
	if err == nil && string(got) != string(want)+"\n" {
		t.Fatalf("(-encoding/json +line):\n%s", cmp.Diff(string(want)+"\n", string(got)))
	}
}

// TestLine checks that a line equals the output of encoding/json, including fields that are added later.
func TestLine(t *testing.T) {
	t.Parallel()
	var d Delta
	sameAsJSON(t, d)
	n := 0
	fill(t, reflect.ValueOf(&d).Elem(), &n)
	sameAsJSON(t, d)
	d.Workloads = append(d.Workloads, Workload{}, Workload{Status: &Status{}, CPUs: &capability.Holding{}, Quota: &capability.Quota{}, Throttling: &Throttling{}})
	d.CPUs, d.Changes, d.Events = append(d.CPUs, CPU{}), append(d.Changes, Change{}), append(d.Events, Event{})
	sameAsJSON(t, d)
	for _, text := range []string{"", " ", "~", "\x7f", "\"", `\`, "<b>&amp;", "\n\x00", "ä\u2028\u2029", "\xff", "a\xffb"} {
		d.Workloads[0].Name, d.Changes[0].Written = text, "x"
		d.Workloads[0].Status.Sections = capability.Sections{text: text}
		sameAsJSON(t, d)
	}
	for _, load := range []float64{0, math.Copysign(0, -1), -1, 0.1, 1e-6, 9.99e-7, -1e-7, 1e20, 1e21, -1e22, math.MaxFloat64, math.SmallestNonzeroFloat64, 1. / 3} {
		sameAsJSON(t, Delta{CPUs: []CPU{{Load: load}}})
	}
	for _, load := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		sameAsJSON(t, Delta{CPUs: []CPU{{Load: load}}})
	}
	for _, year := range []int{-1, 1, 1969, 9999, 10000} {
		sameAsJSON(t, Delta{Changes: []Change{{Since: time.Date(year, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600))}}})
	}
	sameAsJSON(t, Delta{Workloads: []Workload{{Status: &Status{Sections: capability.Sections{"a": func() {}}}}}})
}
