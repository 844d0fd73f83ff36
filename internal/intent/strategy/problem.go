package strategy

import (
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
)

// Problem is one mistake in a ConfigMap: event InvalidPolicy.
type Problem struct {
	v1alpha1.FieldError

	ConfigMap Name
	// Key is the key of the ConfigMap; empty for a problem of the whole ConfigMap.
	Key string
	// InForce names the value that applies instead, for example "the last good value of ConfigMap
	// kube-system/ack-slo-config". It is empty where the other fields of the value still apply.
	InForce string
}

// Error returns "ConfigMap NAME: key K: field F: value V: allowed: A; in force: I"
// without the absent parts.
func (p Problem) Error() string {
	parts := []string{"ConfigMap " + string(p.ConfigMap)}
	if p.Key != "" {
		parts = append(parts, "key "+p.Key)
	}
	text := strings.Join(append(parts, p.FieldError.Error()), ": ")
	if p.InForce != "" {
		text += "; in force: " + p.InForce
	}
	return text
}
