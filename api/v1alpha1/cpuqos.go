package v1alpha1

// AnnotationCPUQOS holds a ClassCPUQOS as JSON, for one pod or workload. Koordinator defined it.
const AnnotationCPUQOS = "koordinator.sh/cpuQOS"

// Values of QOSPolicies.CPUPolicy: the ways of keeping classes apart.
const (
	// CPUPolicyGroupIdentity uses precedence. It is the default.
	CPUPolicyGroupIdentity = "groupIdentity"
	// CPUPolicyCoreSched makes the kernel keep offline threads off the SMT siblings of other threads.
	CPUPolicyCoreSched = "coreSched"
)

// CPUPolicies returns the values of QOSPolicies.CPUPolicy in the order of messages and documentation.
func CPUPolicies() []string { return []string{CPUPolicyGroupIdentity, CPUPolicyCoreSched} }

// GroupIdentityYields is the identity of work that runs only when no other work does.
const GroupIdentityYields = -1

// DefaultGroupIdentity returns the identity of a class that has none configured.
func DefaultGroupIdentity(class QoSClass) int64 {
	switch class {
	case QoSBE:
		return GroupIdentityYields
	case QoSSystem:
		return 0
	case QoSLSE, QoSLSR, QoSLS:
	}
	return 2
}

// DecodeCPUQOS reads the value of AnnotationCPUQOS, as DecodeCPUBurst does.
func DecodeCPUQOS(value string) (q ClassCPUQOS, refused, unknown FieldErrors) {
	shape, unknown := decodeKnown(value, &q)
	var e FieldErrors
	e.cpuQOS("", q)
	return q, append(shape, unnamed(shape, e)...), unknown
}

// cpuQOS checks the fields of q, whose names have the prefix at.
func (e *FieldErrors) cpuQOS(at string, q ClassCPUQOS) {
	e.between(at+"groupIdentity", q.GroupIdentity, GroupIdentityYields, 2)
	e.between(at+"schedIdle", q.SchedIdle, 0, 1)
}

// Inherit returns q with every absent field copied from parent.
func (q ClassCPUQOS) Inherit(parent ClassCPUQOS) ClassCPUQOS {
	inherit(&q.Enable, parent.Enable)
	inherit(&q.GroupIdentity, parent.GroupIdentity)
	inherit(&q.SchedIdle, parent.SchedIdle)
	inherit(&q.CoreExpeller, parent.CoreExpeller)
	return q
}

// CPU returns the CPUPolicy, "" if it is absent.
func (p *QOSPolicies) CPU() string {
	if p == nil || p.CPUPolicy == nil {
		return ""
	}
	return *p.CPUPolicy
}
