package v1alpha1

import "encoding/json"

// DecodeResourceSpec reads the value of AnnotationResourceSpec and checks it. If refused is not empty, the returned
// value has the valid fields only. A caller must not use it, because half a policy is no policy. The key belongs to
// Koordinator, whose later versions may add fields: the fields in unknown have no effect.
func DecodeResourceSpec(value string) (s ResourceSpec, refused, unknown FieldErrors) {
	shape, unknown := decodeKnown(value, &s)
	return s, append(shape, unnamed(shape, ValidateResourceSpec(s))...), unknown
}

// DecodeNUMATopologySpec reads the value of AnnotationNUMATopologySpec, as DecodeResourceSpec does.
func DecodeNUMATopologySpec(value string) (s NUMATopologySpec, refused, unknown FieldErrors) {
	shape, unknown := decodeKnown(value, &s)
	return s, append(shape, unnamed(shape, ValidateNUMATopologySpec(s))...), unknown
}

// DecodeSchedulerArgs reads the args of the scheduler's plugin, given as JSON, fills in the defaults and checks them.
// Empty data is an empty object. If there are problems, the returned value has the valid fields.
func DecodeSchedulerArgs(data []byte) (SchedulerArgs, FieldErrors) {
	var a SchedulerArgs
	var shape FieldErrors
	if len(data) > 0 {
		shape = decodeStrict(data, &a)
	}
	SetSchedulerArgsDefaults(&a)
	return a, append(shape, unnamed(shape, ValidateSchedulerArgs(a))...)
}

// DecodePlacement reads the value of AnnotationPlacement and checks its form. Only a topology can tell whether the CPUs
// exist. Unknown fields are ignored, so that a later writer may add fields; an unknown version is refused. If there are
// problems, the returned value must not be used.
func DecodePlacement(value string) (Placement, FieldErrors) {
	var p Placement
	shape := decodeLenient([]byte(value), &p)
	return p, append(shape, unnamed(shape, ValidatePlacement(p))...)
}

// Encode returns p as the value of AnnotationPlacement, without spaces and with the containers sorted by name. Equal
// placements have equal values.
func (p Placement) Encode() string {
	if p.Containers == nil {
		p.Containers = map[string]ContainerPlacement{}
	}
	// Encoding a Placement cannot fail.
	text, _ := json.Marshal(p)
	return string(text)
}

// DecodeMove reads the value of AnnotationMove and checks its form, as DecodePlacement does.
func DecodeMove(value string) (Move, FieldErrors) {
	var m Move
	shape := decodeLenient([]byte(value), &m)
	return m, append(shape, unnamed(shape, ValidateMove(m))...)
}

// Encode returns m as the value of AnnotationMove. Equal moves have equal values.
func (m Move) Encode() string {
	// Encoding a Move cannot fail.
	text, _ := json.Marshal(m)
	return string(text)
}
