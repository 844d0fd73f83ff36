package reconcile

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// slowUnits is a systemd that needs the given time for each unit.
type slowUnits struct {
	*unitHost

	takes time.Duration
}

func (u slowUnits) SetList(unit string, k cgroup.Knob, v cgroup.Value) error {
	time.Sleep(u.takes)
	return u.unitHost.SetList(unit, k, v)
}

// TestAskingBesidePasses: passes continue every second however slow systemd is. Each unit is asked for once, and its
// answer takes effect in a pass that began after it.
func TestAskingBesidePasses(t *testing.T) {
	for _, takes := range []time.Duration{0, 40 * time.Millisecond, time.Second, 1500 * time.Millisecond, 7 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newUnitHost(t, "a.scope", "b.scope", "c.scope")
				h.open(slowUnits{h, takes})
				var lock sync.Mutex
				began := time.Now()
				asking := systemd.NewAsking(h.reconciler, h.later, &lock, func() time.Duration { return time.Since(began) })
				woken := make(chan struct{}, 1)
				ctx, cancel := context.WithCancel(t.Context())
				var run sync.WaitGroup
				run.Go(func() {
					asking.Run(ctx, func() {
						select {
						case woken <- struct{}{}:
						default:
						}
					})
				})
				h.reconciler.Want(Of(Group{Group: "a.scope", CPUs: set("0")}, Group{Group: "b.scope", CPUs: set("0")}, Group{Group: "c.scope", CPUs: set("0")}))
				var last Report
				passes := 0
				for time.Since(began) < 25*time.Second {
					asking.Begin()
					lock.Lock()
					if !asking.IsAsking() {
						last, _ = h.reconciler.Pass(time.Since(began))
					}
					lock.Unlock()
					asking.End()
					passes++
					select {
					case <-woken:
					case <-time.After(time.Second):
					}
				}
				cancel()
				run.Wait()
				slices.Sort(h.calls)
				h.asked("a.scope 0", "b.scope 0", "c.scope 0")
				if states(last) != "applied applied applied" || len(last.Errors) > 0 || passes < 25 {
					t.Errorf("after %d passes: %s, %v", passes, states(last), last.Errors)
				}
			})
		})
	}
}

// TestAskingOverAChange: the desired value changes while systemd still works on the previous one. Systemd is then asked
// for the new value, and its late write does not count as another program's.
func TestAskingOverAChange(t *testing.T) {
	for name, then := range map[string][]Group{
		"another list":   {{Group: "a.scope", CPUs: set("1")}},
		"nothing at all": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newUnitHost(t, "a.scope")
				h.open(slowUnits{h, 1500 * time.Millisecond})
				var lock sync.Mutex
				began := time.Now()
				asking := systemd.NewAsking(h.reconciler, h.later, &lock, func() time.Duration { return time.Since(began) })
				ctx, cancel := context.WithCancel(t.Context())
				var run sync.WaitGroup
				run.Go(func() { asking.Run(ctx, func() {}) })
				h.reconciler.Want(Of(Group{Group: "a.scope", CPUs: set("0")}))
				var last Report
				var events []Event
				for second := range 20 {
					asking.Begin()
					lock.Lock()
					if !asking.IsAsking() {
						if second > 0 {
							h.reconciler.Want(Of(then...))
						}
						last, _ = h.reconciler.Pass(time.Since(began))
						events = append(events, last.Events...)
					}
					lock.Unlock()
					asking.End()
					time.Sleep(time.Second)
				}
				cancel()
				run.Wait()
				if len(events) > 0 || len(last.Errors) > 0 {
					t.Errorf("events %v, errors %v", events, last.Errors)
				}
				if left := len(h.reconciler.opts.Journal.Entries()); left != len(then) {
					t.Errorf("%d entries, want %d", left, len(then))
				}
				want := []string{"a.scope 0", "a.scope 1"}
				if then == nil {
					want[1] = "a.scope inherit"
				}
				h.asked(want...)
			})
		})
	}
}
