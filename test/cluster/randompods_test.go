package cluster

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
)

// randomPod makes a pod of a random kind and names the kind.
func randomPod(rng *rand.Rand, name string) (kind string, pod *v1.Pod) {
	count := 1 + rng.IntN(8)
	if rng.IntN(10) == 0 {
		count = 8 + rng.IntN(16)
	}
	kind, pod = podOfKind(rng, name, count)
	if rng.IntN(12) == 0 {
		withPriority("urgent")(pod)
		kind += ", urgent"
	}
	if rng.IntN(4) == 0 { // The node takes a moment to let it go.
		seconds := int64(30)
		pod.Spec.TerminationGracePeriodSeconds = &seconds
	}
	return kind, pod
}

func podOfKind(rng *rand.Rand, name string, count int) (kind string, pod *v1.Pod) {
	spec := func(text string) podOption { return annotated(v1alpha1.AnnotationResourceSpec, text) }
	numa := func(text string) podOption { return annotated(v1alpha1.AnnotationNUMATopologySpec, text) }
	app := func(n int) map[string]int { return map[string]int{"app": n} }
	const forged = `{"v":1,"topology":"0123456789abcdef","containers":{"app":{"cpus":"0-1","mems":"0","policy":"exclusive"}}}`
	switch draw := rng.IntN(100); {
	case draw < 30:
		return "ordinary", podObject(name, fmt.Sprintf("%dm", 100+rng.IntN(3000)), "")
	case draw < 35:
		return "ordinary, without a request", podObject(name, "", "")
	case draw < 55:
		return "pinned", pinnedPod(name, count)
	case draw < 65:
		return "pinned, request below limit", pinnedPod(name, count, requesting("500m"))
	case draw < 73:
		milli := 1000*count - rng.IntN(900)
		return "static-burst", podObject(name, "100m", fmt.Sprintf("%dm", milli),
			annotated(v1alpha1.AnnotationCPUSetScheduler, "true"), annotated(v1alpha1.AnnotationCPUPolicy, "static-burst"),
			expecting(expectation{CPUs: app(count), Burst: true}))
	case draw < 80:
		return "pinned, two containers and one that is not", pinnedPod(name, count,
			withContainers(container("second", "1", "2"), container("shared", "250m", "500m")),
			expecting(expectation{CPUs: map[string]int{"app": count, "second": 2}}))
	case draw < 84:
		return "pinned, whole cores", pinnedPod(name, count, spec(`{"requiredCPUBindPolicy":"FullPCPUs"}`),
			expecting(expectation{CPUs: app(count), FullCores: true}))
	case draw < 88:
		return "pinned, one NUMA node", pinnedPod(name, count, numa(`{"numaTopologyPolicy":"SingleNUMANode"}`),
			expecting(expectation{CPUs: app(count), OneNode: true}))
	case draw < 92:
		return "pinned, cores alone", pinnedPod(name, count, spec(`{"requiredCPUExclusivePolicy":"PCPULevel"}`),
			expecting(expectation{CPUs: app(count), Exclusive: v1alpha1.CPUExclusivePCPULevel}))
	case draw < 94:
		return "pinned, NUMA nodes alone", pinnedPod(name, count, spec(`{"requiredCPUExclusivePolicy":"NUMANodeLevel"}`),
			expecting(expectation{CPUs: app(count), Exclusive: v1alpha1.CPUExclusiveNUMANodeLevel}))
	case draw < 97:
		return "pinned, with a forged placement", pinnedPod(name, count, annotated(v1alpha1.AnnotationPlacement, forged))
	default: // Read as an ordinary pod, with a warning.
		return "invalid", podObject(name, "500m", "500m", annotated(v1alpha1.AnnotationCPUSetScheduler, "yes"))
	}
}
