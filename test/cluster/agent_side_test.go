package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	events "k8s.io/api/events/v1"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/strategy"
	side "github.com/berth-project/berth/internal/node/cluster"
)

// lister is a kubelet that lists the pods which the test sets.
type lister struct {
	mu   sync.Mutex
	pods []v1.Pod
	err  error
}

func (l *lister) Pods(context.Context) ([]v1.Pod, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.pods), l.err
}

func (l *lister) set(err error, pods ...v1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pods, l.err = pods, err
}

// agentSide is an agent's connection to the cluster, with the shipped rights and policies.
type agentSide struct {
	*side.Client
	s       *stand
	kubelet *lister
	end     func()
}

// startSide starts an agentSide for node n with the given identity.
func (s *stand) startSide(t *testing.T, identity string) *agentSide {
	t.Helper()
	a := &agentSide{s: s, kubelet: &lister{err: errors.New("not yet")}}
	var err error
	a.Client, err = side.New(side.Options{
		Config: s.agentOn(t, "n"), Node: "n", Identity: identity, Kubelet: a.kubelet, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	a.end = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			must(t, err)
		case <-time.After(time.Minute):
			t.Error("it does not end")
		}
	})
	t.Cleanup(a.end)
	return a
}

// until waits until lacks returns an empty string for a snapshot.
func (a *agentSide) until(t *testing.T, lacks func(*side.Snapshot) string) *side.Snapshot {
	t.Helper()
	var snapshot *side.Snapshot
	within(t, func() string {
		snapshot = a.Snapshot()
		return lacks(snapshot)
	})
	return snapshot
}

