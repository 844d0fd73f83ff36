package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/berth-project/berth/api/v1alpha1"
)

// calPi is a compute job in the form that ACK's users write, plus the scheduler's name.
const calPi = `
apiVersion: v1
kind: Pod
metadata:
  name: cal-pi
  annotations:
    cpuset-scheduler: 'true'
    test.berth.dev/expect: '{"cpus":{"cal-pi":4}}'
spec:
  schedulerName: berth-scheduler
  restartPolicy: Never
  containers:
  - image: registry.example/java-pi
    name: cal-pi
    resources:
      requests: {cpu: 4}
      limits: {cpu: 4}
    env:
    - {name: limit, value: "20000"}
    - {name: threadNum, value: "3000"}
`

// goDemo returns one pod of a Deployment that requests less than its limit. The test creates the pods itself, because
// no Deployment controller runs here.
func goDemo(number int) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  name: go-demo-%d
  labels: {app: go-demo}
  annotations:
    cpuset-scheduler: "true"
    test.berth.dev/expect: '{"cpus":{"go-demo":4}}'
spec:
  schedulerName: berth-scheduler
  containers:
  - name: go-demo
    image: registry.example/go-demo:1k
    imagePullPolicy: Always
    ports: [{containerPort: 8080}]
    resources:
      requests: {cpu: 1}
      limits: {cpu: 4}
`, number)
}

// TestSeedPods schedules pods that ACK's users know, in both shipped modes, with all policies that are on by default. A
// watch like any client's must never see a bound pod without its placement.
func TestSeedPods(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{sideBySide, replace} {
		t.Run(strings.TrimSuffix(mode, ".yaml"), func(t *testing.T) {
			s := installed(t)
			s.shipped(t, "policy/placement.yaml", "policy/keys.yaml")
			alive := newAgents(t, s.client, 5*time.Second)
			l := newLedger()
			for _, node := range []string{"n0", "n1"} {
				machine := recorded(t, "two-socket-ht")
				s.putNode(t, node, machine)
				alive.live(t, node)
				l.addNode(node, machine, int64(machine.Online.Size())*1000)
			}
			s.watchPods(t, l, nil)
			halves := s.watchForHalves(t)
			s.startScheduler(t, "scheduler", mode)
			names := []string{"cal-pi"}
			s.apply(t, calPi)
			for i := range 4 {
				s.apply(t, goDemo(i))
				names = append(names, fmt.Sprintf("go-demo-%d", i))
			}
			for _, name := range names {
				s.placed(t, metav1.NamespaceDefault, name)
			}
			s.wholeAndLocal(t, names)
			for _, fault := range halves() {
				t.Error(fault)
			}
		})
	}
}

// watchForHalves watches the API until the returned function is called. That function reports pods that were bound
// without a placement, or placed without a node.
func (s *stand) watchForHalves(t *testing.T) func() []string {
	t.Helper()
	watcher, err := s.client.CoreV1().Pods(metav1.NamespaceAll).Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	done := make(chan []string, 1)
	go func() {
		var faults []string
		for event := range watcher.ResultChan() {
			pod, ok := event.Object.(*v1.Pod)
			if !ok || event.Type == watch.Deleted {
				continue
			}
			_, placed := pod.Annotations[v1alpha1.AnnotationPlacement]
			if placed != isBound(pod) {
				faults = append(faults, fmt.Sprintf("%s: node %q, placement %t", pod.Name, pod.Spec.NodeName, placed))
			}
		}
		done <- faults
	}()
	return func() []string {
		watcher.Stop()
		return <-done
	}
}

// wholeAndLocal checks that pods with 4 CPUs on machines with 2 threads per core have whole cores in one NUMA node, for
// which there is room.
func (s *stand) wholeAndLocal(t *testing.T, names []string) {
	t.Helper()
	machine := recorded(t, "two-socket-ht")
	for _, name := range names {
		pod, err := s.client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		p, problems := v1alpha1.DecodePlacement(pod.Annotations[v1alpha1.AnnotationPlacement])
		must(t, problems.Err())
		cpus := set(p.Containers[pod.Spec.Containers[0].Name].CPUs)
		l := newLedger()
		l.addNode("n", machine, 0)
		l.shape(&account{name: name, own: cpus}, l.nodes["n"], &expectation{OneNode: true, FullCores: true})
		for _, fault := range l.faults {
			t.Error(fault)
		}
	}
}

// TestOneWritePerPod counts the scheduler's writes: one Binding per pod, and as many events as for a pod without
// exclusive CPUs.
func TestOneWritePerPod(t *testing.T) {
	t.Parallel()
	const count = 25
	flags, file := auditFlags(t)
	s := installed(t, flags...)
	alive := newAgents(t, s.client, 5*time.Second)
	s.putNode(t, "n", grid(t, 2, 2, 8, 128))
	alive.live(t, "n")
	s.startScheduler(t, "scheduler", sideBySide)
	_, err := create(t.Context(), s.client, pinnedPod("first", 2)) // Once the scheduler has read the cluster.
	must(t, err)
	s.placed(t, metav1.NamespaceDefault, "first")
	before := len(writes(t, file, schedulerUser))
	for i := range count {
		for _, pod := range []*v1.Pod{pinnedPod(fmt.Sprintf("pinned-%d", i), 2), podObject(fmt.Sprintf("ordinary-%d", i), "1", "2")} {
			_, err := create(t.Context(), s.client, pod)
			must(t, err)
		}
	}
	for i := range count {
		s.placed(t, metav1.NamespaceDefault, fmt.Sprintf("pinned-%d", i))
		s.placed(t, metav1.NamespaceDefault, fmt.Sprintf("ordinary-%d", i))
	}
	events := func(prefix string) (sum int) {
		for _, w := range writes(t, file, schedulerUser) {
			if w.resource == "events" && strings.HasPrefix(w.name, prefix) {
				sum++
			}
		}
		return sum
	}
	within(t, func() string { // The scheduler writes events asynchronously.
		if got := events("ordinary-"); got < count {
			return fmt.Sprintf("%d events about %d ordinary pods", got, count)
		}
		if got := events("pinned-"); got < count {
			return fmt.Sprintf("%d events about %d pinned pods", got, count)
		}
		return ""
	})
	bindings := map[string]int{}
	for _, w := range writes(t, file, schedulerUser)[before:] {
		switch w.resource {
		case "pods/binding":
			bindings[w.name]++
		case "events", "leases":
		default:
			t.Errorf("the scheduler wrote: %+v", w)
		}
	}
	for _, kind := range []string{"pinned", "ordinary"} {
		for i := range count {
			if name := fmt.Sprintf("%s-%d", kind, i); bindings[name] != 1 {
				t.Errorf("%d bindings of %s, want 1", bindings[name], name)
			}
		}
	}
	if pinned, ordinary := events("pinned-"), events("ordinary-"); pinned > ordinary {
		t.Errorf("%d events about pinned pods, %d about as many ordinary ones", pinned, ordinary)
	}
}
