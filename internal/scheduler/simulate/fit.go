package simulate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
)

// The words of kube-scheduler for a node that its own filters refuse. People search for these words, so they are the
// same here.
const (
	reasonUnschedulable = "node(s) were unschedulable"
	reasonTaint         = "node(s) had untolerated taint(s)"
	reasonAffinity      = "node(s) didn't match Pod's node affinity/selector"
	reasonPods          = "Too many pods"
	reasonCPU           = "Insufficient cpu"
	reasonMemory        = "Insufficient memory"
)

// comparing is the feature gate TaintTolerationComparisonOperators, off by default.
const comparing = false

// refusal is why a node refuses a pod.
type refusal struct {
	// reasons are equal on all nodes that refuse for the same reason.
	reasons []string
	// detail has the figures of this node.
	detail string
}

func refuse(reason, format string, args ...any) *refusal {
	return &refusal{reasons: []string{reason}, detail: fmt.Sprintf(format, args...)}
}

// fits runs kube-scheduler's own checks, before Berth's; nil means that the pod fits. The kubelet, which checks a
// preset pod, checks less.
func (n *node) fits(d *demand) *refusal {
	if !d.pod.Preset {
		if r := n.accepts(d.pod.Pod); r != nil {
			return r
		}
	}
	if match, err := d.affinity.Match(n.object); err != nil || !match {
		return refuse(reasonAffinity, "the pod asks for other labels: %s", labelsText(n.object.Labels, d.pod.Pod))
	}
	return n.hasRoom(d)
}

// accepts checks whether the node is open for the pod at all.
func (n *node) accepts(p *v1.Pod) *refusal {
	closed := &v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	if n.object.Spec.Unschedulable && !corehelpers.TolerationsTolerateTaint(klog.Logger{}, p.Spec.Tolerations, closed, comparing) {
		return refuse(reasonUnschedulable, "spec.unschedulable is true")
	}
	taint, untolerated := corehelpers.FindMatchingUntoleratedTaint(klog.Logger{}, n.object.Spec.Taints, p.Spec.Tolerations,
		func(t *v1.Taint) bool {
			return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
		}, comparing)
	if untolerated {
		return refuse(reasonTaint, "the taint %s is not tolerated", taint.ToString())
	}
	return nil
}

// hasRoom compares the pod's requests with the free resources of the node.
func (n *node) hasRoom(d *demand) *refusal {
	r := refusal{}
	var details []string
	add := func(reason, format string, args ...any) {
		r.reasons = append(r.reasons, reason)
		details = append(details, fmt.Sprintf(format, args...))
	}
	if n.pods >= n.allocatable.pods {
		add(reasonPods, "pods: %d of %d are there", n.pods, n.allocatable.pods)
	}
	if free := n.allocatable.milli - n.milli; d.milli > 0 && d.milli > free {
		add(reasonCPU, "CPUs: %s requested, %s of %s left", cpusOf(d.milli), cpusOf(free), cpusOf(n.allocatable.milli))
	}
	if free, want := n.allocatable.memory-n.requested.ScheduledMemory, d.requests.ScheduledMemory; want > 0 && want > free {
		add(reasonMemory, "memory: %s requested, %s of %s left", bytesOf(want), bytesOf(free), bytesOf(n.allocatable.memory))
	}
	for _, one := range d.requests.ScheduledHuge {
		has := n.allocatable.huge.Of(one.Size)
		if free := has - n.requested.ScheduledHuge.Of(one.Size); one.Bytes > free {
			name := v1.ResourceHugePagesPrefix + resource.NewQuantity(one.Size, resource.BinarySI).String()
			add("Insufficient "+name, "%s: %s requested, %s of %s left", name, bytesOf(one.Bytes), bytesOf(free), bytesOf(has))
		}
	}
	if len(details) == 0 {
		return nil
	}
	r.detail = strings.Join(details, "; ")
	return &r
}

// labelsText returns the node's values of the labels that the pod selects by.
func labelsText(labels map[string]string, p *v1.Pod) string {
	asked := map[string]bool{}
	for key := range p.Spec.NodeSelector {
		asked[key] = true
	}
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, expression := range term.MatchExpressions {
				asked[expression.Key] = true
			}
		}
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		value, there := labels[key]
		if !there {
			parts = append(parts, "no "+key+" here")
			continue
		}
		parts = append(parts, key+"="+value+" here")
	}
	if len(parts) == 0 {
		return "see its node affinity"
	}
	return strings.Join(parts, ", ")
}

// cpusOf formats thousandths of a CPU as a number of CPUs.
func cpusOf(milli int64) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%03d", milli/1000, milli%1000), "0"), ".")
}

func bytesOf(n int64) string {
	const mebi, gibi = 1 << 20, 1 << 30
	if n == math.MaxInt64 {
		return "unknown"
	}
	if n%gibi == 0 || n >= 100*gibi {
		return fmt.Sprintf("%d GiB", n/gibi)
	}
	return fmt.Sprintf("%d MiB", n/mebi)
}
