// Package apiclient connects to an API server for Berth's own kinds and the few kinds of Kubernetes that Berth uses. It
// also copies objects to a store as they change, has the pauses between requests, and limits the text of an event to the
// server's maximum.
//
// Each client knows the kinds of one group. The clientset of client-go knows all kinds: that is 10 MB of program, and 5
// MB of memory even in an agent without an API server.
package apiclient

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
)

// Topologies is a client for the NodeTopologies.
type Topologies = Kind[*v1alpha1.NodeTopology, *v1alpha1.NodeTopologyList]

// NewTopologies returns a Topologies. It always uses JSON: custom resources have no protobuf, which the configuration of
// Kubernetes' own programs requests. NewTopologies does not change config. It sends no request, so errors concern only
// the configuration. The client is safe for concurrent use.
func NewTopologies(config *rest.Config) (*Topologies, error) {
	own := rest.CopyConfig(config)
	own.ContentType, own.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	made, err := groupOf(own, v1alpha1.GroupVersion(), v1alpha1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return kindOf[v1alpha1.NodeTopology, v1alpha1.NodeTopologyList](made, v1alpha1.NodeTopologyResource, ""), nil
}

// group is a client for the kinds of one group.
type group struct {
	client rest.Interface
	// options encodes the options of a request as its query.
	options runtime.ParameterCodec
}

// kubernetesGroup returns a client for the kinds of Kubernetes that add registers. It uses protobuf if the server does.
// It does not change config.
func kubernetesGroup(config *rest.Config, version schema.GroupVersion, add func(*runtime.Scheme) error) (group, error) {
	own := rest.CopyConfig(config)
	own.ContentType = runtime.ContentTypeProtobuf
	own.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return groupOf(own, version, add)
}

// groupOf returns a client for the kinds that add registers, with the content types of config. It does not change
// config.
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
