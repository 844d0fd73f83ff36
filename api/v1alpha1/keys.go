package v1alpha1

import (
	"slices"
	"strings"
)

// APIVersion and the kinds of documents of this package.
const (
	// APIVersion is the value of apiVersion in every document.
	APIVersion = "berth.dev/v1alpha1"
	// KindWorkload is the kind of a standalone workload.
	KindWorkload = "Workload"
)

// Keys that ACK and Koordinator defined first: manifests written for them work unchanged.
const (
	// LabelQoSClass is the label with the class of a workload, a QoSClass.
	LabelQoSClass = "koordinator.sh/qosClass"
	// AnnotationCPUBurst holds a CPUBurst as JSON.
	AnnotationCPUBurst = "koordinator.sh/cpuBurst"
	// AnnotationCPUBurstAlias is ACK's name for AnnotationCPUBurst. If both are present AnnotationCPUBurst takes
	// effect.
	AnnotationCPUBurstAlias = "alibabacloud.com/cpuBurst"
)

// Domains returns the domains whose keys are meant for Berth and its peers.
func Domains() []string { return []string{"berth.dev", "koordinator.sh", "alibabacloud.com"} }

// QoSClass is the value of LabelQoSClass.
type QoSClass string

// The classes. All classes but QoSBE are online.
const (
	// QoSLSE asks for exclusive CPUs, as QoSLSR does.
	QoSLSE QoSClass = "LSE"
	// QoSLSR asks for exclusive CPUs, unless AnnotationCPUSetScheduler says otherwise.
	QoSLSR QoSClass = "LSR"
	// QoSLS is online work that asks for no exclusive CPUs by its class.
	QoSLS QoSClass = "LS"
	// QoSBE is offline work: it uses the CPU time that other work leaves.
	QoSBE QoSClass = "BE"
	// QoSSystem is a part of the system, which may also use the reserved CPUs.
	QoSSystem QoSClass = "SYSTEM"
)

// QoSClasses returns the classes in the order of messages and documentation.
func QoSClasses() []QoSClass {
	return []QoSClass{QoSLSE, QoSLSR, QoSLS, QoSBE, QoSSystem}
}

// Offline reports whether work of this class is offline: it uses the CPU time that other work leaves. The empty class
// is online.
func (c QoSClass) Offline() bool { return c == QoSBE }

// CPUBurstPolicy says which ways of bursting a workload may use.
type CPUBurstPolicy string

// The burst policies.
const (
	// CPUBurstNone writes nothing.
	CPUBurstNone CPUBurstPolicy = "none"
	// CPUBurstOnly uses the kernel's own burst (cpu.max.burst).
	CPUBurstOnly CPUBurstPolicy = "cpuBurstOnly"
	// CFSQuotaBurstOnly raises the quota while there is credit.
	CFSQuotaBurstOnly CPUBurstPolicy = "cfsQuotaBurstOnly"
	// CPUBurstAuto does both.
	CPUBurstAuto CPUBurstPolicy = "auto"
)

// CPUBurstPolicies returns the policies in the order of messages and documentation.
func CPUBurstPolicies() []CPUBurstPolicy {
	return []CPUBurstPolicy{CPUBurstNone, CPUBurstOnly, CFSQuotaBurstOnly, CPUBurstAuto}
}

// KernelBurst reports whether the policy uses the kernel's own burst.
func (p CPUBurstPolicy) KernelBurst() bool { return p == CPUBurstOnly || p == CPUBurstAuto }

// QuotaBurst reports whether the policy moves the quota.
func (p CPUBurstPolicy) QuotaBurst() bool { return p == CFSQuotaBurstOnly || p == CPUBurstAuto }

// longestValue is how many bytes of an annotation's value OwnAnnotations retains: more than any valid value has.
const longestValue = 16 << 10

// OwnAnnotations returns the annotations of a pod that Berth may read. There are few of them; other annotations may be
// large and change often. A value that is too long to be valid is cut, and remains invalid. The result is nil if there
// are none.
func OwnAnnotations(all map[string]string) map[string]string {
	var own map[string]string
	for key, value := range all {
		domain, _, found := strings.Cut(key, "/")
		if found && !ownDomain(domain) || !found && key != AnnotationCPUSetScheduler && key != AnnotationCPUPolicy {
			continue
		}
		if own == nil {
			own = map[string]string{}
		}
		own[key] = value[:min(len(value), longestValue)]
	}
	return own
}

// ownDomain reports whether a domain is one of Domains, or below one.
func ownDomain(domain string) bool {
	return slices.ContainsFunc(Domains(), func(known string) bool {
		return domain == known || strings.HasSuffix(domain, "."+known)
	})
}
