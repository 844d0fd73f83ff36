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
	b := &boundWatch{pods: client.Resource(v1.SchemeGroupVersion.WithResource("pods")).Namespace("bench"), version: "5"}
	if err := b.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	event := func(kind watch.EventType, version string) watch.Event {
		return watch.Event{Type: kind, Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}}
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
