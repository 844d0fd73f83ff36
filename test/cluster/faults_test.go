package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/topology"
)

// field is a cluster with nodes, live agents and a journal.
type field struct {
	*stand
	agents  *agents
	journal *journal
}

// newField returns a stand with one node for each machine, named n0, n1, ….
func newField(t *testing.T, machines ...*topology.Topology) *field {
	t.Helper()
	f := &field{stand: installed(t)}
	f.agents = newAgents(t, f.client, 2*time.Second)
	l := newLedger()
	for i, machine := range machines {
		name := fmt.Sprintf("n%d", i)
		f.putNode(t, name, machine)
		f.agents.live(t, name)
		l.addNode(name, machine, int64(machine.Online.Size())*1000)
	}
	f.journal = f.watchPods(t, l, newKubelets(t, f.client).see)
	return f
}

// add creates pods, several at a time.
func (f *field) add(t *testing.T, pods ...*v1.Pod) {
	t.Helper()
	queue := make(chan *v1.Pod, len(pods))
	for _, pod := range pods {
		queue <- pod
	}
	close(queue)
	var senders sync.WaitGroup
	for range workers {
		senders.Go(func() {
			for pod := range queue {
				if _, err := create(t.Context(), f.client, pod); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
}

// many makes pinned pods of a size.
func many(prefix string, count, cpus int, options ...podOption) []*v1.Pod {
	var pods []*v1.Pod
	for i := range count {
		pods = append(pods, pinnedPod(fmt.Sprintf("%s-%03d", prefix, i), cpus, options...))
	}
	return pods
}

// boundCount waits until exactly want pods with a prefix are bound.
func (f *field) boundCount(t *testing.T, prefix string, want int) {
	t.Helper()
	within(t, func() string {
		got := f.journal.count(func(pod *v1.Pod) bool { return isBound(pod) && strings.HasPrefix(pod.Name, prefix) })
		if got != want {
			return fmt.Sprintf("%d pods %s… are bound, want %d", got, prefix, want)
		}
		return ""
	})
}

// reason waits for the reason in a pending pod's status, and checks it.
func (f *field) reason(t *testing.T, name string, want ...string) {
	t.Helper()
	within(t, func() string {
		pod, err := f.client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		for _, c := range pod.Status.Conditions {
			if c.Type != v1.PodScheduled || c.Status != v1.ConditionFalse {
				continue
			}
			for _, text := range want {
				if !strings.Contains(c.Message, text) {
					return fmt.Sprintf("%s waits because %q, want %q", name, c.Message, text)
				}
			}
			return ""
		}
		return name + " has no reason"
	})
}

// TestFiveHundredPodsAtOnce creates more pods than the cluster has room for. The scheduler must bind exactly the pods
// that fit, and give a reason to each of the others.
func TestFiveHundredPodsAtOnce(t *testing.T) {
	f := newField(t, grid(t, 2, 4, 16, 128), grid(t, 2, 4, 16, 128), grid(t, 2, 4, 16, 128)) // 768 CPUs.
	f.add(t, many("p", 500, 2)...)
	f.startScheduler(t, "scheduler", sideBySide)
	f.boundCount(t, "p", 381) // One core of each node stays shared.
	var waits string
	f.journal.each(func(pod *v1.Pod) {
		if !isBound(pod) {
			waits = pod.Name
		}
	})
	f.reason(t, waits, "0/3 nodes are available")
	must(t, f.client.CoreV1().Pods("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.nodeName=n0"}))
	within(t, func() string { // 119 were left, 127 were freed.
		if got := f.journal.count(func(pod *v1.Pod) bool { return !isBound(pod) }); got != 0 {
			return fmt.Sprintf("%d pods still wait", got)
		}
		return ""
	})
}

// TestKilledBetweenReserveAndBind freezes the API server while the scheduler's bindings wait for answers, kills the
// scheduler, and resumes both. Bindings that arrived stay valid, and no CPU is given twice. The ledger checks this.
func TestKilledBetweenReserveAndBind(t *testing.T) {
	t.Parallel()
	f := newField(t, recorded(t, "two-socket-ht"), recorded(t, "ccx-nps1"))
	sched := f.startScheduler(t, "scheduler", sideBySide)
	f.add(t, many("before", 4, 2)...)
	f.boundCount(t, "before", 4)
	for round := range 3 {
		must(t, sched.Freeze())
		prefix := fmt.Sprintf("round%d", round)
		f.add(t, many(prefix, 6, 2)...)
		must(t, sched.thaw()) // It finds all pods at once, and
		sleep(t.Context(), 20*time.Millisecond)
		must(t, f.PauseAPIServer()) // the answers find no client.
		sleep(t.Context(), 500*time.Millisecond)
		sched.crash(t)
		must(t, f.ResumeAPIServer())
		sched.start(t)
		f.boundCount(t, prefix, 6)
	}
	f.add(t, many("rest", 12, 1)...) // 64 − 8 − 36 CPUs are left.
	f.boundCount(t, "rest", 12)
}

// TestAPIServerAway stops the API server for a while. Scheduling must continue when the server is back.
// BERTH_CLUSTER_AWAY is the duration, for example 60s.
func TestAPIServerAway(t *testing.T) {
	t.Parallel()
	away := 6 * time.Second
	if text := os.Getenv("BERTH_CLUSTER_AWAY"); text != "" {
		var err error
		away, err = time.ParseDuration(text)
		must(t, err)
	}
	f := newField(t, recorded(t, "two-socket-ht"), recorded(t, "ccx-nps1"))
	sched := f.startScheduler(t, "scheduler", sideBySide)
	f.add(t, many("before", 8, 2)...)
	f.boundCount(t, "before", 8)
	f.add(t, many("caught", 8, 2)...) // Some bindings are in progress.
	must(t, f.StopAPIServer())
	sleep(t.Context(), away)
	must(t, f.StartAPIServer(t.Context()))
	f.boundCount(t, "caught", 8)
	f.add(t, many("after", 8, 2)...)
	f.boundCount(t, "after", 8)
	must(t, sched.Alive())
}

// TestLeaderKilled runs two replicas. When the leader dies, the other replica must rebuild its state from the
// annotations alone.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	f := newField(t, recorded(t, "two-socket-ht"), recorded(t, "ccx-nps1"))
	replicas := map[string]*scheduler{}
	for _, name := range []string{"replica-a", "replica-b"} {
		replicas[name] = f.startScheduler(t, name, sideBySide, withLeaders)
	}
	terms := map[string]int{}
	for round := range 3 {
		prefix := fmt.Sprintf("round%d", round)
		f.add(t, many(prefix, 8, 2)...)
		f.boundCount(t, prefix, 8)
		leader := f.leader(t, replicas, terms)
		f.add(t, many("late-"+prefix, 2, 2)...) // In progress when the leader dies.
		replicas[leader].crash(t)
		f.boundCount(t, "late-"+prefix, 2)
		replicas[leader].start(t)
	}
}

// leader returns the replica that became leader last, according to the logs. terms counts the terms of each replica.
func (f *field) leader(t *testing.T, replicas map[string]*scheduler, terms map[string]int) string {
	t.Helper()
	var leader string
	within(t, func() string {
		for name, replica := range replicas {
			log, err := os.ReadFile(replica.Log())
			must(t, err)
			if now := strings.Count(string(log), "uccessfully acquired lease"); now > terms[name] {
				leader, terms[name] = name, now
				return ""
			}
		}
		return "no replica leads"
	})
	return leader
}

// TestDeletedWhileBinding deletes pods at every moment between creation and binding. Their CPUs must be free
// afterwards.
func TestDeletedWhileBinding(t *testing.T) {
	t.Parallel()
	f := newField(t, recorded(t, "vm-2s2n-smt"))
	f.startScheduler(t, "scheduler", sideBySide)
	none := int64(0)
	for i := range 60 {
		pod := pinnedPod(fmt.Sprintf("brief-%03d", i), 6)
		f.add(t, pod)
		sleep(t.Context(), time.Duration(i%20)*time.Millisecond)
		must(t, f.client.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &none}))
	}
	f.add(t, pinnedPod("all", 6))
	f.boundCount(t, "all", 1)
}

