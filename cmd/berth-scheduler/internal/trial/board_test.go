package trial

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
)

// board is a pod informer that a test fills by hand: it calls the handlers in the test's own goroutine.
type board struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

func newBoard() *board {
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return &board{SharedIndexInformer: cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1.Pod{}, 0, byNamespace)}
}

func (b *board) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	b.handlers = append(b.handlers, h)
	return synced{}, nil
}

func (b *board) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return b.AddEventHandler(h)
}

func (b *board) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return b.AddEventHandler(h)
}

func (b *board) Run(<-chan struct{})                 {}
func (b *board) RunWithContext(context.Context)      {}
func (b *board) HasSynced() bool                     { return true }
func (b *board) HasSyncedChecker() cache.DoneChecker { return synced{} }

// show makes all handlers see a change of a pod; old is nil for a new pod, and now for a deleted one.
func (b *board) show(old, now *v1.Pod) error {
	var err error
	if now == nil {
		err = b.GetIndexer().Delete(old)
	} else {
		err = b.GetIndexer().Update(now)
	}
	for _, h := range b.handlers {
		switch {
		case old == nil:
			h.OnAdd(now, false)
		case now == nil:
			h.OnDelete(old)
		default:
			h.OnUpdate(old, now)
		}
	}
	return err
}

// synced is something that is done from the start.
type synced struct{}

func (synced) HasSynced() bool                       { return true }
func (s synced) HasSyncedChecker() cache.DoneChecker { return s }
func (synced) Name() string                          { return "board" }

func (synced) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// podStore is a client whose pods are a function of the test: it carries out bindings, and answers no question.
type podStore struct {
	kubernetes.Interface
	bind func(*v1.Binding) error
	get  error
}

func (s podStore) CoreV1() corev1.CoreV1Interface { return podStoreCore{s.Interface.CoreV1(), s} }

type podStoreCore struct {
	corev1.CoreV1Interface
	store podStore
}

func (c podStoreCore) Pods(namespace string) corev1.PodInterface {
	return podStorePods{c.CoreV1Interface.Pods(namespace), c.store}
}

type podStorePods struct {
	corev1.PodInterface
	store podStore
}

func (p podStorePods) Bind(_ context.Context, b *v1.Binding, _ metav1.CreateOptions) error {
	return p.store.bind(b)
}

func (p podStorePods) Get(context.Context, string, metav1.GetOptions) (*v1.Pod, error) {
	return nil, p.store.get
}
