package node

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/test/cluster/local"
)

const (
	classKey     = "koordinator.sh/qosClass"
	thresholdKey = "resource-threshold-config"
)

// isOffline reports whether a pod counts as offline while an administrator isolates offline work: by its label, or,
// without the label, as a BestEffort pod that is not a system pod.
func isOffline(p *v1.Pod) bool {
	if class := p.Labels[classKey]; class != "" {
		return class == "BE"
	}
	system := p.Namespace == metav1.NamespaceSystem || p.Spec.Priority != nil && *p.Spec.Priority >= 2_000_000_000
	return p.Status.QOSClass == v1.PodQOSBestEffort && !system
}

// cores returns all CPUs of the cores that contain these CPUs.
func (l list) cores() list {
	all := list{}
	for cpu := range l {
		siblings, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
		if err != nil {
			continue // The CPU is offline.
		}
		all = all.with(parseList(string(siblings)))
	}
	return all
}

// isolates sets whether, from now on, no core may run both an online and an offline container.
func (w *witness) isolates(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isolated = on
}

func (w *witness) isIsolated() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isolated
}

// beside adds the pairs of an online and an offline container that run on one core.
func beside(all []seen, pairs map[string]bool) {
	for _, offline := range all {
		if !offline.offline() {
			continue
		}
		for _, online := range all {
			if !online.offline() && meet(offline.masks, online.masks) {
				pairs[fmt.Sprintf("%s runs on %s, and %s, which is offline, on %s", online, online.masks, offline, offline.masks)] = true
			}
		}
	}
}

// TestBeside checks that the witness reports an online and an offline container on one core, and no other pair.
func TestBeside(t *testing.T) {
	t.Parallel()
	on := func(class string, cpus list) seen {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{classKey: class}}}
		return seen{&resident{pod: p}, []list{cpus}}
	}
	first := list{0: true}
	for name, c := range map[string]struct {
		all  []seen
		want int
	}{
		"both on one CPU":  {[]seen{on("LS", first), on("BE", first)}, 1},
		"one is nowhere":   {[]seen{on("LS", first), on("BE", list{})}, 0},
		"both are offline": {[]seen{on("BE", first), on("BE", first)}, 0},
		"neither is":       {[]seen{on("LS", first), on("", first)}, 0},
	} {
		pairs := map[string]bool{}
		if beside(c.all, pairs); len(pairs) != c.want {
			t.Errorf("%s: %v", name, pairs)
		}
	}
}

// meet reports whether some and others have a core in common.
func meet(some, others []list) bool {
	for _, one := range some {
		if slices.ContainsFunc(others, one.cores().meets) {
			return true
		}
	}
	return false
}

func (r *resident) offline() bool { return r.pod != nil && isOffline(r.pod) }

// sides returns the CPUs of the online and the offline containers, from their files.
func (w *witness) sides() (online, offline list) {
	online, offline = list{}, list{}
	for _, r := range w.residents() {
		file := parseList(read(cpusets(), r.dir, "cpuset.cpus"))
		switch {
		case len(r.pids()) == 0:
		case r.offline():
			offline = offline.with(file)
		default:
			online = online.with(file)
		}
	}
	return online, offline
}

// side returns the part of all CPUs that the other side does not use.
func (w *witness) side(r *resident, all list) list {
	online, offline := w.sides()
	others := offline.cores()
	if r.offline() {
		others = online.cores()
	}
	own := list{}
	for cpu := range all {
		if !others[cpu] {
			own[cpu] = true
		}
	}
	return own
}

// isolation runs a Deployment of online and one of offline pods on the node. The offline pods get their own cores, the
// minimum number, so that the boundary does not move, and are idle, except those whose own annotation switches that off.
// Every container must be on its side from its first instruction, also after a kill of the kubelet or of the agent. When
// the administrator ends the isolation, all containers must have all CPUs and the kubelet's weights again.
func (s *stage) isolation(t *testing.T) {
	defer s.undeploy(t, "online", "offline", "opted-out")
	s.deploy(t, "online", limited(""))
	before := s.deployed(t, "online")[0]
	file := cpusets() + s.groupOf(t, id(before, "app")).dir + "/cpuset.cpus"
	all := contents([]string{file})

	s.isolate(t, true)
	s.eventually(t, "pods that are there already, and shared cores until now, to keep to their sides", func() string {
		pairs := map[string]bool{}
		beside(s.witness.running(), pairs)
		return strings.Join(slices.Sorted(maps.Keys(pairs)), "; ")
	})
	s.witness.isolates(true)
	s.deploy(t, "offline", limited(""), labelled(classKey, "BE"), func(p *v1.Pod) {
		hog := maskContainer("hog", "spin")
		hog.Image, hog.Resources = "berth-burn:1", cpu("100m")
		p.Spec.Containers = append(p.Spec.Containers, hog)
	})
	s.deploy(t, "opted-out", limited(""), labelled(classKey, "BE"), annotated(cpuQOSKey, optedOut))
	s.start(t, "best-effort")
	s.rightSides(t, "offline", "opted-out")
	s.published(t)
	s.precedence(t)
	for _, p := range s.deployed(t, "opted-out") {
		s.annotate(t, p.Name, cpuQOSKey, optedIn)
	}
	s.yields(t, "opted-out", true)
	for _, p := range s.deployed(t, "opted-out") {
		s.annotate(t, p.Name, cpuQOSKey, mistakenCPUQOS)
		s.event(t, space, p.Name, "InvalidPolicy", cpuQOSKey, "groupIdentity", "9", "allowed")
	}
	s.precedence(t)

	must(t, s.c.Stop(t.Context(), "kubelet"))
	s.replace(t, "online", "offline")
	must(t, s.c.Start(t.Context(), "kubelet"))
	s.nodeReady(t)
	s.rightSides(t, "offline")
	s.precedence(t)

	s.freshAgent(t)
	pid := s.agentPID(t)
	s.killAgent(t)
	s.agentBack(t, pid)
	s.replace(t, "online", "offline")
	s.rightSides(t, "online", "offline")
	s.precedence(t)

	s.witness.isolates(false)
	s.isolate(t, false)
	s.settled(t)
	for _, name := range []string{"online", "offline", "opted-out"} {
		s.yields(t, name, false)
	}
	if now := contents([]string{file}); now != all && exists(file) {
		t.Errorf("%s had CPUs %s before the isolation, and has %s after it", before.Name, all, now)
	}
}

