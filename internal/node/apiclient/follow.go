package apiclient

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// The pause after a failure is short at first and then longer, to spare an API server that many nodes reach at once
// when it returns. FollowRetryMax is the longest pause without its jitter.
const (
	followRetry    = 500 * time.Millisecond
	FollowRetryMax = 10 * time.Second
)

// Follower lists the objects of one kind, and then watches them.
type Follower struct {
	Source *cache.ListWatch
	// Example is an object of the kind.
	Example runtime.Object
	// ListsFirst has the server send a list, not a stream of objects: a user without that right gets an error about the
	// list, not about a watch.
	ListsFirst bool
	// Ended gets the result of each list or watch, and returns the error that decides about the next request.
	Ended func(ctx context.Context, watched bool, err error) error
}

// SourceOf returns the source of the objects that a field selector selects.
func SourceOf[O object, L runtime.Object](k *Kind[O, L], selector string) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return k.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return k.Watch(ctx, o)
		},
	}
}

// Into copies the objects to store until ctx ends.
func (f Follower) Into(ctx context.Context, store cache.ReflectorStore) {
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := f.Source.ListWithContext(ctx, o)
			return list, f.Ended(ctx, false, err)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := f.Source.WatchWithContext(ctx, o)
			return w, f.Ended(ctx, true, err)
		},
	}, listsFirst(f.ListsFirst))
	cache.NewReflectorWithOptions(source, f.Example, store, cache.ReflectorOptions{
		Backoff: &wait.Backoff{Duration: followRetry, Cap: FollowRetryMax, Steps: 100, Factor: 2, Jitter: 1},
	}).RunWithContext(klog.NewContext(ctx, klog.Logger{})) // Ended reports failures; klog would repeat them.
}

// listsFirst is Follower.ListsFirst for client-go.
type listsFirst bool

// IsWatchListSemanticsUnSupported implements client-go's interface.
func (l listsFirst) IsWatchListSemanticsUnSupported() bool { return bool(l) }

// Slim removes the managed fields of an object, which no code of Berth reads, before they fill memory.
func Slim(object any) (any, error) {
	if o, ok := object.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return object, nil
}
