package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-project/berth/api/v1alpha1"
)

type runtimeObject = runtime.Object

func conflict() error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "n", nil)
}

func unavailable() error { return apierrors.NewServiceUnavailable("starting") }

func annotatorOf(client *fake.Clientset, held func() bool) *annotator {
	return &annotator{
		pods: func(namespace string) podPatcher { return client.CoreV1().Pods(namespace) },
		held: held, log: silent(), wake: make(chan struct{}, 1), desired: map[note]*desired{},
	}
}

// TestAnnotationRetries checks that the last value is written once the API server accepts it, and not for a deleted
// pod.
func TestAnnotationRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}})
		var down atomic.Bool
		down.Store(true)
		failing(client, "patch", "pods", func() error {
			if down.Load() {
				return unavailable()
			}
			return nil
		})
		a := annotatorOf(client, always)
		defer start(t, a.run)()
		web := Object{"shop", "web", "u"}
		for i := range 3 {
			value := fmt.Sprint(i)
			a.want(web, "berth.dev/placement", &value)
		}
		a.want(Object{"shop", "gone", "g"}, "berth.dev/placement", nil)
		a.want(Object{"shop", "static", ""}, "berth.dev/placement", nil)
		time.Sleep(10 * time.Minute)
		if tries := requests(client, "patch", "pods"); tries < 10 || tries > 60 {
			t.Errorf("%d requests in 10 minutes", tries)
		}
		down.Store(false)
		time.Sleep(2 * retryMax)
		pod, err := client.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || pod.Annotations["berth.dev/placement"] != "2" {
			t.Errorf("annotations %v: %v", pod.Annotations, err)
		}
		tries := requests(client, "patch", "pods")
		time.Sleep(time.Hour)
		synctest.Wait()
		if more := requests(client, "patch", "pods") - tries; more > 0 || len(a.desired) > 0 {
			t.Errorf("%d more requests, desired %v", more, a.desired)
		}
	})
}

// TestMoveStandsUntilPlaced checks the order of writes: first a pod's placement, however often that fails, and then its
// move. Otherwise a scheduler would use the old placement without the move.
func TestMoveStandsUntilPlaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pods []runtimeObject
		for i := range 16 { // map iteration is random: one pod might be right by chance
			pods = append(pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), Annotations: map[string]string{
				v1alpha1.AnnotationPlacement: "old", v1alpha1.AnnotationMove: "stands",
			}}})
		}
		client := fake.NewClientset(pods...)
		var down atomic.Bool
		down.Store(true)
		client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtimeObject, error) {
			patch, _ := action.(clienttesting.PatchAction)
			if down.Load() && strings.Contains(string(patch.GetPatch()), v1alpha1.AnnotationPlacement) {
				return true, nil, unavailable()
			}
			return false, nil, nil
		})
		a := annotatorOf(client, always)
		placed := "new"
		for i := range pods {
			pod := Object{"shop", fmt.Sprint(i), fmt.Sprint(i)}
			a.want(pod, v1alpha1.AnnotationMove, nil)
			a.want(pod, v1alpha1.AnnotationPlacement, &placed)
		}
		defer start(t, a.run)()
		look := func(when, placement, move string) {
			t.Helper()
			for i := range pods {
				pod, err := client.CoreV1().Pods("shop").Get(t.Context(), fmt.Sprint(i), metav1.GetOptions{})
				if err != nil || pod.Annotations[v1alpha1.AnnotationPlacement] != placement || pod.Annotations[v1alpha1.AnnotationMove] != move {
					t.Errorf("%s: annotations %v: %v", when, pod.Annotations, err)
				}
			}
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		look("while the placement cannot be written", "old", "stands")
		if tries := requests(client, "patch", "pods"); tries > 60*len(pods) {
			t.Errorf("%d requests in 10 minutes", tries)
		}
		down.Store(false)
		time.Sleep(2 * retryMax)
		synctest.Wait()
		look("then", "new", "")
		if len(a.desired) > 0 {
			t.Errorf("desired %v", a.desired)
		}
	})
}

