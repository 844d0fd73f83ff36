package cluster

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
)

// randomPod returns a pod of a random kind, with the name of the kind.
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
	if rng.IntN(4) == 0 { // The node takes a moment to remove it.
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
	one := expectation{CPUs: app(count)}
	switch draw := rng.IntN(100); {
	case draw < 28:
		return "ordinary", podObject(name, fmt.Sprintf("%dm", 100+rng.IntN(3000)), "")
	case draw < 32:
		return "ordinary, without a request", podObject(name, "", "")
	case draw < 50:
		return "pinned", pinnedPod(name, count)
	case draw < 58:
		return "pinned, request below limit", pinnedPod(name, count, requesting("500m"))
	case draw < 65:
		milli := 1000*count - rng.IntN(900)
		return "static-burst", podObject(name, "100m", fmt.Sprintf("%dm", milli),
			annotated(v1alpha1.AnnotationCPUSetScheduler, "true"), annotated(v1alpha1.AnnotationCPUPolicy, "static-burst"),
			expecting(expectation{CPUs: app(count), Burst: true}))
	case draw < 70:
		return "pinned, two containers and one that is not", pinnedPod(name, count,
			withContainers(container("second", "1", "2"), container("shared", "250m", "500m")),
			expecting(expectation{CPUs: map[string]int{"app": count, "second": 2}}))
	case draw < 73:
		return "pinned, with a sidecar and an init container", pinnedPod(name, count,
			withSidecar(container("side", "1", "1")), withInit(container("init", "1", "1")),
			expecting(expectation{CPUs: map[string]int{"app": count, "side": 1}}))
	case draw < 76:
		return "pinned as a whole", pinnedPod(name, count, withContainers(container("second", "", "")), asWhole(fmt.Sprint(count)),
			expecting(expectation{CPUs: map[string]int{"app": count, "second": count}, Shared: true}))
	case draw < 79:
		return "pinned by its class", podObject(name, fmt.Sprint(count), fmt.Sprint(count), labelled(v1alpha1.LabelQoSClass, "LSR"), expecting(one))
	case draw < 83:
		one.FullCores = true
		return "pinned, whole cores", pinnedPod(name, count, spec(`{"requiredCPUBindPolicy":"FullPCPUs"}`), expecting(one))
	case draw < 86:
		one.Spread = true
		return "pinned, spread", pinnedPod(name, count, spec(`{"requiredCPUBindPolicy":"SpreadByPCPUs"}`), expecting(one))
	case draw < 89:
		one.OneNode = true
		return "pinned, one NUMA node", pinnedPod(name, count, numa(`{"numaTopologyPolicy":"SingleNUMANode"}`), expecting(one))
	case draw < 92:
		one.Exclusive = v1alpha1.CPUExclusivePCPULevel
		return "pinned, cores alone", pinnedPod(name, count, spec(`{"requiredCPUExclusivePolicy":"PCPULevel"}`), expecting(one))
	case draw < 93:
		one.Exclusive = v1alpha1.CPUExclusiveNUMANodeLevel
		return "pinned, NUMA nodes alone", pinnedPod(name, count, spec(`{"requiredCPUExclusivePolicy":"NUMANodeLevel"}`), expecting(one))
	case draw < 95:
		return "pinned, preferably alone and spread", pinnedPod(name, count,
			spec(`{"preferredCPUBindPolicy":"SpreadByPCPUs","preferredCPUExclusivePolicy":"PCPULevel"}`),
			numa(`{"numaTopologyPolicy":"Restricted","singleNUMANodeExclusive":"Preferred"}`))
	case draw < 97:
		return "pinned, with a forged placement", pinnedPod(name, count, annotated(v1alpha1.AnnotationPlacement, forged))
	default: // Treated as an ordinary pod, with a warning.
		return "invalid", podObject(name, "500m", "500m", annotated(v1alpha1.AnnotationCPUSetScheduler, "yes"))
	}
}
