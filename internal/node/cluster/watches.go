package cluster

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/node/apiclient"
)

// configMap is the data of one ConfigMap.
type configMap struct {
	name strategy.Name
	data map[string]string
}

// watches are the watches of the API server.
type watches struct {
	client *apiclient.Core
	node   string
	link   *link

	pods       *store[*Pod]
	nodes      *store[Node]
	configMaps map[strategy.Name]*store[configMap]
}

// newWatches returns watches that call wake after each change, and lost for each removed pod.
func newWatches(client *apiclient.Core, node string, l *link, wake func(), lost func(*Pod)) *watches {
	w := &watches{client: client, node: node, link: l, configMaps: map[strategy.Name]*store[configMap]{}}
	w.pods = &store[*Pod]{wake: wake, lost: lost, reduce: func(object any) (string, *Pod, bool) {
		p, ok := object.(*v1.Pod)
		if !ok {
			return "", nil, false
		}
		return string(p.UID), podOf(p, APIServer, node), true
	}}
	w.nodes = &store[Node]{wake: wake, reduce: reduceNode}
	for _, name := range strategy.Names() {
		w.configMaps[name] = &store[configMap]{wake: wake, reduce: func(object any) (string, configMap, bool) {
			c, ok := object.(*v1.ConfigMap)
			if !ok {
				return "", configMap{}, false
			}
			return "", configMap{name, c.Data}, true
		}}
	}
	return w
}

func reduceNode(object any) (string, Node, bool) {
	n, ok := object.(*v1.Node)
	if !ok {
		return "", Node{}, false
	}
	return "", Node{UID: string(n.UID), Labels: n.Labels, AllocatableMilli: n.Status.Allocatable.Cpu().MilliValue()}, true
}

// run follows all objects until ctx ends. spawn starts goroutines.
func (w *watches) run(ctx context.Context, spawn func(func())) {
	spawn(func() { w.followPods(ctx) })
	spawn(func() { w.followNode(ctx) })
	for name, s := range w.configMaps {
		spawn(func() { w.followConfigMap(ctx, name, s) })
	}
}

func (w *watches) followPods(ctx context.Context) {
	source := apiclient.SourceOf(w.client.Pods(metav1.NamespaceAll), fields.OneTermEqualSelector("spec.nodeName", w.node).String())
	follow(ctx, source, w.pods, &v1.Pod{}, func(err error) { w.link.watched(time.Now(), err) })
}

func (w *watches) followNode(ctx context.Context) {
	follow(ctx, apiclient.SourceOf(w.client.Nodes(), byName(w.node)), w.nodes, &v1.Node{}, func(error) {})
}

// followConfigMap follows one ConfigMap by name: the agent's rights cover only these names.
func (w *watches) followConfigMap(ctx context.Context, name strategy.Name, s *store[configMap]) {
	namespace, short := name.Split()
	follow(ctx, apiclient.SourceOf(w.client.ConfigMaps(namespace), byName(short)), s, &v1.ConfigMap{}, func(err error) {
		if apierrors.IsForbidden(err) {
			s.setListed()
		}
	})
}

func byName(name string) string {
	return fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
}

// config returns the ConfigMaps that exist, and whether all were read. Until a ConfigMap was read, its data of before
// is used.
func (w *watches) config(before strategy.Maps) (strategy.Maps, bool) {
	all, read := strategy.Maps{}, true
	for name, s := range w.configMaps {
		values, listed := s.all()
		read = read && listed
		if data, known := before[name]; known && !listed {
			all[name] = data
		}
		for _, value := range values {
			all[name] = value.data
		}
	}
	return all, read
}
