package kubepod

import (
	v1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"
)

// SetDefaults sets the requests that an API server sets when a pod is created. A container requests its limit. A pod
// with pod-level limits requests the sum of its containers' requests, else its limit. SetDefaults changes p, which must
// come from a manifest and not from an API server's cache.
func SetDefaults(p *v1.Pod) {
	for i := range p.Spec.Containers {
		requestLimits(&p.Spec.Containers[i].Resources)
	}
	for i := range p.Spec.InitContainers {
		requestLimits(&p.Spec.InitContainers[i].Resources)
	}
	own := p.Spec.Resources
	if own == nil || len(own.Limits) == 0 {
		return
	}
	sums := resource.AggregateContainerRequests(p, resource.PodResourcesOptions{})
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if sum, found := sums[name]; found {
			request(own, name, sum)
		}
	}
	requestLimits(own)
}

// requestLimits adds a request for every limit without a request.
func requestLimits(r *v1.ResourceRequirements) {
	for name, limit := range r.Limits {
		request(r, name, limit)
	}
}

// request adds a missing request.
func request(r *v1.ResourceRequirements, name v1.ResourceName, amount apiresource.Quantity) {
	if _, found := r.Requests[name]; found {
		return
	}
	if r.Requests == nil {
		r.Requests = v1.ResourceList{}
	}
	r.Requests[name] = amount.DeepCopy()
}
