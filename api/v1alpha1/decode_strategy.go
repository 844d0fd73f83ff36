package v1alpha1

// DecodeBurstStrategies reads the value of the key cpu-burst-config and checks it. If refused is not empty, the
// returned value must not be used. The fields in unknown are not in the value and have no effect.
func DecodeBurstStrategies(value string) (s BurstStrategies, refused, unknown FieldErrors) {
	shape, unknown := decodeKnown(value, &s)
	return s, append(shape, unnamed(shape, ValidateBurstStrategies(s))...), unknown
}

// DecodeNamespaceSwitch reads the value of the key cpu-burst, as DecodeBurstStrategies does.
func DecodeNamespaceSwitch(value string) (s NamespaceSwitch, refused, unknown FieldErrors) {
	refused, unknown = decodeKnown(value, &s)
	return s, refused, unknown
}

// DecodeResourceQOS reads the value of the key resource-qos-config, as DecodeBurstStrategies does.
func DecodeResourceQOS(value string) (s ResourceQOSStrategies, refused, unknown FieldErrors) {
	shape, unknown := decodeKnown(value, &s)
	return s, append(shape, unnamed(shape, ValidateResourceQOS(s))...), unknown
}

// DecodeResourceThreshold reads the value of the key resource-threshold-config, as DecodeBurstStrategies does.
func DecodeResourceThreshold(value string) (s ResourceThresholdStrategies, refused, unknown FieldErrors) {
	shape, unknown := decodeKnown(value, &s)
	return s, append(shape, unnamed(shape, ValidateResourceThreshold(s))...), unknown
}

// decodeKnown is decodeLenient, and also returns the fields that it skipped.
func decodeKnown[T any](value string, target *T) (shape, unknown FieldErrors) {
	shape = decodeLenient([]byte(value), target)
	var scratch T
	for _, problem := range decodeStrict([]byte(value), &scratch) {
		if !overlaps(shape, problem.Field) {
			unknown = append(unknown, problem)
		}
	}
	return shape, unknown
}
