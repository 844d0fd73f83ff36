package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/cluster/vmnode"
	"github.com/berth-project/berth/test/patience"
)

// vmName is the name of the node in the virtual machine.
const vmName = "berth-vm"

// long limits how long an emulated machine may make no progress, in time during which this machine gave it CPU. It only
// limits how long a failure takes.
const long = 4 * time.Minute

// second is the node in the virtual machine, with the agent on it. The tests take a CPU of it offline and cut its
// power, which the test's own machine could not survive.
type second struct {
	*tour
	node *vmnode.Node
}

func running(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodRunning && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Running != nil
}

// clean removes all pods.
func (s *second) clean(t *testing.T) {
	t.Helper()
	now := int64(0)
	ctx := context.WithoutCancel(t.Context())
	if err := s.client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	s.eventually(t, "no pods", func() string {
		pods, err := s.mine(ctx)
		if err != nil || len(pods) > 0 {
			return fmt.Sprintf("%d, %v", len(pods), err)
		}
		return ""
	})
}

// create creates a pod with so many exclusive CPUs that prints its masks and waits. Options change the pod first.
func (s *second) create(t *testing.T, name string, cpus int, options ...func(*v1.Pod)) {
	t.Helper()
	grace := int64(1)
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: &grace, NodeSelector: map[string]string{v1.LabelHostname: vmName},
			Containers: []v1.Container{{Name: "app", Image: "berth-mask:1", ImagePullPolicy: v1.PullIfNotPresent}},
		},
	}
	if cpus > 0 {
		p.Annotations = map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"}
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")},
			Limits:   v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI)},
		}
	}
	for _, option := range options {
		option(p)
	}
	if _, err := s.client.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// start creates a pod and waits until it runs.
func (s *second) start(t *testing.T, name string, cpus int, options ...func(*v1.Pod)) {
	t.Helper()
	s.create(t, name, cpus, options...)
	s.runs(t, name)
}

// runs waits until a pod runs.
func (s *second) runs(t *testing.T, name string) {
	t.Helper()
	s.eventually(t, name+" runs", func() string {
		p, err := s.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if !running(p) {
			return fmt.Sprintf("%s %+v", p.Status.Phase, p.Status.Conditions)
		}
		return ""
	})
}

// pod returns a pod.
func (s *second) pod(t *testing.T, name string) *v1.Pod {
	t.Helper()
	p, err := s.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sameContainer checks that the container of a pod is still the given one, and never restarted.
func (s *second) sameContainer(t *testing.T, name, id string) {
	t.Helper()
	if p := s.pod(t, name); containerID(p) != id || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("%s: container %s was %s: %+v", name, containerID(p), id, p.Status.ContainerStatuses[0])
	}
}

func (s *second) drop(t *testing.T, name string) {
	t.Helper()
	if err := s.client.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// remove deletes a pod and waits until it is gone.
func (s *second) remove(t *testing.T, name string) {
	t.Helper()
	s.drop(t, name)
	s.eventually(t, name+" is gone", func() string {
		if _, err := s.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{}); err == nil {
			return "it is there"
		}
		return ""
	})
}

// given returns the CPUs of a pod's placement.
func (s *second) given(t *testing.T, name string) cpuset.Set {
	t.Helper()
	return claimed(s.pod(t, name))
}

func claimed(p *v1.Pod) cpuset.Set {
	placed, problems := v1alpha1.DecodePlacement(p.Annotations[v1alpha1.AnnotationPlacement])
	if len(problems) > 0 {
		return cpuset.Set{}
	}
	cpus, err := cpuset.Parse(placed.Containers["app"].CPUs)
	if err != nil {
		return cpuset.Set{}
	}
	return cpus
}

// resident is a container as the guest's kernel shows it.
type resident struct {
	pod     string
	ours    bool // belongs to this test, unlike the agent, whose group may have more CPUs than it uses
	offline bool
	claim   cpuset.Set
	// file and effective are cpuset.cpus and cpuset.cpus.effective; mask is the union of what its threads may use.
	file, effective, mask cpuset.Set
}

