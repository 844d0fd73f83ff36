package capability

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// ErrTwice says that two capabilities use one key.
var ErrTwice = errors.New("two capabilities use the key")

// ErrNoObject says that a part of a document is no JSON object.
var ErrNoObject = errors.New("no JSON object")

// Sections are keys of a JSON object with their values. Those that were read are
// json.RawMessage.
type Sections map[string]any

// Add takes over the sections of another capability. A key that is there already is an
// ErrTwice, and stays as it is.
func (s Sections) Add(more Sections) error {
	var errs []error
	for key, value := range more {
		if _, used := s[key]; used {
			errs = append(errs, fmt.Errorf("%w %s", ErrTwice, key))
			continue
		}
		s[key] = value
	}
	return errors.Join(errs...)
}

// Decode reads the section of a key into the value that into points to, and leaves that
// alone where there is no such section.
func (s Sections) Decode(key string, into any) error {
	value, there := s[key]
	if !there {
		return nil
	}
	raw, read := value.(json.RawMessage)
	if !read {
		var err error
		if raw, err = json.Marshal(value); err != nil {
			return fmt.Errorf("section %s: %w", key, err)
		}
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("section %s: %w", key, err)
	}
	return nil
}

// Joined is marshalled as one JSON object that has the keys of all its parts, in their
// order. Each part is a struct, Sections, or an object that was marshalled already
// (json.RawMessage). No two parts may share a key.
type Joined []any

// MarshalJSON implements json.Marshaler.
func (j Joined) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for _, part := range j {
		object, raw := part.(json.RawMessage)
		if !raw {
			var err error
			if object, err = json.Marshal(part); err != nil {
				return nil, fmt.Errorf("join %T: %w", part, err)
			}
		}
		switch {
		case bytes.Equal(object, []byte("null")) || bytes.Equal(object, []byte("{}")):
			continue
		case !bytes.HasPrefix(object, []byte("{")):
			return nil, fmt.Errorf("join %T: %w", part, ErrNoObject)
		case len(out) > 1:
			out = append(out, ',')
		}
		out = append(out, object[1:len(object)-1]...)
	}
	return append(out, '}'), nil
}

// Split decodes a JSON object into the struct that into points to, and returns the keys
// that are none of its fields.
func Split(data []byte, into any) (Sections, error) {
	if err := json.Unmarshal(data, into); err != nil {
		return nil, fmt.Errorf("decode %T: %w", into, err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("decode %T: %w", into, err)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeOf(into).Elem()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		delete(all, name)
	}
	rest := make(Sections, len(all))
	for key, value := range all {
		rest[key] = value
	}
	return rest, nil
}
