package v1alpha1

import (
	"encoding/json"
	"fmt"
)

// DecodeWorkload reads one Workload document, given as JSON, and checks it. If there are problems, the returned value
// has the valid fields.
func DecodeWorkload(data []byte) (Workload, FieldErrors) {
	var w Workload
	shape := decodeStrict(data, &w)
	return w, append(shape, unnamed(shape, ValidateWorkload(w))...)
}

// DecodeAgentConfig reads the agent's file, given as JSON, fills in the defaults and checks it. If there are problems,
// the returned value has the valid fields.
func DecodeAgentConfig(data []byte) (AgentConfig, FieldErrors) {
	var c AgentConfig
	shape := decodeStrict(data, &c)
	SetAgentConfigDefaults(&c)
	return c, append(shape, unnamed(shape, ValidateAgentConfig(c))...)
}

// DecodeCPUBurst reads the value of AnnotationCPUBurst and checks it. If refused is not empty, the returned value has
// the valid fields only. A caller must not use it, because half a policy is no policy. The key belongs to Koordinator,
// whose later versions may add fields: the fields in unknown have no effect.
func DecodeCPUBurst(value string) (b CPUBurst, refused, unknown FieldErrors) {
	shape, unknown := decodeKnown(value, &b)
	return b, append(shape, unnamed(shape, ValidateCPUBurst(b))...), unknown
}

// decodeStrict fills target, a pointer to a struct of this package, from JSON.
func decodeStrict(data []byte, target any) FieldErrors {
	return decode(data, target, walker{})
}

// decodeLenient is decodeStrict, but skips the fields that target lacks.
func decodeLenient(data []byte, target any) FieldErrors {
	return decode(data, target, walker{lenient: true})
}

func decode(data []byte, target any, w walker) FieldErrors {
	tree, problems := parseTree(data)
	if len(problems) > 0 {
		return problems
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return FieldErrors{{Value: Show(tree), Allowed: "an object of fields"}}
	}
	return append(w.prune(object, target), fill(target, object, string(data))...)
}

// DecodeObject fills target, a pointer to a struct, from an object of Kubernetes. It reports every field that is
// unknown or has the wrong kind of value. The codecs of the API machinery refuse the same objects, but report less.
// Without problems target has everything in the object; with problems the object has lost these fields.
func DecodeObject(object map[string]any, target any) FieldErrors {
	if problems := (walker{foreign: true}).prune(object, target); len(problems) > 0 {
		return problems
	}
	return fill(target, object, object)
}

// fill decodes an object. A problem is a value that only its own type can check; shown is the object in its message.
func fill(target any, object map[string]any, shown any) FieldErrors {
	data, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(data, target)
	}
	if err != nil {
		return FieldErrors{{Value: Show(shown), Allowed: fmt.Sprintf("a readable document: %v", err)}}
	}
	return nil
}

// unnamed returns the later problems whose field no earlier problem names. A problem names its field, every field
// inside it, and every field that encloses it.
func unnamed(earlier, later FieldErrors) FieldErrors {
	var fresh FieldErrors
	for _, problem := range later {
		if !overlaps(earlier, problem.Field) {
			fresh = append(fresh, problem)
		}
	}
	return fresh
}

func overlaps(problems FieldErrors, field string) bool {
	for _, problem := range problems {
		if within(problem.Field, field) || within(field, problem.Field) {
			return true
		}
	}
	return false
}

// within reports whether path is outer or a field inside it. Everything is inside the empty path, the document.
func within(path, outer string) bool {
	if len(path) < len(outer) || path[:len(outer)] != outer {
		return false
	}
	return outer == "" || len(path) == len(outer) || path[len(outer)] == '.' || path[len(outer)] == '['
}