// precedence checks that exactly the offline pods that did not opt out are idle.
func (s *stage) precedence(t *testing.T) {
	t.Helper()
	s.yields(t, "online", false)
	s.yields(t, "offline", true)
	s.yields(t, "opted-out", false)
}

// isolate configures, as an administrator, separate cores and precedence for offline work, or ends that. With a threshold
// of 0 the number of cores is the minimum.
func (s *stage) isolate(t *testing.T, enable bool) {
	t.Helper()
	s.configMap(t, "kube-system", "ack-slo-config", map[string]string{
		thresholdKey: fmt.Sprintf(`{"clusterStrategy": {"enable": %v, "cpuSuppressThresholdPercent": 0}}`, enable),
		qosKey:       fmt.Sprintf(`{"clusterStrategy": {"beClass": {"cpuQOS": {"enable": %v}}}}`, enable),
	})
}

// rightSides waits until both sides are separate. It then compares the sides with the first output of every pod of
// these Deployments.
func (s *stage) rightSides(t *testing.T, deployments ...string) {
	t.Helper()
	s.deployed(t, "online")
	s.deployed(t, "offline")
	s.settled(t)
	online, offline := s.witness.sides()
	for _, name := range deployments {
		for _, p := range s.deployed(t, name) {
			want := online
			if isOffline(p) {
				want = offline
			}
			if got := s.printed(t, p, "app"); len(got) != 1 || !parseList(got[0][0]).equal(want) {
				t.Errorf("%s printed %q first, online containers have %s, offline ones %s", p.Name, got, online, offline)
			}
		}
	}
	if shared := metrics(t)["berth_isolate_overlap_cores"]; shared != 0 {
		t.Errorf("the agent sees %v cores with containers of both sides", shared)
	}
}

// published waits until the NodeTopology reports that the sides are separate, with the CPUs of the offline side.
func (s *stage) published(t *testing.T) {
	t.Helper()
	_, offline := s.witness.sides()
	const path = `jsonpath={.status.conditions[?(@.type=="Isolated")].status} {.status.pools.offline}`
	s.eventually(t, "the condition Isolated", func() string {
		said := s.kubectl(t, "get", "nodetopology", local.NodeName, "-o", path)
		if status, cpus, _ := strings.Cut(said, " "); status == "True" && parseList(cpus).equal(offline) {
			return ""
		}
		return fmt.Sprintf("it is %q, and offline containers have %s", said, offline)
	})
}

// deploy creates a Deployment of two pods.
func (s *stage) deploy(t *testing.T, name string, options ...option) {
	t.Helper()
	two, p := int32(2), podOf(name, options...)
	p.Labels["app"] = name
	_, err := s.client.AppsV1().Deployments(space).Create(t.Context(), &apps.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apps.DeploymentSpec{
			Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels, Annotations: p.Annotations}, Spec: p.Spec},
		},
	}, metav1.CreateOptions{})
	must(t, err)
}

// undeploy removes Deployments; clean removes their pods.
func (s *stage) undeploy(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		err := s.client.AppsV1().Deployments(space).Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) {
			must(t, err)
		}
	}
}

// deployed waits until both pods of a Deployment run and no other pods of it exist.
func (s *stage) deployed(t *testing.T, name string) (all []*v1.Pod) {
	t.Helper()
	var names []string
	s.eventually(t, "the pods of "+name, func() string {
		list, err := s.client.CoreV1().Pods(space).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return err.Error()
		}
		names = nil
		for i := range list.Items {
			p := &list.Items[i]
			if p.DeletionTimestamp != nil {
				return p.Name + " is still there"
			}
			names = append(names, p.Name)
		}
		if len(names) != 2 {
			return fmt.Sprintf("%q", names)
		}
		return ""
	})
	for _, name := range names {
		all = append(all, s.runs(t, name))
	}
	return all
}

// replace deletes the pods of Deployments, which create new pods at once.
func (s *stage) replace(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		must(t, s.client.CoreV1().Pods(space).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=" + name}))
	}
}
