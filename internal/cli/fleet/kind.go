package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-project/berth/internal/node/apiclient"
)

// kind contains the objects of one kind, as the API server last reported them.
type kind struct {
	cache.Store

	what    string
	from    *cache.ListWatch
	example runtime.Object
	// first is closed at the first answer.
	first chan struct{}

	mu sync.Mutex
	// heard is the time of the last list; listing and watching are the results of the last list and watch.
	heard             time.Time
	answered          bool
	listing, watching error
}

func newKind(what string, from *cache.ListWatch, example runtime.Object) *kind {
	return &kind{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), what: what, from: from, example: example, first: make(chan struct{})}
}

// follow lists the objects once and then watches them, until ctx ends. problem reports failures.
func (k *kind) follow(ctx context.Context) {
	apiclient.Follower{Source: k.from, Example: k.example, ListsFirst: true, Ended: func(ctx context.Context, watched bool, err error) error {
		last := &k.listing
		if watched {
			last = &k.watching
		}
		if ctx.Err() == nil {
			k.ended(last, err)
		}
		return err
	}}.Into(ctx, k)
}

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
func (*kind) Transformer() cache.TransformFunc { return apiclient.Slim }

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