// TestPreemption creates urgent pods that need the CPUs of other pods, which take a while to end. The scheduler must
// preempt only as many pods as necessary.
func TestPreemption(t *testing.T) {
	t.Parallel()
	f := newField(t, recorded(t, "two-socket-ht"), recorded(t, "two-socket-ht"))
	f.apply(t, "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: urgent}\nvalue: 1000\n")
	f.startScheduler(t, "scheduler", sideBySide)
	slow := func(pod *v1.Pod) {
		seconds := int64(30)
		pod.Spec.TerminationGracePeriodSeconds = &seconds
	}
	f.add(t, many("victim", 14, 4, slow)...) // 4 of 32 CPUs are left on each node.
	f.boundCount(t, "victim", 14)
	f.add(t, many("urgent", 2, 4, withPriority("urgent"))...) // One core stays shared.
	f.boundCount(t, "urgent", 2)
	f.boundCount(t, "victim", 12)
	f.add(t, podObject("ordinary-urgent", "6", "", withPriority("urgent")))
	f.boundCount(t, "ordinary-urgent", 1)
	f.boundCount(t, "victim", 11)
	f.add(t, pinnedPod("local-urgent", 8, withPriority("urgent"), annotated(v1alpha1.AnnotationNUMATopologySpec, `{"numaTopologyPolicy":"SingleNUMANode"}`),
		expecting(expectation{CPUs: map[string]int{"app": 8}, OneNode: true})))
	f.boundCount(t, "local-urgent", 1)
}

