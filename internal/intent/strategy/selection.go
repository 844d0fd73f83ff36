package strategy

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-project/berth/api/v1alpha1"
)

// selection is a policy for pods that have any of the labels.
type selection struct {
	policy v1alpha1.CPUBurst
	labels map[string]string
}

// selection reads LabelConfig.
func (r *reader) selection(all Maps, last kept[selection]) kept[selection] {
	data, found := all[LabelConfig]
	if !found {
		return kept[selection]{}
	}
	s := selection{labels: maps.Clone(data)}
	delete(s.labels, KeyBurst)
	r.labels(s.labels)
	if _, found := data[KeyBurst]; !found {
		if len(s.labels) > 0 {
			r.add(LabelConfig, KeyBurst, "nothing", v1alpha1.FieldErrors{{Allowed: `the policy, for example {"policy": "cfsQuotaBurstOnly"}`}})
		}
		return kept[selection]{}
	}
	earlier := kept[v1alpha1.CPUBurst]{value: last.value.policy, from: last.from}
	policy := read(r, all, source[v1alpha1.CPUBurst]{[]Name{LabelConfig}, KeyBurst, v1alpha1.DecodeCPUBurst}, earlier)
	if policy.stale || policy.from == "" {
		last.stale = policy.stale
		return last
	}
	s.policy = policy.value
	return kept[selection]{value: s, from: LabelConfig}
}

// labels reports labels that no pod can have.
func (r *reader) labels(selector map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		allowed := ""
		if len(validation.IsQualifiedName(key)) > 0 {
			allowed = "the name of a label"
		} else if len(validation.IsValidLabelValue(selector[key])) > 0 {
			allowed = "the value of a label: at most 63 letters, digits, '-', '_' and '.'"
		}
		if allowed != "" {
			r.add(LabelConfig, key, "", v1alpha1.FieldErrors{{Value: v1alpha1.Show(selector[key]), Allowed: allowed}})
		}
	}
}

// match returns the first label, by name, that a pod has.
func (s selection) match(pod map[string]string) (label string, found bool) {
	for _, key := range slices.Sorted(maps.Keys(s.labels)) {
		if value, has := pod[key]; has && value == s.labels[key] {
			return key + "=" + value, true
		}
	}
	return "", false
}
