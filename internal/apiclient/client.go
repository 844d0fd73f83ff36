// Package apiclient is the connection to an API server for Berth's own kinds, the pauses
// between requests, and what the server takes as the text of an event.
package apiclient

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
)

// New returns a client for the kinds of [v1alpha1.GroupVersion]. It speaks JSON whatever the
// configuration says: no custom resource has protobuf, which Kubernetes' own programs ask
// for. The configuration is not changed. Errors are configurations that make no sense: the
// server is not asked yet. A client may be used by several goroutines.
func New(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("make %s known: %w", v1alpha1.GroupVersion(), err)
	}
	own, version := rest.CopyConfig(config), v1alpha1.GroupVersion()
	own.GroupVersion, own.APIPath = &version, "/apis"
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	own.ContentType, own.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", version, err)
	}
	return client, nil
}
