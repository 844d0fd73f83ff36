package v1alpha1

import "encoding/json"

// DecodeResourceSpec reads the value of AnnotationResourceSpec and checks it.
// With problems in refused, the returned value holds the fields that are right; a
// caller must not use it, because half a policy is none. The key belongs to
// Koordinator, whose later versions may add fields: those in unknown change
// nothing.
func DecodeResourceSpec(value string) (s ResourceSpec, refused, unknown FieldErrors) {
	shape, unknown := decodeKnown(value, &s)
	return s, append(shape, unnamed(shape, ValidateResourceSpec(s))...), unknown
}

// DecodeNUMATopologySpec reads the value of AnnotationNUMATopologySpec, as
// DecodeResourceSpec does.
func DecodeNUMATopologySpec(value string) (s NUMATopologySpec, refused, unknown FieldErrors) {
	shape, unknown := decodeKnown(value, &s)
	return s, append(shape, unnamed(shape, ValidateNUMATopologySpec(s))...), unknown
}

// DecodeSchedulerArgs reads the args of the scheduler's plugin, given as JSON
// (none at all is an empty object), fills in the defaults and checks them.
// With problems, the returned value holds the fields that are right.
func DecodeSchedulerArgs(data []byte) (SchedulerArgs, FieldErrors) {
	var a SchedulerArgs
	var shape FieldErrors
	if len(data) > 0 {
		shape = decodeStrict(data, &a)
	}
	SetSchedulerArgsDefaults(&a)
	return a, append(shape, unnamed(shape, ValidateSchedulerArgs(a))...)
}

// DecodePlacement reads the value of AnnotationPlacement and checks its form;
// whether the CPUs exist only a topology can say. Fields it does not know are
// ignored, so that a later writer may add some, and a version it does not know
// is refused. With problems, the returned value must not be used.
func DecodePlacement(value string) (Placement, FieldErrors) {
	var p Placement
	shape := decodeLenient([]byte(value), &p)
	return p, append(shape, unnamed(shape, ValidatePlacement(p))...)
}

// Encode returns p as the value of AnnotationPlacement: without spaces, the
// containers by name, the same for the same placement.
func (p Placement) Encode() string {
	if p.Containers == nil {
		p.Containers = map[string]ContainerPlacement{}
	}
	// Nothing in a Placement can fail to be written.
	text, _ := json.Marshal(p)
	return string(text)
}

// DecodeMove reads the value of AnnotationMove and checks its form, as DecodePlacement does.
func DecodeMove(value string) (Move, FieldErrors) {
	var m Move
	shape := decodeLenient([]byte(value), &m)
	return m, append(shape, unnamed(shape, ValidateMove(m))...)
}

// Encode returns m as the value of AnnotationMove, the same for the same move.
func (m Move) Encode() string {
	// Nothing in a Move can fail to be written.
	text, _ := json.Marshal(m)
	return string(text)
}
