package workload

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/unit"
)

// ErrDisabled is why a policy is off if the administrator switched bursting off.
var ErrDisabled = errors.New("bursting is switched off (burst.enabled: false)")

// Administrator is the part of the agent's file that decides about workloads.
type Administrator struct {
	// File is the name of the agent's file, for messages.
	File string
	// Strategy completes the policy of a workload. A nil field has its default.
	Strategy v1alpha1.CPUBurst
	// Source names the origin of Strategy; empty means the clusterStrategy of File.
	Source string
	// Enabled is false if the administrator switched every policy off.
	Enabled bool
	// MaxPercent caps the ceiling of every quota, 100 to 10000 percent.
	MaxPercent int64
	// MaxPeriodSeconds caps the credit period of every annotation, 0 to 86400 seconds. AllowUnlimited permits
	// annotations to ask for unlimited credit.
	MaxPeriodSeconds int64
	AllowUnlimited   bool
	// Pinning limits the exclusive CPUs of pods.
	Pinning v1alpha1.PinRules
	// QOS is the settings of the classes of workloads.
	QOS v1alpha1.ResourceQOS
	// Threshold is how much offline workloads may use.
	Threshold v1alpha1.ResourceThreshold
	// Peers are the peers whose ConfigMaps take effect, in addition to Berth's own.
	Peers []v1alpha1.PeerConfig
}

// AdministratorOf returns the part of cfg, read from file, that decides about
// workloads. Absent fields get their defaults.
func AdministratorOf(file string, cfg v1alpha1.AgentConfig) Administrator {
	v1alpha1.SetAgentConfigDefaults(&cfg)
	return Administrator{
		File:             file,
		Strategy:         cfg.CPUBurst.ClusterStrategy.CPUBurst,
		Enabled:          *cfg.Burst.Enabled,
		MaxPercent:       *cfg.Burst.MaxPercent,
		MaxPeriodSeconds: *cfg.Burst.MaxPeriodSeconds,
		AllowUnlimited:   *cfg.Burst.AllowUnlimited,
		Pinning:          cfg.Cluster.Pinning,
		QOS:              cfg.ResourceQOS.ClusterStrategy,
		Threshold:        cfg.ResourceThreshold.ClusterStrategy,
		Peers:            cfg.ReadPeerConfig,
	}
}

// Above returns the problem of a ceiling, in field, that is above MaxPercent.
func (a Administrator) Above(field string, percent int64) v1alpha1.FieldError {
	return v1alpha1.FieldError{
		Field: field, Value: v1alpha1.Show(percent),
		Allowed: fmt.Sprintf("at most burst.maxPercent of %s, %d, which counts instead", a.File, a.MaxPercent),
	}
}

// capPeriod caps the credit period that an annotation, in field, asks for. It does not cap the administrator's own
// strategies.
func (a Administrator) capPeriod(b *Burst, field string, f *Findings) {
	asked, allowed := b.PeriodSeconds, ""
	switch {
	case asked < 0 && !a.AllowUnlimited:
		allowed = fmt.Sprintf("only with burst.allowUnlimited of %s; burst.maxPeriodSeconds, %d, counts instead", a.File, a.MaxPeriodSeconds)
	case asked > a.MaxPeriodSeconds:
		allowed = fmt.Sprintf("at most burst.maxPeriodSeconds of %s, %d, which counts instead", a.File, a.MaxPeriodSeconds)
	default:
		return
	}
	if b.QuotaBurst {
		f.warn(field+".cfsQuotaBurstPeriodSeconds", asked, allowed)
	}
	b.PeriodSeconds = a.MaxPeriodSeconds
}

// Findings is what users should know about a workload that is nevertheless in effect.
type Findings struct {
	// Refused are the mistakes that switched a policy off: event InvalidPolicy.
	Refused v1alpha1.FieldErrors
	// Warnings are values that do less than requested.
	Warnings v1alpha1.FieldErrors
}

func (f Findings) inFile(file string) Findings {
	return Findings{Refused: f.Refused.InFile(file), Warnings: f.Warnings.InFile(file)}
}

// resolveBurst decides the burst policy of one workload, and finds mistyped keys.
func resolveBurst(annotations map[string]string, admin Administrator) (Burst, Findings) {
	var slips Findings
	warnUnknown(annotations, &slips)
	burst, f := BurstOf(annotations, admin)
	f.Warnings = append(slips.Warnings, f.Warnings...)
	return burst, f
}

