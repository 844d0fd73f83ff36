package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/apiclient"
)

// publishing is a publisher that a loop calls every second, and its counting server.
type publishing struct {
	t      *testing.T
	server *counted
	*publisher
	// wakes counts the steps of the publisher.
	wakes  atomic.Int64
	free   int64
	online v1alpha1.CPUList
}

// newPublishing returns a publisher that runs until stop is called, with a NodeTopology that it has written.
func newPublishing(t *testing.T) (p *publishing, stop func()) {
	t.Helper()
	p = &publishing{t: t, server: &counted{objects: map[string]map[string]any{}, asked: map[string]int{}}, free: 1, online: "0-3"}
	client, err := apiclient.NewTopologies(&rest.Config{Host: "http://api", Transport: p.server})
	if err != nil {
		t.Fatal(err)
	}
	p.publisher = &publisher{client: client, name: "n", owner: noOwner, log: silent(), wake: make(chan struct{}, 1)}
	p.held = func() bool {
		p.wakes.Add(1)
		return true
	}
	stop = start(t, func(ctx context.Context) { p.run(ctx) })
	p.loop(2 * verifyEvery)
	p.expect("at the start", 1, 0, 1)
	return p, stop
}

// loop publishes the same state every second, each time in new memory, and returns how often the publisher woke.
func (p *publishing) loop(d time.Duration) (wakes int64) {
	before := p.wakes.Load()
	for end := time.Now().Add(d); time.Now().Before(end); {
		status := &v1alpha1.NodeTopologyStatus{FreeCPUs: p.free}
		status.SetCondition("Ready", true, "Measured", "")
		p.publish(&v1alpha1.NodeTopologySpec{Online: p.online}, status)
		time.Sleep(time.Second)
		synctest.Wait()
	}
	return p.wakes.Load() - before
}

// expect checks how many objects, specs and statuses were written since the last call.
func (p *publishing) expect(when string, objects, specs, statuses int) {
	p.t.Helper()
	asked, _ := p.server.take()
	got := [...]int{asked["POST nodetopologies"], asked["PUT nodetopologies"], asked["PUT n"]}
	if got != [...]int{objects, specs, statuses} {
		p.t.Errorf("%s: %v objects, specs and statuses written, want %v", when, got, [...]int{objects, specs, statuses})
	}
}

// TestPublisherWakesOnNews checks that a publisher whose loop publishes every second sleeps until there is news, or
// until a check of the object is due. No news waits longer than without such sleep.
func TestPublisherWakesOnNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := newPublishing(t)
		if wakes := p.loop(10 * verifyEvery); wakes != 10 {
			t.Errorf("it woke %d times in %v without news", wakes, 10*verifyEvery)
		}
		p.expect("without news", 0, 0, 0)

		p.free++
		if wakes := p.loop(time.Second); wakes != 1 {
			t.Errorf("it woke %d times for news", wakes)
		}
		p.expect("a change", 0, 0, 1)
		p.free++
		if wakes := p.loop(statusEvery - 2*time.Second); wakes != 1 {
			t.Errorf("it woke %d times for news that must wait", wakes)
		}
		p.expect("a change soon after a write", 0, 0, 0)
		p.loop(2 * time.Second)
		p.expect("that change, when it is due", 0, 0, 1)

		p.free++
		p.loop(time.Second)
		p.free--
		p.loop(statusEvery)
		p.expect("a change that was taken back before it was due", 0, 0, 0)

		p.online = "0-1"
		p.loop(time.Second)
		p.expect("another machine", 0, 1, 0)
		stop()
	})
}

// TestPublisherWithoutMachine checks that conditions without a machine change the conditions of a NodeTopology and
// nothing else, and that they never create one.
func TestPublisherWithoutMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := newPublishing(t)
		unread := &v1alpha1.NodeTopologyStatus{}
		unread.SetCondition("Ready", false, "Topology", "no CPUs")
		p.publish(nil, unread)
		time.Sleep(2 * verifyEvery)
		synctest.Wait()
		p.expect("without a machine", 0, 0, 1)
		live := p.live
		if ready := live.Status.Conditions[0]; len(live.Status.Conditions) != 1 || ready.Status != "False" || live.Spec.Online != p.online || live.Status.FreeCPUs != p.free {
			t.Errorf("written: %+v, CPUs %s", live.Status, live.Spec.Online)
		}
		p.server.mu.Lock()
		clear(p.server.objects)
		p.server.mu.Unlock()
		time.Sleep(2 * verifyEvery)
		synctest.Wait()
		p.expect("without a NodeTopology", 0, 0, 0)
		p.loop(time.Second)
		p.expect("with a machine", 1, 0, 1)
		stop()
	})
}

// TestPublisherFailing checks that news while the API server fails wakes the publisher, but waits for the next try.
func TestPublisherFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := newPublishing(t)
		p.server.set(errors.New("unplugged"))
		p.free++
		p.loop(10 * time.Minute)
		p.free++
		wakes := p.loop(10 * time.Minute)
		if wakes < 6 || wakes > 12 {
			t.Errorf("it woke %d times in ten minutes of failures", wakes)
		}
		p.server.set(nil)
		p.loop(2 * retryMax)
		p.expect("once the server answers", 0, 0, 1)
		if status := p.live.Status; status.FreeCPUs != p.free {
			t.Errorf("written: %d free CPUs, want %d", status.FreeCPUs, p.free)
		}
		stop()
	})
}
