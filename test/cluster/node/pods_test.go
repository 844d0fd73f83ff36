package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/test/cluster/local"
)

// The annotations and labels that users write.
const (
	pinKey       = "cpuset-scheduler"
	burstKey     = "koordinator.sh/cpuBurst"
	bindKey      = "scheduling.koordinator.sh/resource-spec"
	placementKey = "berth.dev/placement"

	policyKey   = "cpu-policy"
	staticBurst = "static-burst"
)

// option changes a pod before it is created.
type option func(*v1.Pod)

// podOf returns a pod with one container that prints its masks and waits.
func podOf(name string, options ...option) *v1.Pod {
	grace := int64(1)
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: space, Annotations: map[string]string{}, Labels: map[string]string{}},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			NodeSelector:                  map[string]string{v1.LabelHostname: local.NodeName},
			DNSPolicy:                     v1.DNSDefault,
			Containers:                    []v1.Container{maskContainer("app")},
		},
	}
	for _, o := range options {
		o(p)
	}
	return p
}

func maskContainer(name string, args ...string) v1.Container {
	return v1.Container{Name: name, Image: "berth-mask:1", ImagePullPolicy: v1.PullIfNotPresent, Args: args}
}

// cpu returns a container's resources: a small request, so that many pods fit, and a limit, "" for none.
func cpu(limit string) v1.ResourceRequirements {
	r := v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("5m")}}
	if limit != "" {
		r.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse(limit)}
	}
	return r
}

// pinned asks for exclusive CPUs: one, unless another option changes the limit.
func pinned(p *v1.Pod) {
	p.Annotations[pinKey] = "true"
	p.Spec.Containers[0].Resources = cpu("1")
}

func limited(limit string) option {
	return func(p *v1.Pod) { p.Spec.Containers[0].Resources = cpu(limit) }
}

func annotated(key, value string) option {
	return func(p *v1.Pod) { p.Annotations[key] = value }
}

func labelled(key, value string) option {
	return func(p *v1.Pod) { p.Labels[key] = value }
}

// here binds the pod to the node without a scheduler, like static and forged pods.
func here(p *v1.Pod) { p.Spec.NodeName = local.NodeName }

// spinning keeps one thread busy.
func spinning(p *v1.Pod) {
	p.Spec.Containers[0].Image = "berth-burn:1"
	p.Spec.Containers[0].Args = []string{"spin"}
}

// create creates a pod.
func (s *stage) create(t *testing.T, p *v1.Pod) *v1.Pod {
	t.Helper()
	made, err := s.client.CoreV1().Pods(space).Create(t.Context(), p, metav1.CreateOptions{})
	must(t, err)
	return made
}

// start creates a pod and waits until all its containers run.
func (s *stage) start(t *testing.T, name string, options ...option) *v1.Pod {
	t.Helper()
	s.create(t, podOf(name, options...))
	return s.runs(t, name)
}

// runs waits until all containers of a pod run.
func (s *stage) runs(t *testing.T, name string) *v1.Pod {
	t.Helper()
	var p *v1.Pod
	s.eventually(t, "pod "+name+" runs", func() string {
		var err error
		if p, err = s.get(t, name); err != nil {
			return err.Error()
		}
		if len(p.Status.ContainerStatuses) < len(p.Spec.Containers) {
			return fmt.Sprintf("%s %+v", p.Status.Phase, p.Status.Conditions)
		}
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Running == nil {
				return fmt.Sprintf("%s: %+v", c.Name, c.State)
			}
		}
		return ""
	})
	return p
}

func (s *stage) get(t *testing.T, name string) (*v1.Pod, error) {
	t.Helper()
	return s.client.CoreV1().Pods(space).Get(t.Context(), name, metav1.GetOptions{})
}

// remove deletes pods and waits until they are gone from the API server.
func (s *stage) remove(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		err := s.client.CoreV1().Pods(space).Delete(t.Context(), name, metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) {
			must(t, err)
		}
	}
	for _, name := range names {
		s.eventually(t, "pod "+name+" is gone", func() string {
			_, err := s.get(t, name)
			if apierrors.IsNotFound(err) {
				return ""
			}
			return fmt.Sprintf("still there: %v", err)
		})
	}
}

// annotate changes annotations of a pod; nil removes one.
func (s *stage) annotate(t *testing.T, name, key, value string) {
	t.Helper()
	must(t, s.patch(t.Context(), name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)))
}

func (s *stage) patch(ctx context.Context, name, body string, subresources ...string) error {
	_, err := s.client.CoreV1().Pods(space).Patch(ctx, name, "application/strategic-merge-patch+json", []byte(body), metav1.PatchOptions{}, subresources...)
	return err
}

// id returns the runtime's id of a container.
func id(p *v1.Pod, name string) string {
	for _, c := range append(append(p.Status.ContainerStatuses, p.Status.InitContainerStatuses...), p.Status.EphemeralContainerStatuses...) {
		if c.Name == name {
			_, id, _ := strings.Cut(c.ContainerID, "://")
			return id
		}
	}
	return ""
}

// printed returns the first output (CPUs and memory nodes) of each of the pod's containers of this name, the oldest
// first. It waits for the output of the newest container, which runs, because another process writes the log.
func (s *stage) printed(t *testing.T, p *v1.Pod, container string) (all [][2]string) {
	t.Helper()
	dir := local.NodePath(filepath.Join("/var/log/pods", p.Namespace+"_"+p.Name+"_"+string(p.UID), container))
	s.eventually(t, "what "+p.Name+"/"+container+" prints", func() string {
		names, err := filepath.Glob(dir + "/*.log")
		must(t, err)
		all = nil
		for _, name := range names {
			content, err := os.ReadFile(name)
			must(t, err)
			all = append(all, masksIn(string(content)))
		}
		if len(all) == 0 || slices.Contains(all[len(all)-1][:], "") {
			return fmt.Sprintf("so far %q", all)
		}
		return ""
	})
	return all
}

// masksIn returns the first list of CPUs and the first list of memory nodes in a log.
func masksIn(text string) (lists [2]string) {
	for line := range strings.Lines(text) {
		for i, name := range []string{"Cpus_allowed_list:\t", "Mems_allowed_list:\t"} {
			if _, list, found := strings.Cut(line, name); found && lists[i] == "" && strings.HasSuffix(list, "\n") {
				lists[i] = strings.TrimSpace(list)
			}
		}
	}
	return lists
}

// event waits for an event about an object whose text contains all words, and returns the text.
func (s *stage) event(t *testing.T, namespace, object, reason string, words ...string) string {
	t.Helper()
	var text string
	s.eventually(t, fmt.Sprintf("event %s of %s with %q", reason, object, words), func() string {
		list, err := s.client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err.Error()
		}
		var others []string
		for _, e := range list.Items {
			if e.InvolvedObject.Name != object {
				continue
			}
			if text = e.Message; hasAll(text, words) {
				return ""
			}
			others = append(others, text)
		}
		return fmt.Sprintf("there are %q", others)
	})
	return text
}

func hasAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
