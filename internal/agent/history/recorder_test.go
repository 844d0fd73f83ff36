package history

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/value/unit"
)

// TestMain fails if a test leaves a goroutine behind, because every goroutine must be joined.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// meter is a capability whose workload uses CPU time.
type meter struct {
	capability.Capability
	clock time.Duration
}

func (m *meter) Record(add func(capability.Moment)) {
	add(capability.Moment{Quota: capability.Quota{Workload: "a"}, Used: unit.CPUTime(m.clock), At: m.clock})
}

// other is a capability without moments.
type other struct{ capability.Capability }

// TestRecorder checks that one sample per second is taken, however often the loop runs. While sampling is stuck, the
// loop does not wait, and lost samples are counted.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{})
		r, m := NewRecorder(h), &meter{clock: time.Hour}
		turn := func() {
			r.Record(m.clock, start.Add(m.clock), []capability.Capability{other{}, m})
			m.clock += 250 * time.Millisecond
			synctest.Wait()
		}
		for range 12 {
			turn()
		}
		if r.Lost() != 1 {
			t.Errorf("%d lost before it runs, want the third of three", r.Lost())
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		for range 12 {
			turn()
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		p, found, err := h.Of("a", Kept, 1)
		if !found || err != nil || len(p.Times) != 5 || r.Lost() != 1 {
			t.Fatalf("%+v, %d lost: %v", p, r.Lost(), err)
		}
		for i, v := range p.Workloads[0].Used[1:] {
			if v != 1 {
				t.Errorf("sample %d: %v CPUs", i+1, v)
			}
		}
	})
}
