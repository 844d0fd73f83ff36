package memapi

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/fields"
)

// Object is one stored object, decoded from JSON. A stored object never changes: every write stores a new Object, so
// that readers need no lock.
type Object = map[string]any

// change is one entry of a resource's history. before is nil for a creation, after is nil for a deletion.
type change struct {
	rv            int64
	key           string
	before, after Object
}

// kept is the minimum number of changes of a resource that a watch can read back.
const kept = 5000

// collection has all objects of one resource and the end of its history, for watches. before is the number of changes
// dropped from the history; forgotten is the resource version of the last dropped change.
type collection struct {
	objects   map[string]Object
	history   []change
	before    int
	forgotten int64
	// passing removes an object together with its last change, as a real server does with old events.
	passing bool
}

// note adds a change, and drops the changes that are too old.
func (c *collection) note(one change) {
	c.history = append(c.history, one)
	if len(c.history) < 2*kept {
		return
	}
	old := c.history[:len(c.history)-kept]
	if c.passing {
		for _, one := range old {
			if text(c.objects[one.key], "metadata", "resourceVersion") == strconv.FormatInt(one.rv, 10) {
				delete(c.objects, one.key)
			}
		}
	}
	c.before, c.forgotten = c.before+len(old), old[len(old)-1].rv
	c.history = slices.Clone(c.history[len(old):])
}

// store has the collections by their path without a namespace, as in "/api/v1/pods". The caller of a method must hold
// the lock.
type store struct {
	mu      sync.Mutex
	changed *sync.Cond
	rv      int64
	uids    int64
	rows    map[string]*collection
}

func newStore() *store {
	s := &store{rows: map[string]*collection{}}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *store) collection(resource string) *collection {
	c := s.rows[resource]
	if c == nil {
		c = &collection{objects: map[string]Object{}, passing: path.Base(resource) == "events"}
		s.rows[resource] = c
	}
	return c
}

// put stores an object under a key and wakes the watches. It returns the stored object.
func (s *store) put(resource, key string, o Object) Object {
	c := s.collection(resource)
	s.rv++
	o = withMeta(o, "resourceVersion", strconv.FormatInt(s.rv, 10))
	before := c.objects[key]
	if before == nil && text(o, "metadata", "uid") == "" {
		s.uids++
		o = withMeta(o, "uid", fmt.Sprintf("uid-%d", s.uids))
	}
	if before != nil {
		o = withMeta(o, "uid", text(before, "metadata", "uid"))
	}
	c.objects[key] = o
	c.note(change{rv: s.rv, key: key, before: before, after: o})
	s.changed.Broadcast()
	return o
}

// remove deletes an object and returns it, nil if there was none.
func (s *store) remove(resource, key string) Object {
	c := s.collection(resource)
	before := c.objects[key]
	if before == nil {
		return nil
	}
	s.rv++
	delete(c.objects, key)
	before = withMeta(before, "resourceVersion", strconv.FormatInt(s.rv, 10))
	c.note(change{rv: s.rv, key: key, before: before})
	s.changed.Broadcast()
	return before
}

// list returns the objects of a resource in the order of their keys.
func (s *store) list(resource string, keep func(Object) bool) []Object {
	c := s.collection(resource)
	out := []Object{}
	for _, k := range slices.Sorted(maps.Keys(c.objects)) {
		if keep(c.objects[k]) {
			out = append(out, c.objects[k])
		}
	}
	return out
}

// selector returns the filter of a list or a watch, by namespace and fields.
func selector(namespace, expression string) (func(Object) bool, error) {
	sel, err := fields.ParseSelector(expression)
	if err != nil {
		return nil, fmt.Errorf("field selector %q: %w", expression, err)
	}
	return func(o Object) bool {
		if namespace != "" && text(o, "metadata", "namespace") != namespace {
			return false
		}
		return sel.Empty() || sel.Matches(fieldsOf(o))
	}, nil
}

func fieldsOf(o Object) fields.Set {
	return fields.Set{
		"metadata.name":      text(o, "metadata", "name"),
		"metadata.namespace": text(o, "metadata", "namespace"),
		"spec.nodeName":      text(o, "spec", "nodeName"),
		"spec.schedulerName": text(o, "spec", "schedulerName"),
		"status.phase":       text(o, "status", "phase"),
	}
}

// text returns the string at a path, "" if there is none.
func text(o Object, path ...string) string {
	var at any = o
	for _, p := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return ""
		}
		at = m[p]
	}
	s, ok := at.(string)
	if !ok {
		return ""
	}
	return s
}

// child returns the map in a field, empty if there is none.
func child(o Object, field string) Object {
	m, ok := o[field].(map[string]any)
	if !ok {
		return Object{}
	}
	return m
}

// with returns a copy of the object with one field replaced.
func with(o Object, field string, value any) Object {
	o = maps.Clone(o)
	if o == nil {
		o = Object{}
	}
	o[field] = value
	return o
}

func withMeta(o Object, field string, value any) Object {
	return with(o, "metadata", with(child(o, "metadata"), field, value))
}
