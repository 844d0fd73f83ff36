package top

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// TestRowsOfTheNextView checks that rows which follow from those of the view before are the rows of a screen that sees
// both views for the first time, in any order and with any filter.
func TestRowsOfTheNextView(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"}
	rapid.Check(t, func(t *rapid.T) {
		s := screen{now: &view.View{}}
		for range rapid.IntRange(1, 12).Draw(t, "moments") {
			next := *s.now
			switch rapid.IntRange(0, 9).Draw(t, "event") {
			case 0:
				next.Workloads = nil
				for _, name := range names {
					if rapid.IntRange(0, 9).Draw(t, "there") > 0 {
						next.Workloads = append(next.Workloads, view.Workload{Name: name})
					}
				}
			case 1:
				next.CPUs = []view.CPU{{Holder: rapid.SampledFrom(names).Draw(t, "holder")}}
			case 2:
				next.Pools = []capability.Pool{{Name: rapid.SampledFrom([]string{"shared", "free"}).Draw(t, "pool")}}
			case 3:
				s.order = order(rapid.IntRange(0, int(orders)-1).Draw(t, "order"))
			case 4:
				s.filter = rapid.SampledFrom([]string{"", "a", "pinned"}).Draw(t, "filter")
			default:
				next.Workloads = slices.Clone(next.Workloads)
				for range rapid.IntRange(0, 3).Draw(t, "changes") {
					if len(next.Workloads) > 0 {
						change(t, &next.Workloads[rapid.IntRange(0, len(next.Workloads)-1).Draw(t, "which")])
					}
				}
			}
			s.before, s.now = s.now, &next
			fresh := screen{before: s.before, now: s.now, order: s.order, filter: s.filter}
			if diff := cmp.Diff(fmt.Sprintf("%+v", fresh.rows()), fmt.Sprintf("%+v", s.rows())); diff != "" {
				t.Fatalf("rows (-want +got):\n%s", diff)
			}
		}
	})
}

// change gives a workload another part, as a stream does: the part before stays as it was.
func change(t *rapid.T, w *view.Workload) {
	n := rapid.IntRange(0, 3).Draw(t, "n")
	switch rapid.IntRange(0, 2).Draw(t, "part") {
	case 0:
		w.Quota = &capability.Quota{Capacity: 3, Credit: float64(n), Periods: uint64(n), Throttled: uint64(n / 2)} //nolint:gosec // it is small
	case 1:
		h := capability.Holding{Exclusive: n > 1}
		h.CPUs = h.CPUs.Add(n)
		w.CPUs = &h
	default:
		w.Quota = nil
	}
}
