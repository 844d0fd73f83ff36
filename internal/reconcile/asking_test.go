package reconcile

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
)

// slowUnits is a systemd that takes its time for each unit.
type slowUnits struct {
	*unitHost

	takes time.Duration
}

func (u slowUnits) SetList(unit string, k cgroup.Knob, v cgroup.Value) error {
	time.Sleep(u.takes)
	return u.unitHost.SetList(unit, k, v)
}

// TestAskingBesidePasses: passes go on each second however long systemd takes; each unit is asked for
// once, and its answer counts in a pass that began after it.
func TestAskingBesidePasses(t *testing.T) {
	for _, takes := range []time.Duration{0, 40 * time.Millisecond, time.Second, 1500 * time.Millisecond, 7 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newUnitHost(t, "a.scope", "b.scope", "c.scope")
				h.open(slowUnits{h, takes})
				var lock sync.Mutex
				began := time.Now()
				asking := NewAsking(h.reconciler, h.later, &lock, func() time.Duration { return time.Since(began) })
				woken := make(chan struct{}, 1)
				ctx, cancel := context.WithCancel(t.Context())
				var run sync.WaitGroup
				run.Go(func() { asking.Run(ctx, func() { woken <- struct{}{} }) })
				h.reconciler.Want(Of(Group{Group: "a.scope", CPUs: set("0")}, Group{Group: "b.scope", CPUs: set("0")}, Group{Group: "c.scope", CPUs: set("0")}))
				var last Report
				passes := 0
				for time.Since(began) < 25*time.Second {
					asking.Begin()
					lock.Lock()
					last, _ = h.reconciler.Pass(time.Since(began))
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
