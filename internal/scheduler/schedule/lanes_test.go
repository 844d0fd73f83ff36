package schedule

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// occupy returns lanes with as many bindings under way as permitted. They do not end by themselves.
func occupy() lanes {
	l := newLanes()
	for range senders {
		l.sends <- struct{}{}
	}
	return l
}

// A pinned pod waits while as many bindings as permitted are under way. If the scheduler ends before, nothing was sent,
// and no CPUs stay held for the pod.
func TestBindingsTakeTurns(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 4)
		a := c.reserve(c.filter(pod))
		c.plugin.core.lanes = occupy()
		ended, end := context.WithCancel(c.ctx)
		end()
		if status := c.plugin.Bind(ended, a.state, pod, a.node); status.IsSuccess() || c.requests != 0 {
			t.Fatalf("the pod was sent beside %d bindings", senders)
		}
		if _, ambiguous := c.plugin.core.flights.size(); ambiguous != 0 {
			t.Errorf("%d ambiguous binds, want none", ambiguous)
		}
		done := make(chan bool, 1)
		go func() { done <- c.plugin.Bind(c.ctx, a.state, pod, a.node).IsSuccess() }()
		synctest.Wait()
		if c.requests != 0 {
			t.Fatal("the pod did not wait")
		}
		<-c.plugin.core.lanes.sends
		synctest.Wait()
		if len(done) == 0 || !<-done {
			t.Error("the pod was not bound after its wait")
		}
		if under := len(c.plugin.core.lanes.sends); under != senders-1 {
			t.Errorf("%d bindings under way, want %d", under, senders-1)
		}
	})
}

// Pinned pods whose bindings hang do not stop an ordinary pod, also where the plugin binds it.
func TestOrdinaryPodsTakeNoTurns(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.ordinary("o", "4")
		o := c.reserve(c.filter(pod))
		c.plugin.core.lanes = occupy()
		ctx, cancel := context.WithCancel(c.ctx)
		done := make(chan bool, 1)
		go func() { done <- c.plugin.Bind(ctx, o.state, pod, o.node).IsSuccess() }()
		synctest.Wait()
		if len(done) == 0 {
			t.Error("the pod waited")
		}
		cancel()
		if !<-done {
			t.Error("the pod was not bound")
		}
		if c.requests != 1 {
			t.Errorf("%d bindings sent by the plugin, want 1", c.requests)
		}
	})
}

// A binding that hangs gives up its turn, once, also if it ends later.
func TestHungBindingGivesUpItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes()
		leaves := make([]func(), senders)
		for i := range leaves {
			leave, err := l.enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leaves[i] = leave
		}
		began := time.Now()
		leave, err := l.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != longestTurn {
			t.Errorf("the next binding waited %v, want %v", waited, longestTurn)
		}
		synctest.Wait()
		for _, hung := range leaves {
			hung()
		}
		if under := len(l.sends); under != 1 {
			t.Errorf("%d turns are taken, want 1", under)
		}
		leave()
		time.Sleep(2 * longestTurn)
		if under := len(l.sends); under != 0 {
			t.Errorf("%d turns are taken, want none", under)
		}
	})
}
