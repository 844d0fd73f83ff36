package workload

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
)

// Slips returns the keys of a pod that do not take effect as written: values that no decoder accepts, unknown fields,
// and keys that are probably mistyped. It checks every key, whether or not the pod asks for exclusive CPUs, and without
// the strategies of a cluster. The problems of annotations are worded as in PinningOf, which alone checks the keys that
// request CPUs and their combinations.
func Slips(labels, annotations map[string]string) v1alpha1.FieldErrors {
	s := slips{annotations: annotations}
	s.burst()
	ofKey(&s, v1alpha1.AnnotationCPUQOS, v1alpha1.DecodeCPUQOS)
	ofKey(&s, v1alpha1.AnnotationMemoryLocality, v1alpha1.DecodeMemoryLocality)
	ofKey(&s, v1alpha1.AnnotationResourceSpec, v1alpha1.DecodeResourceSpec)
	ofKey(&s, v1alpha1.AnnotationNUMATopologySpec, v1alpha1.DecodeNUMATopologySpec)
	if problem, wrong := movableSlip(annotations); wrong {
		s.found = append(s.found, problem)
	}
	s.mistyped("metadata.annotations", annotations, podAnnotations())
	s.mistyped("metadata.labels", labels, []string{v1alpha1.LabelQoSClass})
	return s.found
}

// podAnnotations are the annotations of a pod that Berth reads or writes.
func podAnnotations() []string {
	return append(askingAnnotations(), v1alpha1.AnnotationPlacement, v1alpha1.AnnotationMovable, v1alpha1.AnnotationMove,
		v1alpha1.AnnotationCPUBurst, v1alpha1.AnnotationCPUBurstAlias, v1alpha1.AnnotationCPUQOS,
		v1alpha1.AnnotationMemoryLocality, v1alpha1.AnnotationMemoryLocalityStatus)
}

type slips struct {
	annotations map[string]string
	found       v1alpha1.FieldErrors
}

// burst reads the burst annotation, under the name that takes effect.
func (s *slips) burst() {
	var f Findings
	key, found := burstKey(s.annotations, &f)
	s.found = append(s.found, f.Warnings...)
	if found {
		ofKey(s, key, v1alpha1.DecodeCPUBurst)
	}
}

// ofKey decodes one annotation.
func ofKey[T any](s *slips, key string, decode func(string) (T, v1alpha1.FieldErrors, v1alpha1.FieldErrors)) {
	text, found := s.annotations[key]
	if !found {
		return
	}
	_, refused, unknown := decode(text)
	s.found = append(append(s.found, refused.InAnnotation(key)...), unknown.InAnnotation(key)...)
}

// movableSlip returns the problem of an invalid value of AnnotationMovable.
func movableSlip(annotations map[string]string) (v1alpha1.FieldError, bool) {
	value, found := annotations[v1alpha1.AnnotationMovable]
	if !found || value == v1alpha1.Movable || value == v1alpha1.NotMovable {
		return v1alpha1.FieldError{}, false
	}
	return v1alpha1.FieldError{Field: fieldOf(v1alpha1.AnnotationMovable), Value: v1alpha1.Show(value), Allowed: `"true" or "false" (in quotes)`}, true
}

// mistyped finds keys that no program reads: all unknown keys of Berth's own domain, and keys that differ from a known
// key by a letter or two. Other keys of the peers' domains belong to the peers.
func (s *slips) mistyped(field string, all map[string]string, known []string) {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(known, key) {
			continue
		}
		allowed := ""
		if i := slices.IndexFunc(known, func(right string) bool { return near(key, right) }); i >= 0 {
			allowed = known[i] + " (this key is not one that Berth knows)"
		} else if strings.HasPrefix(key, ownPrefix) {
			allowed = "no key of this domain here"
			if own := ownKeys(known); len(own) > 0 {
				allowed = "only the keys " + strings.Join(own, ", ")
			}
		}
		if allowed != "" {
			s.found = append(s.found, v1alpha1.FieldError{
				Field: field + "[" + key + "]", Value: v1alpha1.Show(all[key]), Allowed: allowed,
			})
		}
	}
}

// ownPrefix begins the keys that Berth alone defines.
const ownPrefix = "berth.dev/"

func ownKeys(known []string) []string {
	return slices.DeleteFunc(slices.Clone(known), func(key string) bool { return !strings.HasPrefix(key, ownPrefix) })
}

// near reports whether key is probably a mistyped right. Letter case may differ. One letter in every six of the name
// may be missing, changed or added, two at most. The first letter must be right: gpu-policy is a key of its own, not a
// mistyped cpu-policy.
func near(key, right string) bool {
	if key == "" || key[0] != right[0] {
		return false
	}
	if strings.EqualFold(key, right) {
		return true
	}
	name := right[strings.LastIndexByte(right, '/')+1:]
	return distance(key, right) <= min(2, max(1, len(name)/6))
}

// distance returns the fewest insertions, deletions, changes or swaps of adjacent letters that turn one text into the
// other. For texts of very different length it returns 3 at once.
func distance(a, b string) int {
	if far := len(a) - len(b); far > 2 || far < -2 {
		return 3
	}
	var before, last, row []int
	for j := range len(b) + 1 {
		last = append(last, j)
	}
	for i := 1; i <= len(a); i++ {
		row = []int{i}
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			cost := min(last[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cost = min(cost, before[j-2]+1)
			}
			row = append(row, cost)
		}
		before, last = last, row
	}
	return last[len(b)]
}
