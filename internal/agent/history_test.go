package agent

import (
	"context"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/agent/history"
	"github.com/berth-project/berth/internal/capability"
)

// The agent records the quota and use of each workload once a second, even while nobody watches. The next agent finds
// the records.
func TestHistory(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.makes()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- m.controls.windows.recorder.Run(ctx) }()
		m.begin()
		m.run(10*time.Second, 0.25, 1)
		m.run(10*time.Second, 1)
		synctest.Wait()
		p, found, err := m.controls.windows.past.Of(app, history.Kept, 1)
		if !found || err != nil {
			t.Fatalf("nothing is kept: %v", err)
		}
		w := p.Workloads[0]
		if len(p.Times) < 19 || len(p.Times) > 21 || p.Times[10]-p.Times[0] != 10_000 {
			t.Errorf("times %v", p.Times)
		}
		near := func(what string, at int, got history.Column, want float64) {
			t.Helper()
			if math.Abs(got[at]-want) > 0.05 {
				t.Errorf("%s of second %d: %v, want %v; all %v", what, at, got[at], want, got)
			}
		}
		near("limit", 15, w.Limit, 0.5)
		near("quota", 15, w.Now, 1.5)
		near("capacity", 15, w.Capacity, 20)
		near("use", 5, w.Used, 0.25)
		near("use", 15, w.Used, 1)
		near("use of the node", 5, p.Node, 1.25)
		near("use of the node", 15, p.Node, 1)
		if w.Credit[15] <= w.Credit[18] || slices.ContainsFunc(w.Periods[1:], math.IsNaN) {
			t.Errorf("credit %v, periods %v", w.Credit, w.Periods)
		}
		if s := m.samples(); s["berth_history_series"] != 1 || m.controls.windows.past.Size().Series == 0 {
			t.Errorf("size %+v", m.controls.windows.past.Size())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = m.stop()
		m.makes()
		next := m.controls
		ended, end := context.WithCancel(t.Context())
		end()
		if err := next.windows.recorder.Run(ended); err != nil { // opens the existing records
			t.Error(err)
		}
		if after, found, err := next.windows.past.Of(app, history.Kept, 1); !found || err != nil || !slices.Equal(after.Times, p.Times) {
			t.Errorf("the next agent has %v: %v", after.Times, err)
		}
		m.begin()
		_ = m.stop()
	})
}

// BenchmarkRecord measures how long recording the history holds the agent's mutex on a node with 250 pods that burst.
func BenchmarkRecord(b *testing.B) {
	n := newFullNode(b)
	n.begins(b, costs{})
	c := n.controls
	for range 3 {
		c.turns.nextSecond = 0
		c.pass()
	}
	var all []capability.Moment
	record := func() {
		all = all[:0]
		for _, one := range c.capabilities {
			if recorded, records := one.(capability.Recorded); records {
				recorded.Record(func(m capability.Moment) { all = append(all, m) })
			}
		}
	}
	if record(); len(all) < 200 {
		b.Fatalf("%d moments", len(all))
	}
	b.ReportAllocs()
	for b.Loop() {
		record()
	}
	b.StopTimer()
	b.ReportMetric(float64(len(all)), "moments")
	if err := c.stop(); err != nil {
		b.Error(err)
	}
}