func (a *agentSide) pod(name string) *side.Pod {
	for _, pod := range a.Snapshot().Pods {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}

// from waits until the pods come from a source.
func (a *agentSide) from(t *testing.T, source side.Source) {
	t.Helper()
	a.until(t, func(s *side.Snapshot) string {
		if s.PodsFrom == source {
			return ""
		}
		return fmt.Sprintf("pods are from the %s, want %s", s.PodsFrom, source)
	})
}

// TestAgentSide runs the agent's side of the cluster against a real API server.
func TestAgentSide(t *testing.T) {
	t.Parallel()
	s := agentStand(t)
	begin := time.Now()
	a := s.startSide(t, "first")
	a.from(t, side.APIServer)
	a.until(t, func(s *side.Snapshot) string {
		if !s.Lease.Held || !s.ConfigMapsRead || s.Node.UID == "" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	t.Logf("all is listed, watched and the Lease held %v after the start", time.Since(begin).Round(time.Millisecond))
	v := a.show(t)
	t.Run("viewers", v.areKnown(a))
	t.Run("page of a node", v.areProxied(a))
	t.Run("page of the cluster", v.areFollowed(a))
	t.Run("pods", a.seesPods)
	t.Run("annotations", a.writesAnnotations)
	t.Run("ConfigMaps", a.seesConfigMaps)
	t.Run("how soon", a.isSoon)
	t.Run("events", a.reports)
	t.Run("Lease", a.holdsLease)
	t.Run("NodeTopology", a.publishes)
	t.Run("static pods", a.seesStaticPods)
	t.Run("no right to list pods", a.livesOnTheKubelet)
	t.Run("API server away", func(t *testing.T) { a.worksOn(t, v) })
	t.Run("API server frozen", a.noticesSilence)
}

func (a *agentSide) seesPods(t *testing.T) {
	theirs := a.s.boundPod(t, "theirs", "other")
	mine := a.s.boundPod(t, "seen", "n", annotated("example.com/large", strings.Repeat("x", 1<<16)), labelled("a", "b"))
	snapshot := a.until(t, func(*side.Snapshot) string {
		if a.pod("seen") == nil {
			return "the pod is not seen"
		}
		return ""
	})
	got := a.pod("seen")
	if got.UID != string(mine.UID) || got.Key != "default/seen" || got.Labels["a"] != "b" || len(got.Annotations["example.com/large"]) > 0 || got.Bound.IsZero() || len(got.Containers) != 1 {
		t.Errorf("pod %+v", got)
	}
	for _, pod := range snapshot.Pods {
		if pod.UID == string(theirs.UID) {
			t.Errorf("a pod of another node is seen: %+v", pod)
		}
	}
	must(t, a.s.client.CoreV1().Pods("default").Delete(t.Context(), "seen", *metav1.NewDeleteOptions(0)))
	a.until(t, func(*side.Snapshot) string {
		if a.pod("seen") != nil {
			return "the pod is still seen"
		}
		return ""
	})
}

// writesAnnotations writes annotations through pods/status with the shipped rights. Both policies must permit these
// writes.
func (a *agentSide) writesAnnotations(t *testing.T) {
	ctx, text := t.Context(), somePlacement
	pod := a.s.boundPod(t, "placed", "n")
	object := side.Object{Namespace: "default", Name: pod.Name, UID: string(pod.UID)}
	stored := func() (string, bool) {
		got, err := a.s.client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
		must(t, err)
		value, found := got.Annotations[v1alpha1.AnnotationPlacement]
		return value, found
	}
	another := object
	another.UID = "another"
	a.Annotate(another, v1alpha1.AnnotationPlacement, &text)
	a.Annotate(object, v1alpha1.AnnotationPlacement, &text)
	a.until(t, func(*side.Snapshot) string {
		if p := a.pod("placed"); p == nil || p.Annotations[v1alpha1.AnnotationPlacement] != text {
			return "the placement does not come back"
		}
		return ""
	})
	a.Annotate(object, v1alpha1.AnnotationPlacement, nil)
	within(t, func() string {
		if _, found := stored(); found {
			return "the placement is not removed"
		}
		return ""
	})
	empty := ""
	a.Annotate(another, v1alpha1.AnnotationPlacement, &empty)
	sleep(ctx, time.Second)
	if value, found := stored(); found {
		t.Errorf("another pod's annotation was written: %q", value)
	}
}

func (a *agentSide) seesConfigMaps(t *testing.T) {
	a.s.apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: koordinator-system}\n")
	if maps := a.Snapshot().ConfigMaps; len(maps) > 0 {
		t.Errorf("ConfigMaps %v from the start", maps)
	}
	for _, name := range strategy.Names() {
		namespace, short := name.Split()
		config := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: short}, Data: map[string]string{"app": "apache-demo"}}
		_, err := a.s.client.CoreV1().ConfigMaps(namespace).Create(t.Context(), config, metav1.CreateOptions{})
		must(t, err)
	}
	a.until(t, func(s *side.Snapshot) string {
		if len(s.ConfigMaps) != len(strategy.Names()) || s.ConfigMaps[strategy.LabelConfig]["app"] != "apache-demo" {
			return fmt.Sprintf("ConfigMaps %v", s.ConfigMaps)
		}
		return ""
	})
	must(t, a.s.client.CoreV1().ConfigMaps("koordinator-system").Delete(t.Context(), "cfs-quota-burst-cm", metav1.DeleteOptions{}))
	a.until(t, func(s *side.Snapshot) string {
		if _, still := s.ConfigMaps[strategy.LabelConfig]; still {
			return "the ConfigMap is still there"
		}
		return ""
	})
}

