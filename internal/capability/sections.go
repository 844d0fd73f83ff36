package capability

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// ErrTwice means that two capabilities use one key.
var ErrTwice = errors.New("two capabilities use the key")

// ErrNoObject means that a part of a document is no JSON object.
var ErrNoObject = errors.New("no JSON object")

// Sections are keys of a JSON object with their values. Values that were read are json.RawMessage.
type Sections map[string]any

// Add adds the sections of another capability. For an existing key it returns ErrTwice, and retains the old value.
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

// UnmarshalJSON implements json.Unmarshaler. It does not decode the values.
func (s *Sections) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("decode sections: %w", err)
	}
	*s = make(Sections, len(all))
	for key, value := range all {
		(*s)[key] = value
	}
	return nil
}

// Decode reads the section of a key into the value that into points to. Without such a section it leaves the value
// unchanged.
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

// Joined is marshalled as one JSON object that has the keys of all its parts, in their order. Each part is a struct,
// Sections, or an Object. No two parts may share a key.
type Joined []any

// Object writes itself as a JSON object.
type Object interface {
	Write(to *bytes.Buffer) error
}

// MarshalJSON implements json.Marshaler.
func (j Joined) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	err := j.Write(&out)
	return out.Bytes(), err
}

// Write implements Object. It avoids encoding/json, which would scan and copy the object once more for each document
// that contains it.
func (j Joined) Write(to *bytes.Buffer) error {
	begin := to.Len()
	for _, part := range j {
		at := to.Len()
		if err := encode(part, to); err != nil {
			return fmt.Errorf("join %T: %w", part, err)
		}
		object := bytes.TrimSuffix(to.Bytes()[at:], []byte("\n"))
		switch {
		case bytes.Equal(object, []byte("null")) || bytes.Equal(object, []byte("{}")):
			to.Truncate(at)
			continue
		case !bytes.HasPrefix(object, []byte("{")):
			return fmt.Errorf("join %T: %w", part, ErrNoObject)
		case at > begin:
			object[0] = ','
		}
		to.Truncate(at + len(object) - 1) // the next part continues the object
	}
	if to.Len() == begin {
		to.WriteByte('{')
	}
	to.WriteByte('}')
	return nil
}

// encode writes one part, perhaps with an end of line.
func encode(part any, to *bytes.Buffer) error {
	if o, writes := part.(Object); writes {
		return o.Write(to)
	}
	return json.NewEncoder(to).Encode(part) //nolint:wrapcheck // Write says which part
}

// Split decodes a JSON object into the struct that into points to, and returns the keys that are none of its fields.
func Split(data []byte, into any) (Sections, error) {
	if err := json.Unmarshal(data, into); err != nil {
		return nil, fmt.Errorf("decode %T: %w", into, err)
	}
	var rest Sections
	if err := json.Unmarshal(data, &rest); err != nil {
		return nil, fmt.Errorf("decode %T: %w", into, err)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeOf(into).Elem()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		delete(rest, name)
	}
	return rest, nil
}
