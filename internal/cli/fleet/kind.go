package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// The pause after a failure is short at first, and then longer to spare the API server.
const (
	retry    = 500 * time.Millisecond
	retryMax = 10 * time.Second
)

// source lists and watches objects.
type source interface {
	ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error)
	WatchWithContext(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// client is a kind of package apiclient.
type client[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// sourceOf returns the source of a client's objects that a field selector selects.
func sourceOf[L runtime.Object](c client[L], selector string) source {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return c.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return c.Watch(ctx, o)
		},
	}
}

// kind contains the objects of one kind, as the API server last reported them.
type kind struct {
	cache.Store

	what    string
	from    source
	example runtime.Object
	// first is closed at the first answer.
	first chan struct{}

	mu sync.Mutex
	// heard is the time of the last list; listing and watching are the results of the last list and watch.
	heard             time.Time
	answered          bool
	listing, watching error
}

func newKind(what string, from source, example runtime.Object) *kind {
	return &kind{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), what: what, from: from, example: example, first: make(chan struct{})}
}

// follow lists the objects once and then watches them, until ctx ends.
func (k *kind) follow(ctx context.Context) {
	from := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := k.from.ListWithContext(ctx, o)
			if ctx.Err() == nil {
				k.ended(&k.listing, err)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := k.from.WatchWithContext(ctx, o)
			if ctx.Err() == nil {
				k.ended(&k.watching, err)
			}
			return w, err
		},
	}, listsFirst{})
	cache.NewReflectorWithOptions(from, k.example, k, cache.ReflectorOptions{
		Backoff: &wait.Backoff{Duration: retry, Cap: retryMax, Steps: 100, Factor: 2, Jitter: 1},
	}).RunWithContext(klog.NewContext(ctx, klog.Logger{})) // problem reports failures
}

// listsFirst makes a Reflector list: a user without that right gets an error about the list, not about a watch.
type listsFirst struct{}

// IsWatchListSemanticsUnSupported implements client-go's interface.
func (listsFirst) IsWatchListSemanticsUnSupported() bool { return true }

// Replace replaces all objects by those of a list.
func (k *kind) Replace(objects []any, version string) error {
	if err := k.Store.Replace(objects, version); err != nil {
		return err //nolint:wrapcheck // the Reflector's own store
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heard = time.Now()
	k.answer()
	return nil
}

// Transformer removes unread data before it fills memory.
func (*kind) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		if o, ok := object.(metav1.Object); ok {
			o.SetManagedFields(nil)
		}
		return object, nil
	}
}

// ended records the result of a request.
func (k *kind) ended(last *error, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if *last = err; err != nil {
		k.answer()
	}
}

// answer records the first answer. The caller holds the mutex.
func (k *kind) answer() {
	if !k.answered {
		k.answered = true
		close(k.first)
	}
}

// failure returns why there is no list, nil if there is one.
func (k *kind) failure() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.heard.IsZero() {
		return nil
	}
	return k.listing
}

// problem reports that the objects may be old, "" if they are followed.
func (k *kind) problem() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := errors.Join(k.listing, k.watching)
	if err == nil || k.heard.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s are those of %s: %v", k.what, k.heard.Format(time.TimeOnly), err)
}

// all returns the objects of a kind.
func all[T any](k *kind) []*T {
	var list []*T
	for _, object := range k.List() {
		if one, ok := object.(*T); ok {
			list = append(list, one)
		}
	}
	return list
}
