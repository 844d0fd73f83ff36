package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ValidateBurstStrategies returns every problem of s.
func ValidateBurstStrategies(s BurstStrategies) FieldErrors {
	var e FieldErrors
	e.burstStrategy("clusterStrategy", s.ClusterStrategy)
	for i, node := range s.NodeStrategies {
		at := index("nodeStrategies", i)
		e.profile(at, node.NodeProfile)
		e.burstStrategy(at, node.BurstStrategy)
	}
	return e
}

func (e *FieldErrors) burstStrategy(at string, s BurstStrategy) {
	for _, problem := range ValidateCPUBurst(s.CPUBurst) {
		problem.Field = at + "." + problem.Field
		*e = append(*e, problem)
	}
	e.between(at+".sharePoolThresholdPercent", s.SharePoolThresholdPercent, 0, 100)
}

// profile checks that the selector of nodes is present and valid.
func (e *FieldErrors) profile(at string, p NodeProfile) {
	const allowed = `labels of the nodes, for example {"matchLabels": {"pool": "web"}}`
	if p.NodeSelector == nil {
		e.add(at+".nodeSelector", nil, allowed)
		return
	}
	if _, err := metav1.LabelSelectorAsSelector(p.NodeSelector); err != nil {
		e.add(at+".nodeSelector", p.NodeSelector, allowed+": "+err.Error())
	}
}

// ValidateResourceQOS returns every problem of s, in the fields that Berth reads.
func ValidateResourceQOS(s ResourceQOSStrategies) FieldErrors {
	var e FieldErrors
	e.resourceQOS("clusterStrategy", s.ClusterStrategy)
	for i, node := range s.NodeStrategies {
		at := index("nodeStrategies", i)
		e.profile(at, node.NodeProfile)
		e.resourceQOS(at, node.ResourceQOS)
	}
	return e
}

func (e *FieldErrors) resourceQOS(at string, q ResourceQOS) {
	if q.Policies != nil && q.Policies.CPUPolicy != nil {
		oneOf(e, at+".policies.cpuPolicy", *q.Policies.CPUPolicy, CPUPolicies())
	}
	for _, class := range []struct {
		name string
		qos  *ClassQOS
	}{{"lsrClass", q.LSRClass}, {"lsClass", q.LSClass}, {"beClass", q.BEClass}, {"systemClass", q.SystemClass}} {
		if class.qos != nil && class.qos.CPUQOS != nil {
			e.cpuQOS(at+"."+class.name+".cpuQOS.", *class.qos.CPUQOS)
		}
		if class.qos != nil && class.qos.MemoryLocality != nil {
			e.memoryLocality(at+"."+class.name+".memoryLocality.", *class.qos.MemoryLocality)
		}
	}
}

// ValidateResourceThreshold returns every problem of s, in the fields that Berth reads.
func ValidateResourceThreshold(s ResourceThresholdStrategies) FieldErrors {
	var e FieldErrors
	e.resourceThreshold("clusterStrategy", s.ClusterStrategy)
	for i, node := range s.NodeStrategies {
		at := index("nodeStrategies", i)
		e.profile(at, node.NodeProfile)
		e.resourceThreshold(at, node.ResourceThreshold)
	}
	return e
}

func (e *FieldErrors) resourceThreshold(at string, r ResourceThreshold) {
	e.between(at+".cpuSuppressThresholdPercent", r.CPUSuppressThresholdPercent, 0, 100)
	e.between(at+".cpuSuppressMinPercent", r.CPUSuppressMinPercent, 0, 100)
	if r.CPUSuppressPolicy != nil {
		oneOf(e, at+".cpuSuppressPolicy", *r.CPUSuppressPolicy, CPUSuppressPolicies())
	}
}