// isSoon measures the time from the answer to a write until the snapshot shows it. It logs the time and requires only
// that each change arrives.
func (a *agentSide) isSoon(t *testing.T) {
	const changes = 100
	pod := a.s.boundPod(t, "changed", "n")
	var pods, maps []time.Duration
	for i := range changes {
		text := fmt.Sprintf(`{"metadata":{"annotations":{%q:"{\"policy\":\"auto\",\"cpuBurstPercent\":%d}"}}}`, v1alpha1.AnnotationCPUBurst, i)
		start := time.Now()
		_, err := a.s.client.CoreV1().Pods("default").Patch(t.Context(), pod.Name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		must(t, err)
		a.until(t, func(*side.Snapshot) string {
			if p := a.pod("changed"); p == nil || !strings.HasSuffix(p.Annotations[v1alpha1.AnnotationCPUBurst], fmt.Sprintf(":%d}", i)) {
				return "the annotation is not seen"
			}
			return ""
		})
		pods = append(pods, time.Since(start))
		start = time.Now()
		text = fmt.Sprintf(`{"data":{"cpu-burst-config":"%d"}}`, i)
		_, err = a.s.client.CoreV1().ConfigMaps("berth-system").Patch(t.Context(), "berth-config", types.MergePatchType, []byte(text), metav1.PatchOptions{})
		must(t, err)
		a.until(t, func(s *side.Snapshot) string {
			if s.ConfigMaps[strategy.BerthConfig]["cpu-burst-config"] != fmt.Sprint(i) {
				return "the ConfigMap is not seen"
			}
			return ""
		})
		maps = append(maps, time.Since(start))
	}
	for what, all := range map[string][]time.Duration{"annotation": pods, "ConfigMap": maps} {
		slices.Sort(all)
		t.Logf("%s to snapshot: median %v, p99 %v, most %v of %d", what, all[changes/2], all[changes*99/100-1], all[changes-1], changes)
	}
}

func (a *agentSide) reports(t *testing.T) {
	pod := a.s.boundPod(t, "reported", "n")
	on := side.Object{Namespace: "default", Name: pod.Name, UID: string(pod.UID)}
	for range 5 {
		a.Event(side.Event{On: on, Reason: "InvalidPolicy", Text: "same", Warning: true})
	}
	for i := range 20 {
		a.Event(side.Event{On: on, Reason: "Flood", Text: fmt.Sprint(i)})
	}
	a.Event(side.Event{Reason: "OfNode", Text: strings.Repeat("ü", 1000)})
	var all []events.Event
	within(t, func() string {
		list, err := a.s.client.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
		must(t, err)
		all = list.Items
		if !slices.ContainsFunc(all, func(e events.Event) bool { return e.Reason == "OfNode" }) {
			return "the event of the node is missing"
		}
		return ""
	})
	count := map[string]int{}
	for _, event := range all {
		count[event.Reason]++
		if event.Reason == "OfNode" && (event.Regarding.Kind != "Node" || event.Regarding.UID == "" || len(event.Note) > 1024) {
			t.Errorf("event %+v", event)
		}
		if event.Reason == "InvalidPolicy" && (event.Regarding.UID != pod.UID || event.Type != v1.EventTypeWarning) {
			t.Errorf("event %+v", event)
		}
	}
	if count["InvalidPolicy"] != 1 || count["Flood"] != 5 {
		t.Errorf("events %v, want 1 that came five times, and 5 of a flood", count)
	}
}

// holdsLease starts a second agent on the node and then ends the first. The node's Lease must change its holder only
// then.
func (a *agentSide) holdsLease(t *testing.T) {
	lease, err := a.s.client.CoordinationV1().Leases(leaseNamespace).Get(t.Context(), "n", metav1.GetOptions{})
	must(t, err)
	if *lease.Spec.HolderIdentity != "first" || len(lease.OwnerReferences) > 1 {
		t.Errorf("Lease %+v", lease)
	}
	second := a.s.startSide(t, "second")
	second.until(t, func(s *side.Snapshot) string {
		if s.Lease.Other != "first" || s.Lease.Held {
			return fmt.Sprintf("%+v", s.Lease)
		}
		return ""
	})
	machine := recorded(t, "ccx-nps1")
	spec, status := machine.Spec(), topologyStatus(machine, metav1.ConditionTrue)
	second.Publish(&spec, &status)
	pod, text := a.s.boundPod(t, "disputed", "n"), "{}"
	second.Annotate(side.Object{Namespace: "default", Name: pod.Name, UID: string(pod.UID)}, v1alpha1.AnnotationPlacement, &text)
	sleep(t.Context(), 2*time.Second)
	if _, err := a.s.dynamic.Resource(nodeTopologies()).Get(t.Context(), "n", metav1.GetOptions{}); err == nil {
		t.Error("the second agent wrote a NodeTopology")
	}
	got, err := a.s.client.CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{})
	must(t, err)
	if _, found := got.Annotations[v1alpha1.AnnotationPlacement]; found {
		t.Error("the second agent wrote a placement")
	}
	second.end()
	third := a.s.startSide(t, "first") // Like a restart after a crash: the same state directory.
	third.until(t, func(s *side.Snapshot) string {
		if !s.Lease.Held {
			return "it waits for its own Lease"
		}
		return ""
	})
	third.end() // It releases the Lease; the running agent acquires it again.
	within(t, func() string {
		lease, err := a.s.client.CoordinationV1().Leases(leaseNamespace).Get(t.Context(), "n", metav1.GetOptions{})
		must(t, err)
		if *lease.Spec.HolderIdentity != "first" {
			return "no agent holds the Lease"
		}
		return ""
	})
}

