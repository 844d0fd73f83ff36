package cluster

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// podsInStore is the API server's prefix for pods in etcd.
const podsInStore = "/registry/pods/"

// journal watches the pods in etcd itself, so that it misses no state while the API server is down. It maintains the
// ledger.
type journal struct {
	mu     sync.Mutex
	ledger *ledger
	pods   map[string]*v1.Pod // The newest state, by namespace/name.
	hook   func(*v1.Pod)      // Called with every state, if not nil.
	err    error
	done   chan struct{}
}

// watchPods starts a journal that ends with the test. It fails the test if a promise was broken.
func (s *stand) watchPods(t *testing.T, l *ledger, hook func(*v1.Pod)) *journal {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Etcd()}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	j := &journal{ledger: l, pods: map[string]*v1.Pod{}, hook: hook, done: make(chan struct{})}
	events := client.Watch(ctx, podsInStore, clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithRev(1))
	go j.run(events)
	t.Cleanup(func() {
		cancel()
		client.Close()
		<-j.done
		j.report(t)
	})
	return j
}

func (j *journal) run(events clientv3.WatchChan) {
	defer close(j.done)
	decoder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	for answer := range events {
		if err := answer.Err(); err != nil && !answer.Canceled {
			j.fail(err)
			return
		}
		for _, event := range answer.Events {
			pod := &v1.Pod{}
			value := event.Kv
			if event.Type == mvccpb.DELETE {
				value = event.PrevKv
			}
			if _, _, err := decoder.Decode(value.Value, nil, pod); err != nil {
				j.fail(fmt.Errorf("decode %s: %w", value.Key, err))
				return
			}
			j.observe(pod, event.Type == mvccpb.DELETE)
		}
	}
}

func (j *journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = err
}

func (j *journal) observe(pod *v1.Pod, deleted bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := pod.Namespace + "/" + pod.Name
	if deleted {
		j.ledger.deleted(pod)
		delete(j.pods, key)
		return
	}
	j.ledger.seen(pod)
	j.pods[key] = pod
	if j.hook != nil {
		j.hook(pod)
	}
}

// each calls f with the newest state of every pod.
func (j *journal) each(f func(*v1.Pod)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, pod := range j.pods {
		f(pod)
	}
}

// count counts the pods for which f returns true.
func (j *journal) count(f func(*v1.Pod) bool) int {
	n := 0
	j.each(func(pod *v1.Pod) {
		if f(pod) {
			n++
		}
	})
	return n
}

// broken returns the broken promises so far.
func (j *journal) broken() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.ledger.faults...)
}

// report fails the test for each broken promise, the first few in full.
func (j *journal) report(t *testing.T) {
	t.Helper()
	if j.err != nil {
		t.Errorf("watch of the store: %v", j.err)
	}
	for i, fault := range j.broken() {
		if i == 20 {
			t.Errorf("and %d more", len(j.broken())-i)
			break
		}
		t.Error(fault)
	}
}

func isBound(pod *v1.Pod) bool { return pod.Spec.NodeName != "" }
