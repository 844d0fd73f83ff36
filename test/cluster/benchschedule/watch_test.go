package main

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestBoundWatchGoesOn ends watches early. The next watch starts at the last seen version, and must report the pods
// that were bound in between.
func TestBoundWatchGoesOn(t *testing.T) {
	client := fake.NewSimpleMetadataClient(fake.NewTestScheme())
	var versions []string
	client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		versions = append(versions, action.(clienttesting.WatchActionImpl).ListOptions.ResourceVersion)
		return true, watch.NewFake(), nil
	})
	b := &boundWatch{from: client.Resource(v1.SchemeGroupVersion.WithResource("pods")), version: "5", pods: map[string]int{}}
	if err := b.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	event := func(kind watch.EventType, version string) watch.Event {
		return watch.Event{Type: kind, Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", ResourceVersion: version}}}
	}
	failure := watch.Event{Type: watch.Error, Object: &metav1.Status{Message: "too slow"}}
	for i, c := range []struct {
		event       watch.Event
		open, bound bool
	}{
		{event(watch.Added, "6"), true, true},
		{event(watch.Modified, "7"), true, false},
		{watch.Event{}, false, false},
		{event(watch.Added, "8"), true, true},
		{failure, true, false},
	} {
		bound, err := b.take(t.Context(), c.event, c.open)
		if err != nil || bound != c.bound {
			t.Errorf("event %d: bound %v, %v", i, bound, err)
		}
	}
	if b.pods["bench"] != 2 {
		t.Errorf("counted %v, want two pods of bench", b.pods)
	}
	if diff := cmp.Diff([]string{"5", "7", "8"}, versions); diff != "" || b.reopened != 2 {
		t.Errorf("reopened %d times, from (-want +got):\n%s", b.reopened, diff)
	}
	var err error
	for range reopenLimit - b.futile {
		if _, err = b.take(t.Context(), failure, true); err != nil {
			t.Fatal(err)
		}
	}
	// A newly bound pod shows that the watch works.
	if _, err = b.take(t.Context(), event(watch.Added, "9"), true); err != nil {
		t.Fatal(err)
	}
	for range reopenLimit {
		if _, err = b.take(t.Context(), failure, true); err != nil {
			t.Fatal(err)
		}
	}
	_, err = b.take(t.Context(), failure, true)
	if !errors.Is(err, ErrSchedule) || b.cause == nil || b.cause.Error() != "too slow" {
		t.Errorf("got %v, because of %v, want ErrSchedule in the end", err, b.cause)
	}
}

// TestBoundWatchCountsSides: two arms are warm when both have a tenth of their pods bound, and done when one has all.
func TestBoundWatchCountsSides(t *testing.T) {
	arms := []scheduleArm{{pods: 40, side: sideOne}, {pods: 40, side: sideTwo}}
	for _, c := range []struct {
		one, two   int
		warm, done bool
	}{
		{0, 0, false, false},
		{39, 3, false, false},
		{3, 39, false, false},
		{4, 4, true, false},
		{39, 39, true, false},
		{40, 4, true, true},
		{4, 40, true, true},
		{40, 3, false, true},
	} {
		b := &boundWatch{pods: map[string]int{"bench-one": c.one, "bench-two": c.two, "bench": 40}}
		if b.warm(arms) != c.warm || b.done(arms) != c.done {
			t.Errorf("%+v: warm %t, done %t", c, b.warm(arms), b.done(arms))
		}
	}
}
