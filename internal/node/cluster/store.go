package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// store holds the objects of a watch, reduced to the fields that Berth needs. A cache.Reflector writes to it: no queue,
// no index, no second copy.
type store[T any] struct {
	// reduce converts an object to a value. It has no side effects.
	reduce func(object any) (key string, value T, ok bool)
	// wake is called after each change.
	wake func()
	// lost is called with each removed value; nil for none.
	lost func(T)

	mu     sync.Mutex
	items  map[string]T
	listed bool
}

// all returns the values, in no order, and whether the API server was ever listed successfully.
func (s *store[T]) all() (values []T, listed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values = make([]T, 0, len(s.items))
	for _, value := range s.items {
		values = append(values, value)
	}
	return values, s.listed
}

// setListed ends the wait for a list: objects that may not be read are treated as missing.
func (s *store[T]) setListed() {
	s.mu.Lock()
	changed := !s.listed
	s.listed = true
	s.mu.Unlock()
	if changed {
		s.wake()
	}
}

// Add adds or replaces an object.
func (s *store[T]) Add(object any) error {
	key, value, ok := s.reduce(object)
	if !ok {
		return nil
	}
	s.mu.Lock()
	if s.items == nil {
		s.items = map[string]T{}
	}
	s.items[key] = value
	s.mu.Unlock()
	s.wake()
	return nil
}

// Update replaces an object.
func (s *store[T]) Update(object any) error { return s.Add(object) }

// Delete removes an object.
func (s *store[T]) Delete(object any) error {
	key, value, ok := s.reduce(object)
	if !ok {
		return nil
	}
	s.mu.Lock()
	delete(s.items, key)
	s.mu.Unlock()
	if s.lost != nil {
		s.lost(value)
	}
	s.wake()
	return nil
}

// Replace replaces all objects by those of a list.
func (s *store[T]) Replace(objects []any, _ string) error {
	items := make(map[string]T, len(objects))
	for _, object := range objects {
		if key, value, ok := s.reduce(object); ok {
			items[key] = value
		}
	}
	s.mu.Lock()
	old := s.items
	s.items, s.listed = items, true
	s.mu.Unlock()
	if s.lost != nil {
		for key, value := range old {
			if _, still := items[key]; !still {
				s.lost(value)
			}
		}
	}
	s.wake()
	return nil
}

// Resync does nothing: no caller needs it.
func (*store[T]) Resync() error { return nil }

// Transformer shrinks large objects before the Reflector collects them.
func (s *store[T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		dropFat(object)
		return object, nil
	}
}

// dropFat removes the managed fields, which no code here reads.
func dropFat(object any) {
	if o, ok := object.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
}

// Retries of a watch start soon and then slow down, to spare an API server that many nodes reach at once when it
// returns.
const (
	watchRetry    = 500 * time.Millisecond
	watchRetryMax = 10 * time.Second
	watchReset    = time.Minute
)

// lister lists and watches the objects of one kind and one field selector.
type lister struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// ended is called with the result of each request.
	ended func(error)
	// client tells the Reflector whether it can stream a list.
	client any
}

// retriedBlindly reports whether the Reflector would sleep after err even if its context ends. After other errors, the
// end of the context ends the pause.
func retriedBlindly(err error) bool {
	return utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err)
}

// follow copies the objects that l lists into s until ctx ends.
func follow[T any](ctx context.Context, l lister, s *store[T], example runtime.Object, selector string) {
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			list, err := l.list(ctx, options)
			l.ended(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			w, err := l.watch(ctx, options)
			l.ended(err)
			if err != nil && retriedBlindly(err) {
				return nil, fmt.Errorf("%w: %s", errWatch, err.Error())
			}
			return w, err
		},
	}, l.client)
	cache.NewReflectorWithOptions(source, example, s, cache.ReflectorOptions{
		Backoff: &wait.Backoff{Duration: watchRetry, Cap: watchRetryMax, Steps: 100, Factor: 2, Jitter: 1},
	}).RunWithContext(klog.NewContext(ctx, klog.Logger{})) // ended logs it once, klog every time.
}
