package offline

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/engine/reconcile"
)

// TestCostlyMoves checks that offline work grows once a minute, and why, where each move makes threads forget which
// CPUs they chose: on a kernel before 6.2 whose agent cannot restore that. It checks that offline work shrinks at once
// even there.
func TestCostlyMoves(t *testing.T) {
	const limits = "the threads of other containers cannot be seen from this pid namespace"
	for _, test := range []struct {
		release, limits string
		slow            bool
	}{
		{"5.15.0-105-generic\n", limits, true},
		{"6.1.0-18-amd64\n", limits, true},
		{"6.1.0-18-amd64\n", "", false}, // the agent restores what the kernel resets
		{"6.18.44\n", limits, false},    // the kernel resets nothing
		{"", limits, false},
	} {
		w := newWorld(t, enabled())
		if test.release != "" {
			w.Write("proc/sys/kernel/osrelease", test.release)
		}
		w.with("batch")
		pass := func(seconds int, busy float64) {
			for range seconds {
				w.rounds(1, busy)
				w.work.Saw(w.now, &reconcile.Report{Limits: test.limits})
			}
		}
		pass(59, 0.1)
		n, ok := w.work.Outcome(time.Time{}).Node[keyNode].(Node)
		if !ok {
			t.Fatal("no section of the node")
		}
		view, err := reader{}.Node(capability.Reported{Alive: true, Node: capability.Sections{keyNode: n}})
		if err != nil {
			t.Fatal(err)
		}
		const line = "waits: " + string(isolate.Slowed) + ": " + limits
		told := strings.Contains(strings.Join(view.Lines, "\n"), line)
		if slow := n.Count == 0; slow != test.slow || told != test.slow || strings.Contains(n.Reason, "once a minute") != test.slow {
			t.Errorf("%q, %q: %d moves, %q, %q", test.release, test.limits, n.Count, n.Reason, view.Lines)
		}
		if !test.slow {
			continue
		}
		pass(121, 0.1)
		w.expect("after three minutes", "5-7,13-15")
		pass(2, 1)
		w.expect("after a surge", "7,15")
	}
}