// TestSilentAgent checks that a node with a silent agent accepts no pods with exclusive CPUs, but all other pods.
func TestSilentAgent(t *testing.T) {
	t.Parallel()
	f := newField(t, recorded(t, "two-socket-ht"))
	f.startScheduler(t, "scheduler", sideBySide, withArgs(map[string]any{"staleAfterSeconds": 6}))
	f.add(t, pinnedPod("first", 2))
	f.boundCount(t, "first", 1)
	f.agents.silence("n0")
	sleep(t.Context(), 10*time.Second)
	f.add(t, pinnedPod("waits", 2), podObject("ordinary", "1", "2"))
	f.boundCount(t, "ordinary", 1)
	f.reason(t, "waits", "0/1 nodes are available", "agent")
	f.agents.revive(t.Context(), t, "n0")
	f.boundCount(t, "waits", 1)
}

// TestBadPodsAndNodes gives the scheduler invalid pods and an invalid NodeTopology. Ordinary pods must run as usual,
// and every pod that asked for exclusive CPUs must have the reason in its status.
func TestBadPodsAndNodes(t *testing.T) {
	t.Parallel()
	f := newField(t, recorded(t, "two-socket-ht"))
	f.startScheduler(t, "scheduler", sideBySide)
	liar := topologyObject("n0", recorded(t, "two-socket-ht"))
	f.add(t,
		podObject("yes", "1", "1", annotated(v1alpha1.AnnotationCPUSetScheduler, "yes")),
		podObject("fraction", "1", "1500m", annotated(v1alpha1.AnnotationCPUSetScheduler, "true")),
		podObject("no-json", "2", "2", annotated(v1alpha1.AnnotationCPUSetScheduler, "true"), annotated(v1alpha1.AnnotationResourceSpec, "{")),
		pinnedPod("forged", 2, annotated(v1alpha1.AnnotationPlacement, somePlacement)),
		pinnedPod("giant", 33, requesting("1")),
		pinnedPod("odd", 3, annotated(v1alpha1.AnnotationResourceSpec, `{"requiredCPUBindPolicy":"FullPCPUs"}`)),
	)
	for _, name := range []string{"yes", "fraction", "no-json", "forged"} {
		f.placed(t, metav1.NamespaceDefault, name)
	}
	for _, name := range []string{"yes", "fraction", "no-json"} {
		f.warned(t.Context(), t, name, "InvalidPolicy")
	}
	f.reason(t, "giant", "0/1 nodes are available")
	f.reason(t, "odd", "0/1 nodes are available")

	liar.Spec.L3[1].CPUs = liar.Spec.L3[0].CPUs
	f.rewrite(t, liar)
	f.reason(t, "odd", "invalid NodeTopology") // The scheduler has seen it.
	f.add(t, pinnedPod("unlucky", 2), podObject("ordinary", "1", ""))
	f.boundCount(t, "ordinary", 1)
	f.reason(t, "unlucky", "0/1 nodes are available")
	f.rewrite(t, topologyObject("n0", recorded(t, "two-socket-ht")))
	f.boundCount(t, "unlucky", 1)
}

// TestForgedPlacement creates a bound ordinary pod with a placement annotation, in a cluster without the admission
// policy that refuses it. The CPUs must stay free for other pods.
func TestForgedPlacement(t *testing.T) {
	t.Parallel()
	f := newField(t, recorded(t, "two-socket-ht"))
	f.startScheduler(t, "scheduler", sideBySide)
	f.add(t, podObject("forged", "1", "16", func(pod *v1.Pod) { pod.Spec.NodeName = "n0" }, annotated(v1alpha1.AnnotationPlacement,
		`{"v":1,"topology":"0123456789abcdef","containers":{"app":{"cpus":"0-15","mems":"0-1","policy":"exclusive"}}}`)))
	f.boundCount(t, "forged", 1)
	f.add(t, pinnedPod("large", 28))
	f.boundCount(t, "large", 1)
}

// warned waits for a warning about a pod.
func (f *field) warned(ctx context.Context, t *testing.T, name, reason string) {
	t.Helper()
	within(t, func() string {
		events, err := f.client.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		must(t, err)
		for _, event := range events.Items {
			if event.Regarding.Name == name && event.Reason == reason && event.Type == v1.EventTypeWarning {
				return ""
			}
		}
		return fmt.Sprintf("no event %s about %s", reason, name)
	})
}
