package cluster

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/apiclient"
)

func lesseeOf(client leaseClient, identity string) *lessee {
	return &lessee{client: client, name: "n", identity: identity, link: newLink(time.Now()), owner: noOwner, changed: func() {}}
}

func leaseOf(holder string) *coordinationv1.Lease {
	now, seconds := metav1.NowMicro(), int32(leaseSeconds)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "n"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now, LeaseDurationSeconds: &seconds},
	}
}

// holder returns the holder of the Lease.
func holder(t *testing.T, client leaseClient) string {
	t.Helper()
	lease, err := client.Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return *lease.Spec.HolderIdentity
}

// TestLeaseOfTheDead checks that the Lease of a dead agent is acquired, but not before it has expired by this host's
// clock, because the other host's clock may be years off.
func TestLeaseOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := leaseOf("dead")
		dead.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().AddDate(-1, 0, 0)}
		client := fake.NewClientset(dead).CoordinationV1().Leases("berth-system")
		l := lesseeOf(client, "new")
		defer start(t, l.run)()
		time.Sleep(leaseSeconds*time.Second - time.Second)
		if got := l.current(); got.Held || got.Other != "dead" {
			t.Errorf("before it ran out: %+v", got)
		}
		time.Sleep(2 * watchOther)
		if got := l.current(); !got.Held || got.Other != "" || holder(t, client) != "new" {
			t.Errorf("after it ran out: %+v", got)
		}
	})
}

// TestLeaseOfTheLiving checks that the Lease of a running agent is never acquired by another agent, and is acquired at
// once when it is released.
func TestLeaseOfTheLiving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset().CoordinationV1().Leases("berth-system")
		first, second := lesseeOf(client, "first"), lesseeOf(client, "second")
		stop := start(t, first.run)
		time.Sleep(time.Second)
		defer start(t, second.run)()
		time.Sleep(10*time.Minute + 100*time.Millisecond) // the second agent checks at whole seconds
		if !first.current().Held || second.current().Held || second.current().Other != "first" {
			t.Errorf("first %+v, second %+v", first.current(), second.current())
		}
		renewed := first.current().Renewed
		if time.Since(renewed) > renewEvery+time.Second {
			t.Errorf("last renewed %v ago", time.Since(renewed))
		}
		stop()
		lease, err := client.Get(t.Context(), "n", metav1.GetOptions{})
		if err != nil || !lease.Spec.RenewTime.Time.Equal(renewed) {
			t.Errorf("giving it back looks like a renewal: %+v, %v", lease, err)
		}
		time.Sleep(watchOther + time.Second)
		if !second.current().Held || holder(t, client) != "second" {
			t.Errorf("second %+v", second.current())
		}
	})
}

// TestLeaseCostsFewWrites checks that 10,000 agents renew with at most 170 writes per second. Each renewal must reach
// the scheduler in time even if the previous renewal failed.
func TestLeaseCostsFewWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := fake.NewClientset()
		writes := 0
		failing(clients, "update", "leases", func() error {
			writes++
			return nil
		})
		defer start(t, lesseeOf(clients.CoordinationV1().Leases("berth-system"), "n").run)()
		time.Sleep(time.Hour)
		synctest.Wait()
		if a := float64(writes) * 10_000 / time.Hour.Seconds(); a > 170 || writes == 0 {
			t.Errorf("%d renewals an hour: %.0f writes a second of 10,000 agents", writes, a)
		}
		if late := 2*renewEvery + renewLimit; late >= v1alpha1.DefaultStaleAfterSeconds*time.Second {
			t.Errorf("after one failure the renewal comes after %v", late)
		}
	})
}

// TestLeaseOfAClockSetBack checks that the Lease is renewed in time when the node's clock is set back by an hour.
func TestLeaseOfAClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := fake.NewClientset()
		writes := 0
		failing(clients, "update", "leases", func() error {
			writes++
			return nil
		})
		l := lesseeOf(clients.CoordinationV1().Leases("berth-system"), "n")
		defer start(t, l.run)()
		time.Sleep(time.Second)
		synctest.Wait()
		l.set(Lease{Held: true, Renewed: time.Now().Add(time.Hour)})
		time.Sleep(apiclient.LeaseQuiet)
		synctest.Wait()
		if writes == 0 {
			t.Errorf("not renewed for %v", apiclient.LeaseQuiet)
		}
	})
}

// TestLeaseGivenBack checks a Lease that another agent with the same identity released, such as a crashed agent that
// came back. The running agent must acquire it again at its next check, not at the next renewal.
func TestLeaseGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset().CoordinationV1().Leases("berth-system")
		first, twin := lesseeOf(client, "first"), lesseeOf(client, "first")
		defer start(t, first.run)()
		time.Sleep(time.Second)
		stop := start(t, twin.run)
		time.Sleep(time.Second)
		stop()
		if got := holder(t, client); got != "" {
			t.Fatalf("holder %q after it was given back", got)
		}
		time.Sleep(lookEvery + 2*renewRetry)
		if got := holder(t, client); got != "first" || !first.current().Held {
			t.Errorf("holder %q, state %+v", got, first.current())
		}
	})
}

// TestLeaseTaken checks that an agent whose Lease another agent acquired stops being the node's agent.
func TestLeaseTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := fake.NewClientset()
		client := clients.CoordinationV1().Leases("berth-system")
		l := lesseeOf(client, "mine")
		var taken atomic.Bool
		failing(clients, "update", "leases", func() error {
			if taken.CompareAndSwap(true, false) {
				return conflict()
			}
			return nil
		})
		defer start(t, l.run)()
		time.Sleep(time.Second)
		if err := clients.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), leaseOf("thief"), "berth-system"); err != nil {
			t.Fatal(err)
		}
		taken.Store(true)
		time.Sleep(renewEvery + 2*renewRetry)
		if got := l.current(); got.Held || got.Other != "thief" {
			t.Errorf("state %+v", got)
		}
	})
}

// TestLeaseWhileAway checks that there is no event about a lost Lease while the API server is down, and that the link
// learns of the outage within seconds.
func TestLeaseWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := fake.NewClientset()
		l := lesseeOf(clients.CoordinationV1().Leases("berth-system"), "mine")
		l.link.watched(time.Now(), nil)
		var away atomic.Bool
		failing(clients, "*", "leases", func() error {
			if away.Load() {
				return context.DeadlineExceeded
			}
			return nil
		})
		defer start(t, l.run)()
		time.Sleep(time.Second)
		away.Store(true)
		time.Sleep(renewEvery + grace + 2*renewRetry)
		if since, err := l.link.away(time.Now(), grace); since.IsZero() || err == nil || !l.current().Held {
			t.Errorf("since %v: %v, %+v", since, err, l.current())
		}
		away.Store(false)
		time.Sleep(2 * renewRetry)
		if since, _ := l.link.away(time.Now(), 0); !since.IsZero() || !l.current().Held {
			t.Errorf("since %v, %+v", since, l.current())
		}
	})
}
