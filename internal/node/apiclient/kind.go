package apiclient

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// object is an object of an API server.
type object interface {
	runtime.Object
	metav1.Object
}

// Single is a client for single objects of one kind, in one namespace or in all. The methods of Single and Kind equal
// those of client-go's typed clients, with the same errors. They replace client-go's gentype, which links the fakes of
// tests into the program.
type Single[O object] struct {
	group
	resource, namespace string
	newObject           func() O
}

// singleOf returns the client of a kind without lists. The namespace is empty for all namespaces, and for
// cluster-scoped kinds.
func singleOf[T any, O interface {
	*T
	object
}](g group, resource, namespace string) *Single[O] {
	return &Single[O]{g, resource, namespace, func() O { return new(T) }}
}

// Kind is a client for the objects of one kind, including their lists.
type Kind[O object, L runtime.Object] struct {
	*Single[O]
	newList func() L
}

// kindOf returns the client of a kind. The namespace is empty for all namespaces, and for cluster-scoped kinds.
func kindOf[T, M any, O interface {
	*T
	object
}, L interface {
	*M
	runtime.Object
}](g group, resource, namespace string) *Kind[O, L] {
	return &Kind[O, L]{singleOf[T, O](g, resource, namespace), func() L { return new(M) }}
}

// Get reads an object.
func (s *Single[O]) Get(ctx context.Context, name string, options metav1.GetOptions) (O, error) {
	return s.do(ctx, s.client.Get().Name(name), &options)
}

// Create creates an object.
func (s *Single[O]) Create(ctx context.Context, object O, options metav1.CreateOptions) (O, error) {
	return s.do(ctx, s.client.Post().Body(object), &options)
}

// Update replaces an object.
func (s *Single[O]) Update(ctx context.Context, object O, options metav1.UpdateOptions) (O, error) {
	return s.do(ctx, s.client.Put().Name(object.GetName()).Body(object), &options)
}

// UpdateStatus replaces the status of an object.
func (s *Single[O]) UpdateStatus(ctx context.Context, object O, options metav1.UpdateOptions) (O, error) {
	return s.do(ctx, s.client.Put().Name(object.GetName()).SubResource("status").Body(object), &options)
}

// Patch changes an object, or a subresource of the object.
//
//nolint:revive // The arguments are those of client-go's clients, which stand in for it in tests.
func (s *Single[O]) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (O, error) {
	return s.do(ctx, s.client.Patch(kind).Name(name).SubResource(subresources...).Body(data), &options)
}

// List reads the objects that the options select.
func (k *Kind[O, L]) List(ctx context.Context, options metav1.ListOptions) (L, error) {
	list := k.newList()
	err := k.listing(&options).Do(ctx).Into(list)
	return list, err //nolint:wrapcheck // The callers look at its class.
}

// Watch follows the objects that the options select.
func (k *Kind[O, L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return k.listing(&options).Watch(ctx) //nolint:wrapcheck // The callers look at its class.
}

// do sends a request for one object and returns the server's answer.
func (s *Single[O]) do(ctx context.Context, request *rest.Request, options runtime.Object) (O, error) {
	answer := s.newObject()
	err := s.at(request, options).Do(ctx).Into(answer)
	return answer, err //nolint:wrapcheck // The callers look at its class.
}

func (k *Kind[O, L]) listing(options *metav1.ListOptions) *rest.Request {
	request := k.at(k.client.Get(), options)
	if options.TimeoutSeconds != nil {
		request.Timeout(time.Duration(*options.TimeoutSeconds) * time.Second)
	}
	return request
}

func (s *Single[O]) at(request *rest.Request, options runtime.Object) *rest.Request {
	return request.NamespaceIfScoped(s.namespace, s.namespace != "").Resource(s.resource).VersionedParams(options, s.options)
}