// TestAnnotationForm checks the form of the patch, on which the admission policy and the API server's check of the UID
// rely.
func TestAnnotationForm(t *testing.T) {
	client := fake.NewClientset(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}})
	text := "{}"
	if err := annotatorOf(client, always).write(t.Context(), note{Object{"shop", "web", "u"}, "k"}, &text); err != nil {
		t.Fatal(err)
	}
	patch, ok := client.Actions()[0].(clienttesting.PatchAction)
	if !ok || patch.GetSubresource() != "status" || string(patch.GetPatch()) != `{"metadata":{"annotations":{"k":"{}"},"uid":"u"}}` {
		t.Errorf("request %+v", client.Actions()[0])
	}
}

// TestNotTheAgentOfTheNode checks that an agent without the node's Lease writes nothing until it has the Lease.
func TestNotTheAgentOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var held atomic.Bool
		a := annotatorOf(client, held.Load)
		defer start(t, a.run)()
		a.want(Object{"shop", "web", "u"}, "k", nil)
		time.Sleep(time.Hour)
		if n := len(client.Actions()); n > 0 {
			t.Errorf("%d requests", n)
		}
		held.Store(true)
		a.wake.Soon()
		synctest.Wait()
		if n := len(client.Actions()); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

func posterOf(client *fake.Clientset) *poster {
	t := newPoster(func(namespace string) eventWriter { return client.EventsV1().Events(namespace) }, "n", silent())
	t.uid = func() string { return "node-uid" }
	return t
}

// TestEventCounted checks that repeated events become one event with a count.
func TestEventCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		poster := posterOf(client)
		defer start(t, poster.run)()
		e := Event{On: Object{"shop", "web", "u"}, Reason: "CPUBurstLimited", Text: "x"}
		for range 100 {
			poster.add(e)
			time.Sleep(6 * time.Second) // Ten minutes in all.
		}
		made, counted := requests(client, "create", "events"), requests(client, "patch", "events")
		if made != 1 || counted < 5 || counted > 10 {
			t.Errorf("%d events, counted %d times", made, counted)
		}
		list, err := client.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || list.Items[0].Series == nil || list.Items[0].Series.Count < 90 {
			t.Errorf("events %+v: %v", list.Items, err)
		}
		time.Sleep(sameFor + countEvery)
		poster.add(e)
		synctest.Wait()
		if made := requests(client, "create", "events"); made != 2 {
			t.Errorf("%d events after a long while, want 2", made)
		}
	})
}

// TestEventOfATopic checks that events of a topic become one event despite different numbers in their texts, and that
// the event shows the latest text.
func TestEventOfATopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		poster := posterOf(client)
		defer start(t, poster.run)()
		e := Event{On: Object{"shop", "web", "u"}, Reason: "CPUBurstLimited", Topic: "web/app guard"}
		for i := range 100 {
			e.Text = fmt.Sprint(i)
			poster.add(e)
			time.Sleep(6 * time.Second) // Ten minutes in all.
		}
		if made, counted := requests(client, "create", "events"), requests(client, "patch", "events"); made != 1 || counted < 5 {
			t.Errorf("%d events, counted %d times", made, counted)
		}
		poster.add(e)
		synctest.Wait()
		list, err := client.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 2 || list.Items[1].Note != "99" {
			t.Errorf("events %+v: %v", list.Items, err)
		}
		e.Topic = "web/beside guard"
		poster.add(e)
		synctest.Wait()
		if made := requests(client, "create", "events"); made != 3 {
			t.Errorf("%d events with one of another topic, want 3", made)
		}
	})
}

// TestEventOfATopicWaitsOnce checks that events of a topic leave room in the queue for other events while the API
// server is down.
func TestEventOfATopicWaitsOnce(t *testing.T) {
	poster := posterOf(fake.NewClientset())
	e := Event{On: Object{"shop", "web", "u"}, Reason: "CPUBurstLimited", Topic: "web/app guard"}
	for i := range 2 * maxQueue {
		e.Text = fmt.Sprint(i)
		poster.add(e)
	}
	poster.add(Event{On: e.On, Reason: e.Reason, Text: "of no topic"})
	if q := poster.queue; len(q) != 2 || q[0].Text != fmt.Sprint(2*maxQueue-1) || poster.dropped != 0 {
		t.Errorf("%d wait: %+v; %d were dropped", len(q), q, poster.dropped)
	}
}

