package cluster

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-project/berth/internal/node/apiclient"
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
func (s *store[T]) Transformer() cache.TransformFunc { return apiclient.Slim }

// retriedBlindly reports whether the Reflector would sleep after err even if its context ends. After other errors, the
// end of the context ends the pause.
func retriedBlindly(err error) bool {
	return utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err)
}

// follow copies the objects of source into s until ctx ends. ended is called with the result of each request.
func follow[T any](ctx context.Context, source *cache.ListWatch, s *store[T], example runtime.Object, ended func(error)) {
	apiclient.Follower{Source: source, Example: example, Ended: func(_ context.Context, watched bool, err error) error {
		ended(err)
		if watched && err != nil && retriedBlindly(err) {
			return fmt.Errorf("%w: %s", errWatch, err.Error())
		}
		return err
	}}.Into(ctx, s)
}
