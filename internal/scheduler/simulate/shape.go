package simulate

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-project/berth/api/v1alpha1"
)

// Bounds of a document. Recursion must end before the stack overflows, and a quantity with a large exponent would take
// minutes to compute.
const (
	maxDepth    = 64
	maxQuantity = 32
)

// shape compares a document with the Go type that an API server would decode it into, and reports every field that is
// unknown or has the wrong kind of value. The codecs of the API machinery refuse the same documents, but report less.
type shape struct{ problems v1alpha1.FieldErrors }

// decode fills target, a pointer to a struct, from a JSON object. Without problems target has everything in the
// document.
func decode(object map[string]any, target any) v1alpha1.FieldErrors {
	var s shape
	s.check("", object, reflect.TypeOf(target).Elem(), 0)
	if len(s.problems) > 0 {
		return s.problems
	}
	data, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(data, target)
	}
	if err != nil { // a value that only its own type can check
		return v1alpha1.FieldErrors{{Value: v1alpha1.Show(object), Allowed: fmt.Sprintf("a readable document: %v", err)}}
	}
	return nil
}

func (s *shape) check(path string, value any, t reflect.Type, depth int) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case value == nil: // in YAML, null is an omitted field
	case depth > maxDepth:
		s.refuse(path, value, fmt.Sprintf("nesting of at most %d levels", maxDepth))
	case t == reflect.TypeFor[resource.Quantity]():
		s.quantity(path, value)
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		s.custom(path, value, t)
	case t.Kind() == reflect.Struct:
		s.object(path, value, t, depth)
	case t.Kind() == reflect.Map:
		s.table(path, value, t, depth)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8: // []byte is a string in JSON
		s.list(path, value, t, depth)
	default:
		s.scalar(path, value, t)
	}
}

func (s *shape) object(path string, value any, t reflect.Type, depth int) {
	object, ok := value.(map[string]any)
	if !ok {
		s.refuse(path, value, "an object of fields")
		return
	}
	fields := fieldsOf(t)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		kind, known := fields[key]
		if !known {
			s.refuse(join(path, key), object[key], "only the fields "+strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
			continue
		}
		s.check(join(path, key), object[key], kind, depth+1)
	}
}

func (s *shape) table(path string, value any, t reflect.Type, depth int) {
	object, ok := value.(map[string]any)
	if !ok {
		s.refuse(path, value, "an object of fields")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		s.check(path+"["+key+"]", object[key], t.Elem(), depth+1)
	}
}

func (s *shape) list(path string, value any, t reflect.Type, depth int) {
	list, ok := value.([]any)
	if !ok {
		s.refuse(path, value, "a list")
		return
	}
	for i, element := range list {
		s.check(index(path, i), element, t.Elem(), depth+1)
	}
}

func (s *shape) scalar(path string, value any, t reflect.Type) {
	fits, want := false, "a whole number"
	switch t.Kind() {
	case reflect.String, reflect.Slice:
		_, fits = value.(string)
		want = "a string (put it in quotes)"
	case reflect.Bool:
		_, fits = value.(bool)
		want = "true or false"
	case reflect.Interface:
		fits = true
	default:
		number, whole := value.(int64)
		fits = whole && (t.Bits() == 64 || number>>(t.Bits()-1) == number>>63) // in the range of t
	}
	if !fits {
		s.refuse(path, value, want)
	}
}

func (s *shape) quantity(path string, value any) {
	text := ""
	switch v := value.(type) {
	case string:
		text = v
	case int64, float64:
		text = fmt.Sprint(v)
	}
	exponent := strings.IndexAny(text, "eE")
	if text != "" && len(text) <= maxQuantity && (exponent < 0 || len(text)-exponent <= len("e-99")) {
		if _, err := resource.ParseQuantity(text); err == nil {
			return
		}
	}
	s.refuse(path, value, `a quantity such as "4", "500m" or "8Gi"`)
}

// custom checks a type with its own UnmarshalJSON (times, ports by name or number).
func (s *shape) custom(path string, value any, t reflect.Type) {
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	if err != nil {
		s.refuse(path, value, fmt.Sprintf("a %s: %v", t.Name(), err))
	}
}

func (s *shape) refuse(path string, value any, allowed string) {
	s.problems = append(s.problems, v1alpha1.FieldError{Field: path, Value: v1alpha1.Show(value), Allowed: allowed})
}

// fieldsOf returns the fields of a struct by JSON name, including inlined structs.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		inlined := field.Anonymous && name == "" || options == "inline"
		switch {
		case inlined:
			maps.Copy(fields, fieldsOf(field.Type))
		case name != "" && name != "-":
			fields[name] = field.Type
		}
	}
	return fields
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
