package locality

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
)

// Policy is the requested locality of one container.
type Policy struct {
	v1alpha1.MemoryLocality
	// ByClass is true if the strategy of the class chose the policy, not the annotation.
	ByClass bool
	// Source is where the policy is written. Text is a short digest of all that is written there. It is remembered in
	// place of the text, which may be long.
	Source, Text string
}

// digest returns a short stand-in for a text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// PolicyOf reads the annotation of a pod or workload, and completes it with the strategy of its class, nil for none;
// source is where the strategy is written. If refused has problems, the policy is off. Fields in unknown change
// nothing.
func PolicyOf(annotations map[string]string, class *v1alpha1.MemoryLocality, source string) (p Policy, refused, unknown v1alpha1.FieldErrors) {
	const key = v1alpha1.AnnotationMemoryLocality
	text, found := annotations[key]
	if found {
		p.MemoryLocality, refused, unknown = v1alpha1.DecodeMemoryLocality(text)
		p.Source, p.Text = "annotation "+key, digest(text)
	}
	refused, unknown = refused.InAnnotation(key), unknown.InAnnotation(key)
	if len(refused) > 0 {
		p.MemoryLocality = v1alpha1.MemoryLocality{}
		return p, refused, unknown
	}
	if class != nil {
		if p.Policy == nil {
			written, _ := json.Marshal(class) // class always marshals
			p.ByClass, p.Source, p.Text = true, source, digest(source+" "+string(written)+text)
		}
		p.MemoryLocality = p.Inherit(*class)
	}
	return p, nil, unknown
}

// Past is the last finished pass of a container.
type Past struct {
	// Text is the Text of the pass's policy, and Local the list of the nodes that were local.
	Text  string `json:"policy"`
	Local string `json:"local"`
	// Ended is the end of the pass, since the host booted.
	Ended time.Duration `json:"ended"`
	// Well is true if the pass walked all processes to the end.
	Well bool `json:"well,omitempty"`
}

// Due reports whether a pass is due at a ratio. The first pass of a policy is due at once if an annotation asked for
// it, and otherwise once the ratio is below the target. After the first pass, the next is due only with an interval,
// while the ratio is below the target. If the local nodes change, a pass is due below the target.
func (p Policy) Due(past Past, local string, now time.Duration, ratio int) bool {
	below := ratio < p.Target()
	switch {
	case !p.BestEffort():
		return false
	case past.Text != p.Text:
		return below || !p.ByClass
	case past.Local != local:
		return below
	}
	return below && p.Interval() > 0 && now-past.Ended >= p.Interval()
}
