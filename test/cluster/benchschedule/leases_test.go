package main

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestLeasesAreRenewed: each Lease is renewed once a minute, and no second has more than its share of the renewals.
func TestLeasesAreRenewed(t *testing.T) {
	for _, nodes := range []int{1, 20, 240} {
		synctest.Test(t, func(t *testing.T) {
			c := &cluster{}
			client := fake.NewSimpleClientset()
			c.client = client
			for i := range nodes {
				lease := &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Namespace: "agents"}}
				if err := client.Tracker().Add(lease); err != nil {
					t.Fatal(err)
				}
				c.leases = append(c.leases, lease)
			}
			var mu sync.Mutex
			renewals, seconds := map[string]int{}, map[int]int{}
			begin := time.Now()
			client.PrependReactor("update", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
				mu.Lock()
				defer mu.Unlock()
				lease := a.(clienttesting.UpdateAction).GetObject().(*coordination.Lease)
				if !lease.Spec.RenewTime.Time.Equal(time.Now()) {
					t.Errorf("lease %s is renewed to %s", lease.Name, lease.Spec.RenewTime)
				}
				renewals[lease.Name]++
				seconds[int(time.Since(begin)/time.Second)]++
				return false, nil, nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute+30*time.Second)
			defer cancel()
			if err := c.renewLeases(ctx); err != nil {
				t.Fatal(err)
			}
			for i := range nodes {
				// The first renewal comes within two minutes.
				if n := renewals[fmt.Sprint(i)]; n < 3 || n > 5 {
					t.Errorf("%d nodes: node %d: %d renewals in 4.5 minutes", nodes, i, n)
				}
			}
			for second, n := range seconds {
				if most := nodes/60 + 3; n > most {
					t.Errorf("%d nodes: second %d has %d renewals, want at most %d", nodes, second, n, most)
				}
			}
		})
	}
}
