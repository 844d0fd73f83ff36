package simulate

import (
	"cmp"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/kubepod"
)

// copies are the pods of a workload: count of them, numbered from first on.
type copies struct {
	template v1.PodTemplateSpec
	count    int32
	first    int32
	// counted is the field that has the count, "" for spec.replicas.
	counted string
}

// field returns the field to report for an invalid number of pods.
func (c copies) field() string {
	if c.first < 0 {
		return "spec.ordinals.start"
	}
	return cmp.Or(c.counted, "spec.replicas")
}

// atLeastOne returns the count of replicas, 1 if unset.
func atLeastOne(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// atOnce returns how many pods of a job run at the same time.
func atOnce(j batchv1.JobSpec) int32 {
	n := atLeastOne(j.Parallelism)
	if j.Completions != nil {
		n = min(n, *j.Completions)
	}
	if j.Suspend != nil && *j.Suspend {
		return 0
	}
	return n
}

// replicas creates the pods of a workload, named after it and numbered, so that the same input always has the same
// pods.
func (r *reader) replicas(meta *metav1.ObjectMeta, kind string, c copies) v1alpha1.FieldErrors {
	if problem := checkName("metadata.name", meta.Name); problem != nil {
		return problem
	}
	if c.count < 0 || c.first < 0 || len(r.objects.Pods)+int(c.count) > maxPods {
		return v1alpha1.FieldErrors{{
			Field: c.field(), Value: fmt.Sprintf("%d pods numbered from %d", c.count, c.first),
			Allowed: fmt.Sprintf("0 or more, and at most %d pods in total", maxPods),
		}}
	}
	if problems := checkPod("spec.template.", &c.template.ObjectMeta, &c.template.Spec); problems != nil {
		return problems
	}
	namespace := cmp.Or(meta.Namespace, v1.NamespaceDefault)
	all := (&v1.Pod{ObjectMeta: c.template.ObjectMeta, Spec: c.template.Spec}).DeepCopy()
	kubepod.SetDefaults(all)
	all.Namespace, all.Name = namespace, meta.Name
	from := kind + " " + namespace + "/" + meta.Name
	for i := range c.count {
		r.objects.Pods = append(r.objects.Pods, Pod{
			Pod: all, Replica: fmt.Sprintf("%s-%d", meta.Name, c.first+i), From: from, Preset: all.Spec.NodeName != "",
		})
	}
	return nil
}
