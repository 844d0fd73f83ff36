package profile

import (
	"reflect"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/knob"
)

// Schema returns the JSON Schema of a profile, from the types of package v1alpha1 and the catalogue of knobs.
func Schema() map[string]any {
	s := schemaOf(reflect.TypeFor[v1alpha1.Profile]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Berth host profile"
	top := properties(s)
	top["apiVersion"] = map[string]any{"const": v1alpha1.APIVersion}
	top["kind"] = map[string]any{"const": v1alpha1.KindProfile}
	top["metadata"] = schemaOf(reflect.TypeFor[metadata]())
	s["required"] = []string{"apiVersion", "kind", "metadata", "spec"}
	settings := map[string]any{}
	for _, k := range knob.Catalogue() {
		settings[k.Name] = settingSchema(k.About + ": " + k.Range())
	}
	properties(top["spec"])["settings"] = map[string]any{
		"type": "object", "properties": settings, "additionalProperties": false,
		"patternProperties": map[string]any{`^sysctl\.`: settingSchema("any sysctl")},
	}
	return s
}

// metadata is the part of a document's metadata that has a meaning.
type metadata struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func properties(schema any) map[string]any {
	object, _ := schema.(map[string]any)
	fields, _ := object["properties"].(map[string]any)
	return fields
}

// settingSchema accepts the value alone, or the object.
func settingSchema(about string) map[string]any {
	object := schemaOf(reflect.TypeFor[v1alpha1.ProfileSetting]())
	return map[string]any{"description": about, "anyOf": []any{valueSchema(), object}}
}

func valueSchema() map[string]any {
	return map[string]any{"type": []string{"string", "integer", "boolean"}}
}

// schemaOf describes a type by its JSON names. Optional fields have omitempty.
func schemaOf(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[v1alpha1.CPUPartition]():
		return map[string]any{"enum": v1alpha1.CPUPartitions()}
	case t == reflect.TypeFor[v1alpha1.ProfileValue]():
		return valueSchema()
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Struct:
		return structSchema(t)
	case reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	default:
		return map[string]any{"type": "string"}
	}
}

func structSchema(t reflect.Type) map[string]any {
	fields, required := map[string]any{}, []string{}
	for field := range t.Fields() {
		name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous {
			continue // the header of all documents, which Schema adds
		}
		fields[name] = schemaOf(field.Type)
		if option == "" {
			required = append(required, name)
		}
	}
	s := map[string]any{"type": "object", "properties": fields, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}
