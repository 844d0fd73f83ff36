package apiclient

import (
	"context"
	"errors"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Core is a client for core kinds of Kubernetes.
type Core struct{ group group }

// NewCore returns a Core. It sends no request, and does not change config.
func NewCore(config *rest.Config) (*Core, error) {
	made, err := kubernetesGroup(config, v1.SchemeGroupVersion, func(scheme *runtime.Scheme) error {
		return errors.Join(v1.AddToScheme(scheme), authenticationv1.AddToScheme(scheme))
	})
	if err != nil {
		return nil, err
	}
	return &Core{made}, nil
}

// Pods returns the client of the pods of a namespace, or of all namespaces if it is empty.
func (c *Core) Pods(namespace string) *Kind[*v1.Pod, *v1.PodList] {
	return kindOf[v1.Pod, v1.PodList](c.group, "pods", namespace)
}

// Nodes returns the client of the nodes.
func (c *Core) Nodes() *Kind[*v1.Node, *v1.NodeList] {
	return kindOf[v1.Node, v1.NodeList](c.group, "nodes", "")
}

// ConfigMaps returns the client of the ConfigMaps of a namespace.
func (c *Core) ConfigMaps(namespace string) *Kind[*v1.ConfigMap, *v1.ConfigMapList] {
	return kindOf[v1.ConfigMap, v1.ConfigMapList](c.group, "configmaps", namespace)
}

// Token requests a token of a service account.
func (c *Core) Token(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	var answer authenticationv1.TokenRequest
	asked := c.group.client.Post().Namespace(namespace).Resource("serviceaccounts").Name(account).SubResource("token").Body(request)
	if err := asked.Do(ctx).Into(&answer); err != nil {
		return nil, err //nolint:wrapcheck // The callers look at its class.
	}
	return &answer, nil
}

// Events is a client for the events of [eventsv1].
type Events struct{ group group }

// NewEvents returns an Events. It sends no request, and does not change config.
func NewEvents(config *rest.Config) (*Events, error) {
	made, err := kubernetesGroup(config, eventsv1.SchemeGroupVersion, eventsv1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &Events{made}, nil
}

// In returns the client of the events of a namespace.
func (e *Events) In(namespace string) *Kind[*eventsv1.Event, *eventsv1.EventList] {
	return kindOf[eventsv1.Event, eventsv1.EventList](e.group, "events", namespace)
}

// NewTokenReviews returns a client that asks who owns a token. It sends no request, and does not change config.
func NewTokenReviews(config *rest.Config) (*Single[*authenticationv1.TokenReview], error) {
	made, err := kubernetesGroup(config, authenticationv1.SchemeGroupVersion, authenticationv1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return singleOf[authenticationv1.TokenReview](made, "tokenreviews", ""), nil
}

// NewAccessReviews returns a client that asks what a user may do. It sends no request, and does not change config.
func NewAccessReviews(config *rest.Config) (*Single[*authorizationv1.SubjectAccessReview], error) {
	made, err := kubernetesGroup(config, authorizationv1.SchemeGroupVersion, authorizationv1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return singleOf[authorizationv1.SubjectAccessReview](made, "subjectaccessreviews", ""), nil
}

// NewLeases returns a client for the Leases of a namespace. It sends no request, and does not change config.
func NewLeases(config *rest.Config, namespace string) (*Kind[*coordinationv1.Lease, *coordinationv1.LeaseList], error) {
	made, err := kubernetesGroup(config, coordinationv1.SchemeGroupVersion, coordinationv1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return kindOf[coordinationv1.Lease, coordinationv1.LeaseList](made, "leases", namespace), nil
}
