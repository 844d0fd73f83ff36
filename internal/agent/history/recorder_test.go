package history

import (
	"context"
	"math"
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

// host is a capability that knows the use of the node, and has a workload while it is busy.
type host struct {
	meter
	busy bool
}

func (h *host) Record(add func(capability.Moment)) {
	add(capability.Moment{Used: unit.CPUTime(h.clock), At: h.clock})
	if h.busy {
		h.meter.Record(add)
	}
}

// TestRecorderAtRest checks that without workloads one hand-over has several samples. With the first workload the ring
// gets all of them, as if each had been handed over at once.
func TestRecorderAtRest(t *testing.T) {
	h := New(Options{})
	r, m := NewRecorder(h), &host{meter: meter{clock: time.Hour}}
	seconds := func(n int) (handed int) {
		for range n {
			r.Record(m.clock, start.Add(m.clock), []capability.Capability{other{}, m})
			m.clock += time.Second
			for len(r.filled) > 0 { // as Run does
				handed++
				b := <-r.filled
				r.add(b)
				r.spare <- b[:0]
			}
		}
		return handed
	}
	for _, c := range []struct {
		what    string
		busy    bool
		seconds int
		handed  int
		unheard int // samples that the ring does not have yet
	}{
		{what: "an hour at rest", seconds: 3600, handed: 360},
		{what: "a while", seconds: 5, handed: 0, unheard: 5},
		{what: "the first workload", busy: true, seconds: 1, handed: 1},
		{what: "more of it", busy: true, seconds: 60, handed: 60},
		{what: "its end", seconds: 1, handed: 1},
		{what: "at rest again", seconds: 25, handed: 2, unheard: 5},
	} {
		m.busy = c.busy
		if handed := seconds(c.seconds); handed != c.handed {
			t.Errorf("%s: %d times in %d seconds, want %d", c.what, handed, c.seconds, c.handed)
		}
		p, err := h.Recent(Kept)
		if err != nil {
			t.Fatal(err)
		}
		last := start.Add(m.clock - time.Duration(1+c.unheard)*time.Second).UnixMilli()
		if n := len(p.Times); n < 600 || p.Times[n-1] != last {
			t.Errorf("%s: %d samples, the last of %d, want %d", c.what, n, p.Times[n-1], last)
		}
		for i := 1; i < len(p.Times); i++ {
			if p.Times[i]-p.Times[i-1] != time.Second.Milliseconds() || p.Node[i] != 1 {
				t.Fatalf("%s: sample %d of %d, %v CPUs, after %d", c.what, i, p.Times[i], p.Node[i], p.Times[i-1])
			}
		}
	}
	p, found, err := h.Of("a", Kept, 1)
	if !found || err != nil {
		t.Fatalf("no workload: %v", err)
	}
	known := 0
	for _, v := range p.Workloads[0].Limit {
		if !math.IsNaN(v) {
			known++
		}
	}
	if known != 61 || r.Lost() != 0 {
		t.Errorf("%d samples of the workload, want 61; %d lost", known, r.Lost())
	}
}

// TestRecorderEndsWithTheRest checks that Run adds the samples that wait when it ends.
func TestRecorderEndsWithTheRest(t *testing.T) {
	h := New(Options{})
	r, m := NewRecorder(h), &host{meter: meter{clock: time.Hour}}
	const samples = mostHeld + 3 // a list for Run, and a list that waits
	for range samples {
		r.Record(m.clock, start.Add(m.clock), []capability.Capability{m})
		m.clock += time.Second
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(ctx); err != nil {
		t.Error(err)
	}
	if p, err := h.Recent(Kept); err != nil || len(p.Times) != samples || r.Lost() != 0 {
		t.Errorf("%d samples, %d lost: %v", len(p.Times), r.Lost(), err)
	}
}
