package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestProgress checks that only a long run reports, by counts, and that the report of the cluster stays the same.
func TestProgress(t *testing.T) {
	for _, c := range []struct {
		nodes int
		want  []string
	}{
		{nodes: 100}, // 1000 pods
		{nodes: 250, want: []string{"decided 0 of 2500 pods", "decided 1000 of 2500 pods", "decided 2000 of 2500 pods"}},
	} {
		t.Run(fmt.Sprint(c.nodes), func(t *testing.T) {
			o := scaled(t, c.nodes)
			silent, loud := New(o), New(o)
			var got []string
			loud.Progress(func(line string) { got = append(got, line) })
			want, report := run(t, silent), run(t, loud)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if text(t, want) != text(t, report) {
				t.Error("the report differs from the report of a silent run")
			}
		})
	}
}

// TestProgressOfLargeRun checks that the number of lines is bounded.
func TestProgressOfLargeRun(t *testing.T) {
	var c Cluster
	var got []string
	c.Progress(func(line string) { got = append(got, line) })
	const pods = 100_000
	for i := range pods {
		c.tell("decided", i, pods, leastPods)
	}
	if len(got) != reports || got[1] != "decided 5000 of 100000 pods" {
		t.Errorf("%d lines: %q", len(got), got)
	}
}

// TestProgressOfRepacks checks that the search for moves reports too, if several pods wait.
func TestProgressOfRepacks(t *testing.T) {
	c := halved(t)
	var got []string
	c.Progress(func(line string) { got = append(got, line) })
	run(t, c)
	if len(got) > 0 {
		t.Errorf("without plans: %q", got)
	}
	c = halved(t)
	c.PlanRepacks()
	c.Progress(func(line string) { got = append(got, line) })
	run(t, c)
	if want := []string{"searched moves for 0 of 2 pods", "searched moves for 1 of 2 pods"}; !slices.Equal(got, want) {
		t.Errorf("with plans: %q, want %q", got, strings.Join(want, "; "))
	}
}
