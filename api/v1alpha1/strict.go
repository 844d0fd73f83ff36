package v1alpha1

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxQuantity bounds the length of a quantity in bytes, far above any meaningful quantity.
const maxQuantity = 32

// mostNested bounds the nesting of a document whose parser has no bound: recursion must end before the stack overflows.
const mostNested = 64

// walker compares a document with the Go type that it will be decoded into.
type walker struct {
	lenient bool // unknown fields are removed without a report
	// foreign is true for objects of Kubernetes: their types may have an UnmarshalJSON of their own, and no rules of
	// Berth hold for them.
	foreign  bool
	depth    int
	problems FieldErrors
}

// prune reports every key of object that target's type lacks, and every value of the wrong kind, and removes them.
func (w walker) prune(object map[string]any, target any) FieldErrors {
	w.object("", object, reflect.TypeOf(target).Elem())
	return w.problems
}

// check reports whether value fits t, and records the problem if it does not.
func (w *walker) check(path string, value any, t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if value == nil {
		return true // null is how YAML writes a field that is left out
	}
	w.depth++
	defer func() { w.depth-- }()
	_, nested := value.(map[string]any)
	switch {
	case w.depth > mostNested:
		return w.refuse(path, value, fmt.Sprintf("nesting of at most %d levels", mostNested))
	case t == reflect.TypeFor[resource.Quantity]():
		return w.quantity(path, value)
	case t == reflect.TypeFor[ProfileValue](), t == reflect.TypeFor[ProfileSetting]() && !nested:
		return w.profileValue(path, value)
	case w.foreign && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return w.custom(path, value, t)
	case t.Kind() == reflect.Interface:
		return true // belongs to another program, and remains as it is
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Map:
		return w.nested(path, value, t)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8: // []byte is a string in JSON
		return w.list(path, value, t)
	}
	return w.scalar(path, value, t)
}

func (w *walker) nested(path string, value any, t reflect.Type) bool {
	object, ok := value.(map[string]any)
	if !ok {
		return w.refuse(path, value, "an object of fields")
	}
	if t.Kind() == reflect.Struct {
		w.object(path, object, t)
		return true
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !w.check(entry(path, key), object[key], t.Elem()) {
			delete(object, key)
		}
	}
	return true
}

func (w *walker) object(path string, object map[string]any, t reflect.Type) {
	fields := w.fieldsOf(t)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		kind, known := fields[key]
		if !known && !w.lenient {
			allowed := "only the fields " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
			w.refuse(join(path, key), object[key], allowed)
		}
		if !known || !w.check(join(path, key), object[key], kind) {
			delete(object, key)
		}
	}
}

func (w *walker) list(path string, value any, t reflect.Type) bool {
	list, ok := value.([]any)
	if !ok {
		return w.refuse(path, value, "a list")
	}
	fits := true
	for i, element := range list {
		if element == nil && !w.foreign {
			fits = w.refuse(index(path, i), element, kindName(t.Elem()))
			continue
		}
		fits = w.check(index(path, i), element, t.Elem()) && fits
	}
	return fits
}

func (w *walker) scalar(path string, value any, t reflect.Type) bool {
	fits := false
	switch t.Kind() {
	case reflect.String, reflect.Slice:
		_, fits = value.(string)
	case reflect.Bool:
		_, fits = value.(bool)
	default:
		_, fraction := value.(float64)
		number, err := strconv.ParseInt(numberText(value), 10, 64)
		fits = err == nil && !fraction && (t.Bits() == 64 || number>>(t.Bits()-1) == number>>63) // in the range of t
	}
	return fits || w.refuse(path, value, cmp.Or(formOf(path), kindName(t)))
}

// numberText returns the text of a number as the parsers of JSON and YAML return it, "" for any other value.
func numberText(value any) string {
	switch value.(type) {
	case json.Number, int64, float64:
		return fmt.Sprint(value)
	}
	return ""
}

// custom checks a type with its own UnmarshalJSON (times, ports by name or number).
func (w *walker) custom(path string, value any, t reflect.Type) bool {
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	return err == nil || w.refuse(path, value, fmt.Sprintf("a %s: %v", t.Name(), err))
}

// formOf returns the form of a text in the agent's file if the form matters more than that it is a text. The same
// number in quotes would be refused, too.
func formOf(path string) string {
	switch path {
	case "listen":
		return allowedListen
	case "history.retention":
		return allowedRetention
	case "history.maxBytes":
		return allowedMaxBytes
	}
	return ""
}

func (w *walker) profileValue(path string, value any) bool {
	switch value.(type) {
	case string, bool, json.Number:
		return true
	}
	return w.refuse(path, value, "a text, a number, true or false")
}

func (w *walker) quantity(path string, value any) bool {
	text, isText := value.(string)
	if !isText {
		text = numberText(value)
	}
	if isHarmless(text) {
		if q, err := resource.ParseQuantity(text); err == nil {
			// Checked here because here the value still has its original form.
			return w.foreign || isPossible(q) || w.refuse(path, value, possible)
		}
	}
	if w.foreign {
		return w.refuse(path, value, `a quantity such as "4", "500m" or "8Gi"`)
	}
	return w.refuse(path, value, `a quantity of CPU such as "4", "0.5" or "500m"`)
}

// isHarmless reports whether a quantity has no large exponent. resource.Quantity accepts one, and then computes for
// minutes or until the memory is exhausted.
func isHarmless(quantity string) bool {
	if len(quantity) > maxQuantity {
		return false
	}
	exponent := strings.IndexAny(quantity, "eE")
	return exponent < 0 || len(quantity)-exponent <= len("e-99")
}

func (w *walker) refuse(path string, value any, allowed string) bool {
	w.problems = append(w.problems, FieldError{Field: path, Value: Show(value), Allowed: allowed})
	return false
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String, reflect.Slice:
		return "a string (put it in quotes)"
	case reflect.Bool:
		return "true or false"
	default:
		return "a whole number"
	}
}

// fieldsOf returns the fields of a struct by their JSON name, inlined structs included.
func (w *walker) fieldsOf(t reflect.Type) map[string]reflect.Type {
	if t == reflect.TypeFor[metav1.ObjectMeta]() && !w.foreign {
		// Other fields have a meaning only on an API server, and a field without an effect must not look as if it had
		// one.
		table := reflect.TypeFor[map[string]string]()
		return map[string]reflect.Type{"name": reflect.TypeFor[string](), "labels": table, "annotations": table}
	}
	fields := map[string]reflect.Type{}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && field.Anonymous, options == "inline":
			maps.Copy(fields, w.fieldsOf(field.Type))
		case name != "" && name != "-":
			fields[name] = field.Type
		}
	}
	return fields
}
