// Package apiclient is the connection to an API server for Berth's own kinds and the few of
// Kubernetes that Berth uses, the pauses between requests, and what the server takes as the
// text of an event.
//
// Each client knows the kinds of one group. The clientset of client-go knows all kinds there
// are: that is 10 MB of program, and 5 MB of memory also in an agent that talks to no API server.
package apiclient

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
)

// New returns a client for the kinds of [v1alpha1.GroupVersion]. It speaks JSON whatever the
// configuration says: no custom resource has protobuf, which Kubernetes' own programs ask
// for. The configuration is not changed. Errors are configurations that make no sense: the
// server is not asked yet. A client may be used by several goroutines.
func New(config *rest.Config) (rest.Interface, error) {
	own := rest.CopyConfig(config)
	own.ContentType, own.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	made, err := groupOf(own, v1alpha1.GroupVersion(), v1alpha1.AddToScheme)
	return made.client, err
}

// group is a client for the kinds of one group.
type group struct {
	client rest.Interface
	// options writes the options of a request as its query.
	options runtime.ParameterCodec
}

// kubernetesGroup returns a client for kinds of Kubernetes that add makes known. It speaks
// protobuf where the server does. The configuration is not changed.
func kubernetesGroup(config *rest.Config, version schema.GroupVersion, add func(*runtime.Scheme) error) (group, error) {
	own := rest.CopyConfig(config)
	own.ContentType = runtime.ContentTypeProtobuf
	own.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return groupOf(own, version, add)
}

// groupOf returns a client for the kinds that add makes known, which speaks as config says.
// The configuration is not changed.
func groupOf(config *rest.Config, version schema.GroupVersion, add func(*runtime.Scheme) error) (group, error) {
	scheme := runtime.NewScheme()
	if err := add(scheme); err != nil {
		return group{}, fmt.Errorf("make %s known: %w", version, err)
	}
	own := rest.CopyConfig(config)
	own.GroupVersion, own.APIPath = &version, "/apis"
	if version.Group == "" {
		own.APIPath = "/api"
	}
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return group{}, fmt.Errorf("client for %s: %w", version, err)
	}
	return group{client, runtime.NewParameterCodec(scheme)}, nil
}