// publishes counts the writes of an agent that has a new state every tenth of a second.
func (a *agentSide) publishes(t *testing.T) {
	resource := a.s.dynamic.Resource(nodeTopologies())
	versions, err := resource.Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	defer versions.Stop()
	machine := recorded(t, "two-socket-ht")
	spec := machine.Spec()
	start := time.Now()
	for i := 0; time.Since(start) < 13*time.Second; i++ {
		status := topologyStatus(machine, metav1.ConditionTrue)
		status.FreeCPUs = int64(i)
		a.Publish(&spec, &status)
		sleep(t.Context(), 100*time.Millisecond)
	}
	writes := 0
	var last *unstructured.Unstructured
	for quiet := false; !quiet || writes < 2; {
		select {
		case event := <-versions.ResultChan():
			if event.Type == watch.Added || event.Type == watch.Modified {
				writes++
				last, _ = event.Object.(*unstructured.Unstructured)
			}
		case <-time.After(time.Second):
			quiet = true
		}
	}
	took := time.Since(start)
	if most := 2 + int(took/(10*time.Second)); writes > most { // The object, its status, then every 10 s.
		t.Errorf("%d writes in %v, want at most %d", writes, took, most)
	}
	if got := a.s.storedTopology(t, "n"); got.Hash() != machine.Hash() {
		t.Errorf("stored hash %s", got.Hash())
	}
	if owners := last.GetOwnerReferences(); len(owners) != 1 || owners[0].Kind != "Node" || string(owners[0].UID) != a.Snapshot().Node.UID {
		t.Errorf("owners %+v", owners)
	}
	generation := last.GetGeneration()
	other := recorded(t, "ccx-nps1")
	changed, status := other.Spec(), topologyStatus(other, metav1.ConditionFalse)
	a.Publish(&changed, &status)
	within(t, func() string {
		stored, err := resource.Get(t.Context(), "n", metav1.GetOptions{})
		must(t, err)
		free, _, _ := unstructured.NestedInt64(stored.Object, "status", "freeCPUs")
		if stored.GetGeneration() != generation+1 || free != int64(other.Online.Size()) {
			return fmt.Sprintf("generation %d, %d free", stored.GetGeneration(), free)
		}
		return ""
	})
}

// seesStaticPods creates a static pod with a mirror, a static pod without, and a forged mirror.
func (a *agentSide) seesStaticPods(t *testing.T) {
	yes := true
	owner := func(pod *v1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: types.UID(a.Snapshot().Node.UID), Controller: &yes}}
	}
	victim := a.s.boundPod(t, "victim", "n")
	mirror := a.s.boundPod(t, "mirror-n", "n", annotated("kubernetes.io/config.mirror", "static-1"), owner)
	a.s.boundPod(t, "forged-n", "n", annotated("kubernetes.io/config.mirror", string(victim.UID)), owner)
	static := func(uid, name string) v1.Pod {
		pod := *pinnedPod(name, 2, annotated("kubernetes.io/config.source", "file"))
		pod.UID, pod.Spec.NodeName = types.UID(uid), "n"
		return pod
	}
	a.kubelet.set(nil, static("static-1", "mirror-n"), static("static-2", "alone-n"))
	a.Refresh()
	a.until(t, func(*side.Snapshot) string {
		if a.pod("alone-n") == nil || a.pod("mirror-n") == nil || a.pod("victim") == nil {
			return "a pod is missing"
		}
		return ""
	})
	if got := a.pod("mirror-n"); got.UID != "static-1" || !got.Static || got.Object.UID != string(mirror.UID) {
		t.Errorf("mirror %+v", got)
	}
	if got := a.pod("alone-n"); got.UID != "static-2" || !got.Static || got.Object.UID != "" {
		t.Errorf("static pod %+v", got)
	}
	if got := a.pod("victim"); got.UID != string(victim.UID) || got.Static {
		t.Errorf("victim %+v", got)
	}
	if got := a.pod("forged-n"); got != nil {
		t.Errorf("forged %+v", got)
	}
}