// survey prints a line for each container with processes: the pod's UID, and its CPUs in both files and in its
// processes. It uses the shell's own commands where possible, because the machine is emulated.
const survey = `cd /sys/fs/cgroup/kubepods.slice
for scope in */cri-containerd-*.scope */*/cri-containerd-*.scope; do
  first= name= cpus= effective= files=
  while read -r pid; do first=${first:-$pid} files="$files /proc/$pid/task/*/status"; done 2>/dev/null <$scope/cgroup.procs
  [ -n "$first" ] || continue
  { read -r name </proc/$first/comm; read -r cpus <$scope/cpuset.cpus; read -r effective <$scope/cpuset.cpus.effective; } 2>/dev/null
  [ "$name" = pause ] && continue
  set -- $(sed -n 's/^Cpus_allowed_list:\t//p' $files 2>/dev/null)
  IFS=, masks=$* uid=${scope##*-pod}
  unset IFS
  echo "${uid%%.slice*}|$cpus|$effective|$masks"
done`

// residents returns the containers in the machine.
func (s *second) residents(t *testing.T) []resident {
	t.Helper()
	pods, err := s.mine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byUID := map[types.UID]*v1.Pod{}
	for i := range pods {
		byUID[pods[i].UID] = &pods[i]
	}
	var all []resident
	for line := range strings.Lines(s.sh(t, survey)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 4 {
			continue
		}
		r := resident{pod: "a pod of another namespace: " + fields[0]}
		if p := byUID[types.UID(strings.ReplaceAll(fields[0], "_", "-"))]; p != nil {
			r = resident{pod: p.Name, claim: claimed(p), ours: true, offline: isOffline(p)}
		}
		for i, set := range []*cpuset.Set{&r.file, &r.effective, &r.mask} {
			if *set, err = cpuset.Parse(fields[i+1]); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		all = append(all, r)
	}
	return all
}

func (s *second) online(t *testing.T) cpuset.Set {
	t.Helper()
	cpus, err := cpuset.Parse(s.sh(t, "cat /sys/devices/system/cpu/online"))
	if err != nil {
		t.Fatal(err)
	}
	return cpus
}

// settled waits until annotation, files and masks agree, and no thread runs on a CPU that another container has
// exclusively.
func (s *second) settled(t *testing.T) {
	t.Helper()
	s.eventually(t, "what annotations, files and masks say", func() string {
		all := s.residents(t)
		var taken cpuset.Set
		for _, r := range all {
			if r.claim.IsEmpty() {
				continue
			}
			if r.file != r.claim || r.effective != r.claim || r.mask != r.claim {
				return fmt.Sprintf("%s: annotation %s, file %s, effective %s, mask %s", r.pod, r.claim, r.file, r.effective, r.mask)
			}
			if r.claim.Intersects(taken) {
				return fmt.Sprintf("%s has %s, others %s", r.pod, r.claim, taken)
			}
			taken = taken.Union(r.claim)
		}
		for _, r := range all {
			if r.claim.IsEmpty() && (r.mask.Intersects(taken) || r.ours && r.effective.Intersects(taken)) {
				return fmt.Sprintf("%s runs on %s, others have %s for themselves", r.pod, r.mask, taken)
			}
		}
		return ""
	})
}

func (s *second) sh(t *testing.T, script string) string {
	t.Helper()
	ctx, _, cancel := patience.WithLimit(t.Context(), time.Minute)
	defer cancel()
	out, err := s.node.Run(ctx, script)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// eventually waits until look returns an empty string. It checks once a second, because a check keeps the machine busy
// for as long.
func (s *second) eventually(t *testing.T, what string, look func() string) {
	t.Helper()
	if err := patience.Until(context.WithoutCancel(t.Context()), time.Second, look); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