// BurstOf decides the burst policy for annotations. It ignores keys that are not about bursting.
func BurstOf(annotations map[string]string, admin Administrator) (Burst, Findings) {
	var f Findings
	strategy := cmp.Or(admin.Source, "clusterStrategy of "+admin.File)
	key, found := burstKey(annotations, &f)
	if !found {
		return decide(admin.Strategy, strategy, "", admin, &f), f
	}
	source, field := "annotation "+key, fieldOf(key)
	own, problems, unknown := v1alpha1.DecodeCPUBurst(annotations[key])
	f.Warnings = append(f.Warnings, unknown.InAnnotation(key)...)
	if len(problems) > 0 {
		f.Refused = problems.InAnnotation(key)
		return Burst{Policy: string(v1alpha1.CPUBurstNone), Source: source, Off: f.Refused}, f
	}
	if own.Policy == nil {
		source = "policy of " + strategy + ", " + source
	}
	ceiling := field
	if own.CFSQuotaBurstPercent == nil {
		ceiling = "" // the capped value is the strategy's, not the user's
	}
	b := decide(own.Inherit(admin.Strategy), source, ceiling, admin, &f)
	if own.CFSQuotaBurstPeriodSeconds != nil {
		admin.capPeriod(&b, field, &f)
	}
	return b, f
}

// burstKey returns the name of the annotation that takes effect, of the two names.
func burstKey(annotations map[string]string, f *Findings) (string, bool) {
	value, found := annotations[v1alpha1.AnnotationCPUBurst]
	alias, aliased := annotations[v1alpha1.AnnotationCPUBurstAlias]
	if found && aliased && value != alias {
		f.warn(fieldOf(v1alpha1.AnnotationCPUBurstAlias), alias, "the same as "+v1alpha1.AnnotationCPUBurst+", which counts instead")
	}
	switch {
	case found:
		return v1alpha1.AnnotationCPUBurst, true
	case aliased:
		return v1alpha1.AnnotationCPUBurstAlias, true
	}
	return "", false
}

// decide turns a complete policy into a Burst and applies the administrator's switch and cap. field is the annotation
// with the ceiling. It is empty if the ceiling is the strategy's, whose cap is reported once, not for every workload.
func decide(p v1alpha1.CPUBurst, source, field string, admin Administrator, f *Findings) Burst {
	v1alpha1.SetCPUBurstDefaults(&p)
	b := Burst{
		Policy:          string(*p.Policy),
		KernelBurst:     p.Policy.KernelBurst(),
		QuotaBurst:      p.Policy.QuotaBurst(),
		CPUBurstPercent: *p.CPUBurstPercent,
		QuotaPercent:    *p.CFSQuotaBurstPercent,
		PeriodSeconds:   *p.CFSQuotaBurstPeriodSeconds,
		Source:          source,
	}
	if b.Wanted() && !admin.Enabled {
		return Burst{Policy: string(v1alpha1.CPUBurstNone), Source: "burst.enabled of " + admin.File, Off: ErrDisabled}
	}
	if b.QuotaPercent > admin.MaxPercent {
		if field != "" && b.QuotaBurst {
			f.Warnings = append(f.Warnings, admin.Above(field+".cfsQuotaBurstPercent", b.QuotaPercent))
		}
		b.QuotaPercent = admin.MaxPercent
	}
	return b
}

// warnUnknown reports keys in the domains that Berth knows that have no effect: a mistyped key must not pass in
// silence.
func warnUnknown(annotations map[string]string, f *Findings) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		domain, _, _ := strings.Cut(key, "/")
		switch key {
		case v1alpha1.AnnotationCPUBurst, v1alpha1.AnnotationCPUBurstAlias, v1alpha1.AnnotationMemoryLocality, v1alpha1.AnnotationCPUQOS:
			continue
		}
		if slices.Contains(v1alpha1.Domains(), domain) {
			f.warn(fieldOf(key), annotations[key], v1alpha1.AnnotationCPUBurst+": this key has no effect here")
		}
	}
}

func (f *Findings) warn(field string, value any, allowed string) {
	f.Warnings = append(f.Warnings, v1alpha1.FieldError{Field: field, Value: v1alpha1.Show(value), Allowed: allowed})
}

func fieldOf(annotation string) string { return "metadata.annotations[" + annotation + "]" }

// cpus converts a quantity, exact to a thousandth of a CPU; nil is 0.
func cpus(q *resource.Quantity) unit.CPUs {
	if q == nil {
		return 0
	}
	return unit.MilliCPUs(q.MilliValue())
}