// livesOnTheKubelet removes the right to list pods, as an administrator may do. The agent must then use the kubelet's
// list.
func (a *agentSide) livesOnTheKubelet(t *testing.T) {
	roles := a.s.client.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), agentAccount, metav1.GetOptions{})
	must(t, err)
	without := role.DeepCopy()
	without.Rules = slices.DeleteFunc(without.Rules, func(r rbac.PolicyRule) bool { return slices.Equal(r.Resources, []string{"pods"}) })
	without, err = roles.Update(t.Context(), without, metav1.UpdateOptions{})
	must(t, err)
	loose, _ := clients(t, a.s.agentOn(t, "n"))
	within(t, func() string {
		if _, err := loose.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err == nil {
			return "pods can still be listed"
		}
		return ""
	})
	poor := a.s.startSide(t, "poor")
	poor.kubelet.set(nil, *pinnedPod("of-the-kubelet", 2))
	poor.from(t, side.Kubelet)
	poor.until(t, func(*side.Snapshot) string {
		if poor.pod("of-the-kubelet") == nil {
			return "the kubelet's pod is missing"
		}
		return ""
	})
	poor.end()
	without.Rules = role.Rules
	_, err = roles.Update(t.Context(), without, metav1.UpdateOptions{})
	must(t, err)
}

// worksOn stops the API server, changes pods in the meantime, and starts it again.
func (a *agentSide) worksOn(t *testing.T, v *viewers) {
	ctx := t.Context()
	kept := a.s.boundPod(t, "kept", "n")
	gone := a.s.boundPod(t, "gone", "n")
	a.until(t, func(*side.Snapshot) string {
		if a.pod("gone") == nil || a.pod("kept") == nil {
			return "a pod is missing"
		}
		return ""
	})
	must(t, a.s.StopAPIServer())
	late := *pinnedPod("late", 2)
	late.UID, late.Spec.NodeName, late.ResourceVersion = "late", "n", "999999"
	newer := *kept.DeepCopy()
	newer.ResourceVersion, newer.Annotations[v1alpha1.AnnotationCPUBurst] = "999999", `{"policy":"auto"}`
	a.kubelet.set(nil, newer, late)
	a.from(t, side.Kubelet)
	a.until(t, func(*side.Snapshot) string {
		if a.pod("late") == nil || a.pod("kept") == nil || a.pod("kept").Annotations[v1alpha1.AnnotationCPUBurst] == "" {
			return "the kubelet's pods are missing"
		}
		return ""
	})
	if a.Snapshot().AwaySince.IsZero() || a.Snapshot().Away == nil {
		t.Errorf("snapshot %+v", a.Snapshot())
	}
	a.until(t, func(*side.Snapshot) string {
		if a.pod("gone") != nil {
			return "a pod that the kubelet does not know is still there"
		}
		return ""
	})
	text := somePlacement // It waits until the server is back.
	a.Annotate(side.Object{Namespace: "default", Name: kept.Name, UID: string(kept.UID)}, v1alpha1.AnnotationPlacement, &text)
	a.kubelet.set(errors.New("down"))
	a.from(t, side.Remembered)
	if a.pod("kept") == nil {
		t.Error("the pods are forgotten")
	}
	v.areKept(t, a)
	must(t, a.s.StartAPIServer(ctx))
	a.from(t, side.APIServer)
	a.until(t, func(*side.Snapshot) string {
		if p := a.pod("kept"); p == nil || p.Annotations[v1alpha1.AnnotationPlacement] != text || a.pod("gone") == nil {
			return "the server's pods are missing, or the annotation"
		}
		return ""
	})
	if gone.UID == "" || !a.Snapshot().Lease.Held {
		t.Errorf("snapshot %+v", a.Snapshot())
	}
}

// noticesSilence freezes the API server: all connections stay open, and no event arrives. The agent must notice that
// and use the kubelet's list.
func (a *agentSide) noticesSilence(t *testing.T) {
	frozen := *pinnedPod("in-the-cold", 2)
	frozen.UID, frozen.Spec.NodeName = "in-the-cold", "n"
	must(t, a.s.PauseAPIServer())
	a.kubelet.set(nil, frozen)
	a.from(t, side.Kubelet)
	must(t, a.s.ResumeAPIServer())
	a.from(t, side.APIServer)
}
