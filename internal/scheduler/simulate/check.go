package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-project/berth/api/v1alpha1"
)

// Bounds of a quantity, above any machine, so that sums fit into an int64.
const (
	maxCPUs  = 1_000_000
	maxBytes = 1 << 50
)

// problems collects the problems of one object.
type problems struct{ all v1alpha1.FieldErrors }

func (p *problems) add(field string, value any, allowed string) {
	problem := v1alpha1.FieldError{Field: field, Allowed: allowed}
	if value != nil && value != "" {
		problem.Value = v1alpha1.Show(value)
	}
	p.all = append(p.all, problem)
}

func checkName(field, name string) v1alpha1.FieldErrors {
	var p problems
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		p.add(field, name, "a name: "+wrong[0])
	}
	return p.all
}

// checkPod checks what placement depends on; an API server checks more. prefix is the path of the pod: "" or
// "spec.template.".
func checkPod(prefix string, meta *metav1.ObjectMeta, spec *v1.PodSpec) v1alpha1.FieldErrors {
	var p problems
	if prefix == "" {
		p.all = checkName("metadata.name", meta.Name)
	}
	if wrong := validation.IsDNS1123Label(meta.Namespace); len(wrong) > 0 && meta.Namespace != "" {
		p.add(prefix+"metadata.namespace", meta.Namespace, "a name: "+wrong[0])
	}
	if len(spec.Containers) == 0 {
		p.add(prefix+"spec.containers", nil, "at least one container")
	}
	names := map[string]bool{}
	p.containers(prefix+"spec.containers", spec.Containers, names)
	p.containers(prefix+"spec.initContainers", spec.InitContainers, names)
	if spec.Resources != nil {
		p.resources(prefix+"spec.resources", *spec.Resources)
	}
	p.resourceList(prefix+"spec.overhead", spec.Overhead)
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		required := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		if _, err := nodeaffinity.NewNodeSelector(required); err != nil {
			p.add(prefix+"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution", required, err.Error())
		}
	}
	return p.all
}

func (p *problems) containers(field string, containers []v1.Container, names map[string]bool) {
	for i := range containers {
		c, at := &containers[i], index(field, i)
		if wrong := validation.IsDNS1123Label(c.Name); len(wrong) > 0 {
			p.add(at+".name", c.Name, "a name: "+wrong[0])
		} else if names[c.Name] {
			p.add(at+".name", c.Name, "a name that no other container of the pod has")
		}
		names[c.Name] = true
		p.resources(at+".resources", c.Resources)
	}
}

func (p *problems) resources(field string, r v1.ResourceRequirements) {
	own := maps.Clone(r.Requests)
	maps.DeleteFunc(own, func(name v1.ResourceName, request resource.Quantity) bool {
		limit, limited := r.Limits[name]
		return limited && request.Equal(limit) // copied from the limit, which is reported
	})
	p.resourceList(field+".requests", own)
	p.resourceList(field+".limits", r.Limits)
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		request := r.Requests[name]
		if limit, limited := r.Limits[name]; limited && request.Cmp(limit) > 0 {
			p.add(fmt.Sprintf("%s.requests[%s]", field, name), request.String(), "at most the limit, "+limit.String())
		}
	}
}

func (p *problems) resourceList(field string, list v1.ResourceList) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		high, unit := int64(maxBytes), "0 to 1Pi"
		if name == v1.ResourceCPU {
			high, unit = maxCPUs, fmt.Sprintf("0 to %d CPUs", maxCPUs)
		}
		quantity := list[name]
		if quantity.Sign() < 0 || quantity.Cmp(*resource.NewQuantity(high, resource.DecimalSI)) > 0 {
			p.add(fmt.Sprintf("%s[%s]", field, name), quantity.String(), unit)
		}
	}
}

func checkNode(n *v1.Node) v1alpha1.FieldErrors {
	p := problems{all: checkName("metadata.name", n.Name)}
	p.resourceList("status.allocatable", n.Status.Allocatable)
	for i, taint := range n.Spec.Taints {
		effects := []string{string(v1.TaintEffectNoSchedule), string(v1.TaintEffectPreferNoSchedule), string(v1.TaintEffectNoExecute)}
		if !slices.Contains(effects, string(taint.Effect)) {
			p.add(index("spec.taints", i)+".effect", string(taint.Effect), strings.Join(effects, ", "))
		}
	}
	return p.all
}
