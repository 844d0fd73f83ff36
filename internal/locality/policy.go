package locality

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
)

// Policy is what is asked for one container.
type Policy struct {
	v1alpha1.MemoryLocality
	// ByClass says that the strategy of its class chose the policy, and not its annotation.
	ByClass bool
	// Source is where the policy is written. Text is another one for everything else that is
	// written there, and short: users may write a lot, and it is remembered.
	Source, Text string
}

// digest stands for a text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// PolicyOf reads the annotation of a pod or workload, and completes it by what its class gets,
// nil for nothing; source is where that is written. With problems in refused the policy is
// off. Fields in unknown change nothing.
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
			written, _ := json.Marshal(class) // nothing in it can fail to be written
			p.ByClass, p.Source, p.Text = true, source, digest(source+" "+string(written)+text)
		}
		p.MemoryLocality = p.Inherit(*class)
	}
	return p, nil, unknown
}

// Past is the last pass of a container that ended.
type Past struct {
	// Text is that of the policy that asked for it, and Local the nodes that were local, as a list.
	Text  string `json:"policy"`
	Local string `json:"local"`
	// Ended is when, since the host booted.
	Ended time.Duration `json:"ended"`
	// Well says that all processes were walked to the end.
	Well bool `json:"well,omitempty"`
}

// Due says whether a pass is due at a ratio. The first one of a policy is due at once if an
// annotation asked for it, and otherwise once the ratio is below the target. After it, and
// only with an interval, one is due again while the ratio is below the target. Other local
// nodes count as a first one that is due below the target.
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
