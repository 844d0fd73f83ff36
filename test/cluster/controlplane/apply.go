package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	// fieldManager owns the fields that Apply sets.
	fieldManager = "berth-controlplane"
	// kindLimit is how long Apply waits until a kind that a document defined is served.
	kindLimit = 2 * time.Minute
	// kindDefinition is the kind of documents that define kinds.
	kindDefinition = "CustomResourceDefinition"
)

// Apply creates or updates the objects of YAML documents, in their order, as the
// administrator. See [Apply].
func (c *ControlPlane) Apply(ctx context.Context, documents ...[]byte) error {
	return Apply(ctx, c.Config(), documents...)
}

// Apply creates or updates the objects of YAML documents, in their order, by server-side apply, as the user of the
// configuration. Each argument may contain several documents. An object without a namespace goes into "default". After
// a CustomResourceDefinition, Apply waits until the API server serves the new kind. Apply stops at the first error,
// which names the object and wraps the API server's answer.
func Apply(ctx context.Context, config *rest.Config, documents ...[]byte) error {
	objects, err := read(documents)
	if err != nil {
		return err
	}
	a, err := newApplier(config)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := a.apply(ctx, object); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// read splits YAML documents and leaves out the empty ones.
func read(documents [][]byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, document := range documents {
		reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(document)))
		for {
			part, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrManifest, err)
			}
			object, err := parse(part)
			if err != nil {
				return nil, err
			}
			if object != nil {
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}

// parse reads one document. It returns nil for a document that contains only comments.
func parse(document []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(document, &object.Object); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if len(object.Object) == 0 {
		return nil, nil
	}
	if object.GetKind() == "" || object.GetName() == "" {
		return nil, fmt.Errorf("%w: no kind or no metadata.name in %q", ErrManifest, document)
	}
	return object, nil
}

// applier applies objects of any kind the server knows.
type applier struct {
	client dynamic.Interface
	kinds  *restmapper.DeferredDiscoveryRESTMapper
}

func newApplier(config *rest.Config) (*applier, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for manifests: %w", err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for kinds: %w", err)
	}
	return &applier{client: client, kinds: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))}, nil
}

func (a *applier) apply(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := a.mapping(ctx, kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = a.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		resource = a.client.Resource(mapping.Resource).Namespace(namespace)
	}
	_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil || kind.Kind != kindDefinition {
		return err // The caller names the object.
	}
	return a.served(ctx, object)
}

// served waits until the server serves the kind that a definition defines.
func (a *applier) served(ctx context.Context, definition *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	_, err := a.mapping(ctx, schema.GroupKind{Group: group, Kind: kind})
	return err
}

// mapping finds the resource of a kind. The server serves a kind only some time after its definition was created, and
// answers 404 until then.
func (a *applier) mapping(ctx context.Context, kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	deadline := time.Now().Add(kindLimit)
	for {
		mapping, err := a.kinds.RESTMapping(kind, versions...)
		if !meta.IsNoMatchError(err) || time.Now().After(deadline) {
			return mapping, err // The caller names the object.
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err() // The caller names the object.
		case <-time.After(pollEvery):
			a.kinds.Reset()
		}
	}
}
