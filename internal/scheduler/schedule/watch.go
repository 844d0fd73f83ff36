package schedule

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-project/berth/internal/node/apiclient"
)

const (
	// firstLists is how long the start waits for NodeTopologies and Leases.
	firstLists = 10 * time.Second
	// listPoll is how often the start checks for them.
	listPoll = 5 * time.Millisecond
)

// watchOwn follows the NodeTopologies and the Leases, which the scheduler's own informers do not, and waits some time
// for the first lists. Without these lists ordinary pods would get CPUs that pinned pods hide, and pinned pods would be
// refused at every start. It does not wait for a type that does not exist or may not be read.
func (c *core) watchOwn(ctx context.Context, topologies cache.ListerWatcher) error {
	bounded, cancel := context.WithTimeout(ctx, firstLists)
	defer cancel()
	var waits []func() bool
	if topologies != nil {
		unreadable, give := context.WithCancel(bounded)
		defer give()
		listed, err := c.machines.watchTopologies(topologies, give)
		if err != nil {
			return err
		}
		waits = append(waits, func() bool { return wait(unreadable, listed) })
	}
	if c.agents.staleAfter > 0 {
		unreadable, give := context.WithCancel(bounded)
		defer give()
		listed, err := c.agents.watchLeases(give)
		if err != nil {
			return err
		}
		waits = append(waits, func() bool { return wait(unreadable, listed) })
	}
	for _, done := range waits {
		done()
	}
	return nil
}

// wait waits until done returns true or ctx ends, and reports whether done did.
func wait(ctx context.Context, done func() bool) bool {
	for !done() {
		if !apiclient.Pause(ctx, listPoll) {
			return false
		}
	}
	return true
}

// background runs work beside the cycles until the scheduler ends.
type background struct {
	// ctx ends all that work.
	ctx context.Context
	log klog.Logger
}

// spawn runs f until it returns; it must return when ctx ends.
func (b *background) spawn(f func(context.Context)) { go f(b.ctx) }

// watch starts an informer and returns a function that reports whether its handler saw the first list. If the type does
// not exist or may not be read, watch logs that once, calls unreadable, and retries.
func (b *background) watch(informer cache.SharedIndexInformer, what string, unreadable func(), handler cache.ResourceEventHandler) (func() bool, error) {
	var once sync.Once
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		once.Do(func() {
			b.log.Error(err, "Pods that ask for exclusive CPUs wait, all others do not", "unreadable", what)
			unreadable()
		})
	})
	if err != nil {
		return nil, watchError(what, err)
	}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return nil, watchError(what, err)
	}
	b.spawn(informer.RunWithContext)
	return registration.HasSynced, nil
}

// handler calls changed for objects of type T that are new, with a zero value as the old object, or that changed, and
// gone for the last known state of deleted objects.
func handler[T any](changed func(old, now T), gone func(T)) cache.ResourceEventHandler {
	update := func(before, object any) {
		old, _ := before.(T)
		if now, ok := object.(T); ok {
			changed(old, now)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { update(nil, object) },
		UpdateFunc: update,
		DeleteFunc: func(object any) {
			if unseen, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unseen.Obj
			}
			if last, ok := object.(T); ok {
				gone(last)
			}
		},
	}
}
