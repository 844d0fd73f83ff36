package cluster

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// BenchmarkChange measures one change of one of 250 pods, from the watch to the snapshot.
func BenchmarkChange(b *testing.B) {
	c, err := New(Options{Config: &rest.Config{Host: "https://127.0.0.1:1"}, Node: "n", Identity: "i"})
	if err != nil {
		b.Fatal(err)
	}
	pod := func(i, version int) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), ResourceVersion: fmt.Sprint(version),
				Annotations: map[string]string{"koordinator.sh/cpuBurst": fmt.Sprint(version)},
			},
			Spec: v1.PodSpec{Containers: make([]v1.Container, 2)},
		}
	}
	list := make([]any, 250)
	for i := range list {
		list[i] = pod(i, 1)
	}
	if err := c.watches.pods.Replace(list, "1"); err != nil {
		b.Fatal(err)
	}
	c.link.watched(time.Now(), nil)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := c.watches.pods.Update(pod(i%250, i+2)); err != nil {
			b.Fatal(err)
		}
		before := c.Snapshot()
		c.make(time.Now())
		if c.Snapshot() == before {
			b.Fatal("no new snapshot")
		}
	}
}