// TestEventsWhileAway checks that events wait while the API server is down, up to a limit, and that nothing else is
// lost.
func TestEventsWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var down atomic.Bool
		down.Store(true)
		failing(client, "create", "events", func() error {
			if down.Load() {
				return unavailable()
			}
			return nil
		})
		poster := posterOf(client)
		defer start(t, poster.run)()
		for i := range 2 * maxQueue {
			poster.add(Event{On: Object{"shop", fmt.Sprint(i), fmt.Sprint(i)}, Reason: "CPUPinned", Text: "x"})
		}
		time.Sleep(time.Hour)
		if tries := requests(client, "create", "events"); tries > 100 {
			t.Errorf("%d requests in an hour", tries)
		}
		down.Store(false)
		time.Sleep(10 * time.Minute)
		list, err := client.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) < nodeBurst || len(list.Items) > maxQueue {
			t.Errorf("%d events: %v", len(list.Items), err)
		}
	})
}

// TestEventFits checks that events respect the API server's length limits.
func TestEventFits(t *testing.T) {
	long := make([]byte, 253)
	for i := range long {
		long[i] = 'n'
	}
	poster := posterOf(fake.NewClientset())
	poster.node = string(long)
	for _, on := range []Object{{}, {"shop", string(long), "u"}} {
		e := poster.event(Event{On: on, Reason: "r"}, time.Now())
		if len(e.Name) > 253 || len(e.ReportingInstance) > maxAuthor || e.Action == "" {
			t.Errorf("event %+v", e)
		}
	}
	poster.add(Event{Text: string(make([]byte, 4096))})
	if got := poster.queue[0].Text; len(got) != 1024 {
		t.Errorf("a text of %d bytes", len(got))
	}
	if text, err := json.Marshal(eventsv1.EventSeries{Count: 1}); err != nil || len(text) == 0 {
		t.Error(err)
	}
}

func TestBackoff(t *testing.T) {
	for failures, least := range map[int]time.Duration{0: retryFirst, 1: retryFirst, 2: 2 * retryFirst, 7: retryMax, 1 << 30: retryMax} {
		if got := backoff(failures); got < least || got > least*3/2 {
			t.Errorf("backoff(%d) = %v, want %v and up to half of it more", failures, got, least)
		}
	}
}

// TestEventsOfOnePod checks that events of a pod are limited per reason, and the node's events in total.
func TestEventsOfOnePod(t *testing.T) {
	poster, now := posterOf(fake.NewClientset()), time.Unix(0, 0)
	allowed := map[string]int{}
	for range 100 {
		for _, reason := range []string{"CPUPinned", "CPUBurstLimited"} {
			if poster.allowed(now, Event{On: Object{"shop", "web", "u"}, Reason: reason}) {
				allowed[reason]++
			}
		}
		now = now.Add(6 * time.Second)
	}
	// Five at once, and nine within ten minutes.
	if diff := cmp.Diff(map[string]int{"CPUPinned": 14, "CPUBurstLimited": 14}, allowed); diff != "" {
		t.Error(diff)
	}
	poster.forget(now)
	if len(poster.texts) != 2 {
		t.Error("a limit in use is forgotten")
	}
	poster.forget(now.Add(textBurst * textPause))
	if len(poster.texts) != 0 {
		t.Errorf("%d limits are kept that limit nothing", len(poster.texts))
	}
	of, now := 0, now.Add(time.Hour)
	for i := range 2 * nodeBurst {
		if poster.allowed(now, Event{On: Object{"shop", fmt.Sprint(i), fmt.Sprint(i)}, Reason: "CPUPinned"}) {
			of++
		}
	}
	if of != nodeBurst {
		t.Errorf("%d events of the node at once, want %d", of, nodeBurst)
	}
}
