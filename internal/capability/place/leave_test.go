package place_test

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/observed"
)

// leaving returns a full node whose pod old is deleted at the API server but still runs.
func leaving(t *testing.T) *place.Node {
	n := full(t)
	n.Now(0)
	n.Pods.Drop("old")
	return n
}

// next returns the pod to which the scheduler gave CPUs of old.
func next() workload.Pod { return placed(pod("next", 2, app("app", 2)), "app", "1,9", "0") }

func TestWaitsForPodThatLeaves(t *testing.T) {
	for _, strength := range []string{"preferred", "required"} {
		t.Run(strength, func(t *testing.T) {
			n := leaving(t)
			n.Pods.Put(with(next(), v1alpha1.AnnotationResourceSpec, `{"`+strength+`CPUBindPolicy":"FullPCPUs"}`))
			equal(t, "events before a container is created", events(n), "")
			n.Pods.Observe(observed.Container{ID: "box", PodUID: "next", Sandbox: true, Phase: observed.Running})
			for _, seconds := range []int{0, 10, 29} {
				n.Now(time.Duration(seconds) * time.Second)
				_, err := n.Create("next", "app", "c")
				if !errors.Is(err, place.ErrRefused) {
					t.Fatalf("after %d s: %v", seconds, err)
				}
				holds(t, "error", err.Error(), "free once its containers are")
			}
			equal(t, "events while it waits", events(n), "")
			n.Pods.RemovePod("old")
			equal(t, "its claim as soon as they are free", n.Pool().String(), "0,2-8,10-15")
			equal(t, "own", show(create(t, n, "next", "app").Own), "next/app 1,9!")
			equal(t, "events in the end", events(n), "")
		})
	}
}

func TestWaitsNotForLong(t *testing.T) {
	n := leaving(t)
	n.Pods.Put(next())
	for _, seconds := range []int{100, 129} {
		n.Now(time.Duration(seconds) * time.Second)
		if _, err := n.Create("next", "app", "next/app"); !errors.Is(err, place.ErrRefused) {
			t.Fatalf("at %d s: %v", seconds, err)
		}
	}
	n.Now(130 * time.Second)
	equal(t, "own", show(start(t, n, "next", "app").Own), "next/app 7,11,15")
	holds(t, "events", events(n), "next PlacementRefused: the placement cannot be followed", "; it runs in the shared pool\nnext [removed]")
	// A second container is not made to wait again.
	n.Pods.Observe(observed.Container{ID: "next/app", PodUID: "next", Name: "app", Phase: observed.Stopped})
	if _, err := n.Create("next", "app", "again"); err != nil {
		t.Error(err)
	}
}

func TestWaitsForNoOtherPod(t *testing.T) {
	tests := []struct {
		name string
		node func() *place.Node
		own  string
	}{
		{"no pod leaves", func() *place.Node { return full(t) }, "next/app 7,11,15"},
		{"who leaves has too few", func() *place.Node {
			n := full(t)
			n.Pods.Put(placed(pod("small", 3, app("app", 1)), "app", "11", "0"))
			start(t, n, "small", "app")
			n.Pods.Drop("small")
			return n
		}, "next/app 7,15"},
		{"a container of the pod is made", func() *place.Node {
			n := full(t)
			n.Pods.Put(next())
			start(t, n, "next", "app")
			n.Pods.Drop("old")
			return n
		}, "next/app 7,11,15"},
		{"others are free", func() *place.Node {
			n := place.New(two().facts(t))
			n.Pods.Put(placed(pod("old", 1, app("x", 2)), "x", "1,9", "0"))
			start(t, n, "old", "x")
			n.Pods.Drop("old")
			return n
		}, "next/app 0,8!"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := test.node()
			n.Pods.Put(next())
			equal(t, "own", show(create(t, n, "next", "app").Own), test.own)
		})
	}
}

// A container of a deleted pod whose CPUs all went offline runs on shared CPUs. None of them becomes its own.
func TestLeavesWithoutCPUs(t *testing.T) {
	n := place.New(shut(t, "0"))
	n.Pods.Observe(observed.Container{ID: "gone/app", PodUID: "gone", Name: "app", Phase: observed.Running, CPUs: set(t, "1-15"), Given: set(t, "0"), Pinned: true})
	n.Pods.Put(placed(pod("a", 1, app("app", 1)), "app", "1", "0"))
	start(t, n, "a", "app")
	equal(t, "desired", has(n), "a/app 1!; gone/app 2-15")

	ended := placed(pod("ended", 0, app("app", 1)), "app", "0", "0")
	ended.Ended = true
	n.Pods.Put(ended)
	n.Pods.Observe(observed.Container{ID: "ended/app", PodUID: "ended", Name: "app", Phase: observed.Running, CPUs: set(t, "1-15"), Given: set(t, "0"), Pinned: true})
	equal(t, "desired", has(n), "a/app 1!; ended/app 2-15; gone/app 2-15")
}

// The kernel may show more CPUs than Berth assigned: all of those went offline below a small parent group, or another
// program wrote the list. The additional CPUs do not become the container's own.
func TestRunsOnOthersThanGiven(t *testing.T) {
	for _, c := range []struct{ name, offline, cpus, given, want string }{
		{"offline, below a group of few", "0,8", "1-3", "0,8", "a/app 1!; gone/app 2-7,9-15"},
		{"written by another program", "", "0-3", "2-3", "a/app 1!; gone/app 0,2-15"},
		{"one of two offline", "2", "3", "2-3", "a/app 1!; gone/app 3!"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := place.New(shut(t, c.offline))
			n.Pods.Observe(observed.Container{ID: "gone/app", PodUID: "gone", Name: "app", Phase: observed.Running, CPUs: set(t, c.cpus), Given: set(t, c.given), Pinned: true})
			n.Pods.Put(placed(pod("a", 1, app("app", 1)), "app", "1", "0"))
			start(t, n, "a", "app")
			equal(t, "desired", has(n), c.want)
		})
	}
}
