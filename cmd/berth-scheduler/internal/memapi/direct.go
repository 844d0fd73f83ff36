package memapi

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Put stores an object, made or replaced, past all rules: resource is the path
// without a namespace, as in "/apis/berth.dev/v1alpha1/nodetopologies". The
// object is anything that JSON can encode.
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

// Remove drops an object at once, past all rules.
func (s *Server) Remove(resource, namespace, name string) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.remove(resource, namespace+"/"+name)
}

// Pods returns all pods as they are stored now.
func (s *Server) Pods() ([]v1.Pod, error) {
	s.store.mu.Lock()
	objects := s.store.list(pods, func(Object) bool { return true })
	s.store.mu.Unlock()
	data, err := json.Marshal(objects)
	if err != nil {
		return nil, fmt.Errorf("encode pods: %w", err)
	}
	var out []v1.Pod
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("decode pods: %w", err)
	}
	return out, nil
}
