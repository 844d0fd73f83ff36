package memapi

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Put creates or replaces an object without any checks. resource is the path without a namespace, as in
// "/apis/berth.dev/v1alpha1/nodetopologies". JSON must be able to encode the object.
func (s *Server) Put(resource, namespace, name string, object any) error {
	data, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", resource, name, err)
	}
	var o Object
	if err := json.Unmarshal(data, &o); err != nil {
		return fmt.Errorf("decode %s %s: %w", resource, name, err)
	}
	if text(o, "apiVersion") == "" {
		o["apiVersion"] = version(resource)
	}
	if text(o, "kind") == "" {
		o["kind"] = kind(resource)
	}
	o = withMeta(o, "name", name)
	delete(child(o, "metadata"), "resourceVersion")
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.insert(request{resource: resource, namespace: namespace, name: name}, o)
	return nil
}

// Remove deletes an object immediately, without any checks.
func (s *Server) Remove(resource, namespace, name string) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.remove(resource, namespace+"/"+name)
}

// All decodes a consistent snapshot of a resource's objects into the slice that out points to.
func (s *Server) All(resource string, out any) error {
	s.store.mu.Lock()
	objects := s.store.list(resource, func(Object) bool { return true })
	s.store.mu.Unlock()
	data, err := json.Marshal(objects)
	if err != nil {
		return fmt.Errorf("encode %s: %w", resource, err)
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("decode %s: %w", resource, err)
	}
	return nil
}

// Pods returns a consistent snapshot of all pods. Later calls return the same pods, so callers must not change them.
func (s *Server) Pods() ([]*v1.Pod, error) {
	s.store.mu.Lock()
	objects := s.store.list(pods, func(Object) bool { return true })
	s.store.mu.Unlock()
	s.decoding.Lock()
	defer s.decoding.Unlock()
	known := make(map[string]*v1.Pod, len(objects))
	out := make([]*v1.Pod, 0, len(objects))
	for _, o := range objects {
		version := text(o, "metadata", "resourceVersion") // unique among all objects
		pod := s.decoded[version]
		if pod == nil {
			pod = &v1.Pod{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, pod); err != nil {
				return nil, fmt.Errorf("decode pod %s: %w", text(o, "metadata", "name"), err)
			}
		}
		known[version] = pod
		out = append(out, pod)
	}
	s.decoded = known
	return out, nil
}
