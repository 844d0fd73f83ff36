package memapi_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-project/berth/cmd/berth-scheduler/internal/memapi"
	"github.com/berth-project/berth/test/patience"
)

func start(t *testing.T) (*memapi.Server, *kubernetes.Clientset) {
	t.Helper()
	s := memapi.Start()
	t.Cleanup(s.Close)
	c, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func create(t *testing.T, c *kubernetes.Clientset, name string) *v1.Pod {
	t.Helper()
	p, err := c.CoreV1().Pods("default").Create(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func binding(p *v1.Pod, node string) *v1.Binding {
	return &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID, Annotations: map[string]string{"k": node}},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}
}

// TestBinding checks that the server binds a pod only once and only with the pod's own UID, and that the pod gets the
// annotations of the binding.
func TestBinding(t *testing.T) {
	_, c := start(t)
	pods := c.CoreV1().Pods("default")
	p := create(t, c, "a")
	other := p.DeepCopy()
	other.UID = "another"
	if err := pods.Bind(t.Context(), binding(other, "n0"), metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Fatalf("binding with another UID: %v, want a conflict", err)
	}
	if err := pods.Bind(t.Context(), binding(p, "n1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pods.Bind(t.Context(), binding(p, "n2"), metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Fatalf("second binding: %v, want a conflict", err)
	}
	got, err := pods.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Spec.NodeName != "n1" || got.Annotations["k"] != "n1" {
		t.Fatalf("bound to %q with %v, want n1 twice", got.Spec.NodeName, got.Annotations)
	}
}

// TestFaults checks that the client sees an error for every fault, and that only LostAfter and TimeoutAfter bind the
// pod.
func TestFaults(t *testing.T) {
	for fault := memapi.Refused; fault <= memapi.TimeoutAfter; fault++ {
		s, c := start(t)
		s.FailBinds(func(string, string) memapi.Fault { return fault })
		p := create(t, c, "a")
		pods := c.CoreV1().Pods("default")
		if err := pods.Bind(t.Context(), binding(p, "n0"), metav1.CreateOptions{}); err == nil {
			t.Fatalf("fault %d: the client saw none", fault)
		}
		got, err := pods.Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		applied := fault == memapi.LostAfter || fault == memapi.TimeoutAfter
		if (got.Spec.NodeName != "") != applied {
			t.Fatalf("fault %d: bound to %q, applied should be %v", fault, got.Spec.NodeName, applied)
		}
	}
}

// TestLate checks that a Late binding takes effect after its client gave up, unless the pod was bound in between.
func TestLate(t *testing.T) {
	s, c := start(t)
	pods := c.CoreV1().Pods("default")
	for name, want := range map[string]string{"a": "late", "b": "second"} {
		s.FailBinds(func(string, string) memapi.Fault { return memapi.Late })
		p := create(t, c, name)
		if err := pods.Bind(t.Context(), binding(p, "late"), metav1.CreateOptions{}); err == nil {
			t.Fatal("the client saw no fault")
		}
		s.FailBinds(nil)
		if want == "second" {
			if err := pods.Bind(t.Context(), binding(p, want), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(200 * time.Millisecond) // The late binding may arrive now, and must not win.
		err := patience.Until(t.Context(), time.Millisecond, func() string {
			if got, err := pods.Get(t.Context(), name, metav1.GetOptions{}); err != nil || got.Spec.NodeName != want {
				return fmt.Sprintf("%s is bound to %q (%v), want %q", name, got.Spec.NodeName, err, want)
			}
			return ""
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestWatch checks that a watch with a field selector reports an object as deleted when it no longer matches, and that
// an informer catches up after the server was away.
func TestWatch(t *testing.T) {
	s, c := start(t)
	create(t, c, "a")
	live := fields.ParseSelectorOrDie("status.phase!=Succeeded")
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(c.CoreV1().RESTClient(), "pods", "default", live),
		ObjectType:    &v1.Pod{},
		Handler:       cache.ResourceEventHandlerFuncs{},
	})
	go informer.RunWithContext(t.Context())
	expect := func(n int) {
		t.Helper()
		err := patience.Until(t.Context(), time.Millisecond, func() string {
			if holds := len(store.List()); holds != n {
				return fmt.Sprintf("the informer holds %d pods, want %d", holds, n)
			}
			return ""
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	expect(1)
	b := create(t, c, "b")
	expect(2)
	b.Status.Phase = v1.PodSucceeded
	if _, err := c.CoreV1().Pods("default").UpdateStatus(t.Context(), b, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(1)
	s.Away(true)
	s.Away(false)
	create(t, c, "d")
	expect(2)
}

// TestAbsentAndReap checks that an absent resource is a 404, and that a deleted bound pod stays until Reap removes it.
func TestAbsentAndReap(t *testing.T) {
	s, c := start(t)
	s.Absent("/api/v1/pods", true)
	if _, err := c.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("an absent resource: %v, want not found", err)
	}
	s.Absent("/api/v1/pods", false)
	s.KeepTerminating(true)
	p := create(t, c, "a")
	pods := c.CoreV1().Pods("default")
	w, err := pods.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if err := pods.Bind(t.Context(), binding(p, "n0"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pods.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := s.Reap(); n != 1 {
		t.Fatalf("%d pods were terminating, want 1", n)
	}
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Modified, watch.Deleted} {
		if e := <-w.ResultChan(); e.Type != want {
			t.Fatalf("event %v, want %v", e.Type, want)
		}
	}
}

// TestForgets checks that the server drops old changes and old events. A watch from a dropped version expires; a watch
// that keeps up misses nothing.
func TestForgets(t *testing.T) {
	s, c := start(t)
	pods := c.CoreV1().Pods("default")
	first := create(t, c, "first")
	now, err := pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: first.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer now.Stop()
	const rounds, each = 12, 1000 // of changes that the watch reads
	for round := range rounds {
		for i := range each {
			name := fmt.Sprintf("e-%d", round*each+i)
			if err := s.Put("/apis/events.k8s.io/v1/events", "default", name, map[string]any{"reason": "Some"}); err != nil {
				t.Fatal(err)
			}
			if err := s.Put("/api/v1/pods", "default", "last", &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "last", Labels: map[string]string{"i": name}}}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range each {
			e, open := <-now.ResultChan()
			if p, is := e.Object.(*v1.Pod); !open || !is || p.Labels["i"] != fmt.Sprintf("e-%d", round*each+i) {
				t.Fatalf("change %d of round %d: %+v", i, round, e)
			}
		}
	}
	if _, err := pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: first.ResourceVersion}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from long ago: %v, want that it is expired", err)
	}
	var events []map[string]any
	if err := s.All("/apis/events.k8s.io/v1/events", &events); err != nil || len(events) < 5000 || len(events) > 10_000 {
		t.Errorf("%d events: %v", len(events), err)
	}
	if _, err := pods.Get(t.Context(), "first", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
