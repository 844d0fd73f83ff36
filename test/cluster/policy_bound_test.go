package cluster

import (
	"encoding/json"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/api/v1alpha1"
)

var dry = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// owned gives a pod a controller as its owner.
func owned(pod *v1.Pod) { pod.OwnerReferences = controlledBy("ReplicaSet") }

func controlledBy(kind string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "owner", UID: "1", Controller: &yes}}
}

// boundPodsStay checks that nobody can change the annotations that determined a pod's CPUs once it is bound.
func (a actors) boundPodsStay(t *testing.T) {
	ctx := t.Context()
	patch := func(name, what, key string, value any, subresources ...string) error {
		text, err := json.Marshal(map[string]any{"metadata": map[string]any{what: map[string]any{key: value}}})
		must(t, err)
		_, err = a.user.CoreV1().Pods("default").Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{}, subresources...)
		return err
	}
	changes := []struct {
		what, key string
		value     any
	}{
		{"annotations", v1alpha1.AnnotationCPUSetScheduler, "false"},
		{"annotations", v1alpha1.AnnotationCPUSetScheduler, nil},
		{"annotations", v1alpha1.AnnotationCPUPolicy, "static-burst"},
		{"annotations", v1alpha1.AnnotationResourceSpec, "{}"},
		{"annotations", v1alpha1.AnnotationNUMATopologySpec, "{}"},
		{"labels", v1alpha1.LabelQoSClass, "LSR"},
	}
	pod, err := create(ctx, a.user, pinnedPod("pinned", 4, annotated(v1alpha1.AnnotationCPUPolicy, "x"), annotated(v1alpha1.AnnotationResourceSpec, "x")))
	must(t, err)
	ordinary, err := create(ctx, a.user, podObject("ordinary", "1", "1"))
	must(t, err)
	must(t, patch("pinned", "annotations", v1alpha1.AnnotationCPUPolicy, nil)) // Not bound yet.
	must(t, patch("pinned", "annotations", v1alpha1.AnnotationResourceSpec, nil))
	must(t, a.scheduler.CoreV1().Pods("default").Bind(ctx, binding(pod, "n"), metav1.CreateOptions{}))
	plain := binding(ordinary, "n")
	plain.Annotations = nil
	must(t, a.scheduler.CoreV1().Pods("default").Bind(ctx, plain, metav1.CreateOptions{}))
	for _, c := range changes {
		mustContain(t, patch("pinned", c.what, c.key, c.value), "forbidden", c.key, "while the pod is on a node")
		mustContain(t, patch("pinned", c.what, c.key, c.value, "status"), c.key)
		if c.value != nil && c.value != "false" {
			mustContain(t, patch("ordinary", c.what, c.key, c.value), c.key)
		}
	}
	mustContain(t, patch("ordinary", "annotations", v1alpha1.AnnotationCPUSetScheduler, "true"), "cpuset-scheduler")
	for _, name := range []string{"pinned", "ordinary"} {
		must(t, patch(name, "labels", "harmless", "true"))
		must(t, patch(name, "annotations", "harmless", "true", "status"))
		must(t, a.user.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}))
	}
}

// controllersGoOn checks that existing objects continue to work, and that the policy checks each kind with a pod
// template.
func (a actors) controllersGoOn(t *testing.T) {
	wrong := annotated(v1alpha1.AnnotationCPUSetScheduler, "yes")
	const why = `value "yes": allowed: "true", "false"`
	ctx := t.Context()
	template := func(options ...podOption) v1.PodTemplateSpec {
		return templateOf(podObject("tried", "1", "1", options...))
	}
	job := func(options ...podOption) batch.JobSpec {
		spec := batch.JobSpec{Template: template(options...)}
		spec.Template.Spec.RestartPolicy = v1.RestartPolicyNever
		return spec
	}
	meta := metav1.ObjectMeta{Name: "tried"}
	kinds := map[string]func(owners []metav1.OwnerReference, options ...podOption) error{
		"ReplicaSet": func(owners []metav1.OwnerReference, options ...podOption) error {
			object := &apps.ReplicaSet{ObjectMeta: meta, Spec: apps.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "tried"}}, Template: template(options...)}}
			object.OwnerReferences = owners
			_, err := a.user.AppsV1().ReplicaSets("default").Create(ctx, object, dry)
			return err
		},
		"Job": func(owners []metav1.OwnerReference, options ...podOption) error {
			object := &batch.Job{ObjectMeta: meta, Spec: job(options...)}
			object.OwnerReferences = owners
			_, err := a.user.BatchV1().Jobs("default").Create(ctx, object, dry)
			return err
		},
		"CronJob": func(owners []metav1.OwnerReference, options ...podOption) error {
			object := &batch.CronJob{ObjectMeta: meta, Spec: batch.CronJobSpec{Schedule: "0 0 * * *", JobTemplate: batch.JobTemplateSpec{Spec: job(options...)}}}
			object.OwnerReferences = owners
			_, err := a.user.BatchV1().CronJobs("default").Create(ctx, object, dry)
			return err
		},
		"ReplicationController": func(owners []metav1.OwnerReference, options ...podOption) error {
			body := template(options...)
			object := &v1.ReplicationController{ObjectMeta: meta, Spec: v1.ReplicationControllerSpec{Selector: body.Labels, Template: &body}}
			object.OwnerReferences = owners
			_, err := a.client.CoreV1().ReplicationControllers("default").Create(ctx, object, dry)
			return err
		},
	}
	for kind, try := range kinds {
		t.Run(kind, func(t *testing.T) {
			must(t, try(nil))
			mustContain(t, try(nil, wrong), why)
			must(t, try(controlledBy("Other"), wrong))
			mustContain(t, try(nil, annotated(v1alpha1.AnnotationPlacement, somePlacement)), "not in a template")
		})
	}
	_, err := a.user.CoreV1().Pods("default").Create(ctx, podObject("owned", "1", "1", wrong, owned), dry)
	must(t, err)
}

// wholePodsAreNotRaised checks that the policy does not raise requests of pods whose containers must stay below the
// pod's own.
func (a actors) wholePodsAreNotRaised(t *testing.T) {
	whole := podObject("whole", "1", "4", annotated(v1alpha1.AnnotationCPUSetScheduler, "true"))
	whole.Spec.Resources = &v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")},
		Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("8")},
	}
	made, err := a.user.CoreV1().Pods("default").Create(t.Context(), whole, dry)
	must(t, err)
	if got := made.Spec.Containers[0].Resources.Requests.Cpu(); got.Value() != 1 {
		t.Errorf("request %s, want 1", got)
	}
}
