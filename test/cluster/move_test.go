package cluster

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/scheduler/relocation"
	"github.com/berth-project/berth/internal/scheduler/repack"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// TestMove moves a pod through the API server while another pod waits for CPUs of its node. While the move is in
// effect, no scheduler may give out its CPUs, not even one that starts in the meantime. Afterwards the waiting pod gets
// the CPUs that are left.
func TestMove(t *testing.T) {
	t.Parallel()
	r := &resizes{stand: installed(t), machine: recorded(t, "two-socket-ht")}
	r.putNode(t, "n0", r.machine)
	newAgents(t, r.client, 2*time.Second).live(t, "n0")
	first := r.startScheduler(t, "scheduler", sideBySide)
	r.create(t, pinnedPod("a", 4, annotated(v1alpha1.AnnotationMovable, v1alpha1.Movable)))
	r.placed(t, metav1.NamespaceDefault, "a")
	r.report(t, "a")
	from := r.cpus(t, "a")
	to := r.elsewhere(from)

	done := make(chan error, 1)
	var steps []relocation.Step
	go func() {
		var err error
		steps, err = relocation.Run(t.Context(), relocation.Options{
			Config: r.Config(), Node: "n0", Timeout: time.Hour, Now: time.Now,
		}, []repack.Move{{Pod: "default/a", From: from, To: to}})
		done <- err
	}()
	within(t, func() string {
		if text := r.get(t, "a").Annotations[v1alpha1.AnnotationMove]; text == "" {
			return "nobody asks for the move"
		}
		return ""
	})
	r.create(t, pinnedPod("waits", 4))
	r.waits(t, "waits", "a resize or a move of exclusive CPUs under way")
	first.crash(t)
	r.startScheduler(t, "next", sideBySide)
	r.create(t, pinnedPod("later", 4))
	r.waits(t, "later", "a resize or a move of exclusive CPUs under way")

	r.move(t, "a")
	if err := <-done; err != nil || steps[0].State != relocation.Moved || r.cpus(t, "a") != to {
		t.Errorf("%+v, %v: the pod has %s, asked for %s", steps, err, r.cpus(t, "a"), to)
	}
	for _, name := range []string{"waits", "later"} {
		if r.placed(t, metav1.NamespaceDefault, name); r.cpus(t, name).Intersects(to) {
			t.Errorf("pod %s has %s beside %s", name, r.cpus(t, name), to)
		}
	}
}

// elsewhere returns the same number of CPUs, as whole cores of one L3 domain that has none of the given CPUs.
func (r *resizes) elsewhere(cpus cpuset.Set) cpuset.Set {
	var to cpuset.Set
	for _, l3 := range r.machine.L3 {
		for _, core := range r.machine.Cores {
			if core.CPUs.IsSubsetOf(l3.CPUs) && !l3.CPUs.Intersects(cpus) && to.Size() < cpus.Size() {
				to = to.Union(core.CPUs)
			}
		}
	}
	return to
}

// move plans a move like the agent, carries it out and reports the result.
func (r *resizes) move(t *testing.T, name string) {
	t.Helper()
	m, err := alloc.Compile(r.machine)
	must(t, err)
	n := place.New(place.Facts{Machine: m, Hash: r.machine.Hash(), AllocatableMilli: int64(r.machine.Online.Size()) * 1000, Pinnable: true})
	box := func(pod *v1.Pod, cpus cpuset.Set) observed.Container {
		return observed.Container{ID: pod.Name, PodUID: string(pod.UID), Name: "app", Phase: observed.Running, CPUs: cpus, Pinned: true}
	}
	n.Pods.Put(kubepod.Of(r.get(t, name)))
	n.Pods.Observe(box(r.get(t, name), r.cpus(t, name)))
	for answered := false; !answered; {
		for _, d := range n.Desired() {
			n.Pods.Observe(box(r.get(t, name), d.CPUs))
		}
		events := n.Events()
		if len(events) == 0 {
			t.Fatal("the agent has nothing to say")
		}
		for _, e := range events {
			if e.Annotation != nil {
				r.annotate(t, name, v1alpha1.AnnotationPlacement, e.Annotation.Encode())
			}
			if answered = answered || e.Answered; e.Answered && e.Refused == nil {
				r.annotate(t, name, v1alpha1.AnnotationMove, nil)
			} else if e.Refused != nil {
				t.Fatal(e.Refused.Refused)
			}
		}
		n.Pods.Put(kubepod.Of(r.get(t, name)))
	}
}

// annotate writes an annotation through the status, as the agent does.
func (r *resizes) annotate(t *testing.T, name, key string, value any) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	must(t, err)
	if _, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Patch(t.Context(), name, types.MergePatchType, text, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(fmt.Errorf("annotate %s: %w", name, err))
	}
}
