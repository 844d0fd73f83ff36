package node

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	node "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/test/cluster/local"
)

// pinnable waits until the NodeTopology reports the given condition Pinnable.
func (s *stage) pinnable(t *testing.T, want bool, reason string) {
	t.Helper()
	status := map[bool]string{true: "True", false: "False"}[want] + " " + reason
	s.eventually(t, "Pinnable "+status, func() string {
		got, err := local.Pinnable(t.Context(), s.client, local.NodeName)
		if err != nil {
			return err.Error()
		}
		if strings.HasPrefix(got, status) {
			return ""
		}
		return "it is " + got
	})
}

// refusedThenPinned starts a pod that asks for CPUs while another program owns the CPU sets. The agent must refuse it
// without changing a file, and must pin the next pod once the other program has stopped.
func (s *stage) refusedThenPinned(t *testing.T, reason string, over func()) {
	t.Helper()
	s.pinnable(t, false, reason)
	p := s.start(t, "refused", pinned, here)
	s.event(t, space, "refused", "PlacementRefused")
	g := s.groupOf(t, id(p, "app"))
	if masks, _ := g.masks(true); len(masks) != 1 || !masks[0].equal(online()) {
		t.Errorf("%s: refused runs on %s", reason, masks)
	}
	if q := quota(g.dir); q != "100000" {
		t.Errorf("%s: the quota of refused is %s", reason, q)
	}
	s.remove(t, "refused")
	over()
	s.pinnable(t, true, "")
	s.start(t, "accepted", pinned)
	s.settled(t)
	if has := s.placement(t, "accepted", "app"); len(has.cpus) != 1 {
		t.Errorf("after %s: accepted has CPUs %s", reason, has.cpus)
	}
}

// kubeletStatic makes the kubelet assign CPUs itself.
func (s *stage) kubeletStatic(t *testing.T) {
	t.Cleanup(func() { s.kubeletPolicy(t, "none") })
	s.start(t, "neighbour")
	s.kubeletPolicy(t, "static")
	s.refusedThenPinned(t, "", func() { s.kubeletPolicy(t, "none") })
}

// kubeletPolicy restarts the kubelet with another CPU manager policy.
func (s *stage) kubeletPolicy(t *testing.T, policy string) {
	t.Helper()
	config := s.kubelet
	if policy != "none" {
		config = s.kubeletWith(t, config, map[string]any{"cpuManagerPolicy": policy, "reservedSystemCPUs": "1"})
	}
	s.kubeletStarts(t, config)
}

// kubeletMemory makes the kubelet assign memory itself. Berth must report that and continue to assign CPUs.
func (s *stage) kubeletMemory(t *testing.T) {
	const reserved, told = "64Mi", "True Working: the kubelet's memoryManagerPolicy is Static"
	defer func() {
		s.kubeletStarts(t, s.kubelet)
		// Until the agent has asked the kubelet again, it leaves memory to the kubelet.
		s.eventually(t, "Pinnable without the kubelet's memory", func() string {
			got, err := local.Pinnable(context.WithoutCancel(t.Context()), s.client, local.NodeName)
			if err != nil {
				return err.Error()
			}
			if strings.HasPrefix(got, "True ") && !strings.HasPrefix(got, told) {
				return ""
			}
			return "it is " + got
		})
	}()
	s.kubeletStarts(t, s.kubeletWith(t, s.kubelet, map[string]any{
		"memoryManagerPolicy": "Static",
		"systemReserved":      map[string]string{"memory": reserved},
		"reservedMemory":      []any{map[string]any{"numaNode": 0, "limits": map[string]string{"memory": reserved}}},
	}))
	s.pinnable(t, true, strings.TrimPrefix(told, "True "))
	p := s.start(t, "guaranteed", pinned, func(p *v1.Pod) {
		all := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("32Mi")}
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: all, Limits: all}
	})
	s.settled(t)
	if has := s.placement(t, "guaranteed", "app"); len(has.cpus) != 1 {
		t.Errorf("guaranteed has CPUs %s", has.cpus)
	}
	s.unchanged(t, p)
	state, err := os.ReadFile(local.NodePath("/var/lib/kubelet/memory_manager_state"))
	must(t, err)
	if !strings.Contains(string(state), `"policyName":"Static"`) || !strings.Contains(string(state), string(p.UID)) {
		t.Errorf("the kubelet gave guaranteed no memory: %s", state)
	}
}

// kubeletStarts restarts the kubelet with a configuration, unless it already has it.
func (s *stage) kubeletStarts(t *testing.T, config []byte) {
	t.Helper()
	if now, err := os.ReadFile(configFile("kubelet.yaml")); err == nil && string(now) == string(config) {
		return
	}
	must(t, os.WriteFile(configFile("kubelet.yaml"), config, 0o600))
	// The kubelet does not start with the state of another policy.
	for _, state := range []string{"cpu_manager_state", "memory_manager_state"} {
		if err := os.Remove(local.NodePath("/var/lib/kubelet/" + state)); !errors.Is(err, fs.ErrNotExist) {
			must(t, err)
		}
	}
	s.kill(t, "kubelet")
	s.nodeReady(t)
}

// otherPlugin connects another plugin that sets CPU sets.
func (s *stage) otherPlugin(t *testing.T) {
	stop := s.plug(t, "10", &plugin{created: func(pod, _ string) string {
		if pod == "theirs" {
			return online().String()
		}
		return ""
	}})
	s.start(t, "theirs")
	// The reason is OtherNRIPlugin, or ForeignCPUSet while the agent has seen only the set.
	s.refusedThenPinned(t, "", func() {
		stop()
		s.remove(t, "theirs")
	})
}

// koordlet starts a pod on the node that looks like koordlet's.
func (s *stage) koordlet(t *testing.T) {
	_, err := s.client.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: selectorSpace}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		must(t, err)
	}
	sets := s.client.AppsV1().DaemonSets(selectorSpace)
	labels := map[string]string{"koord-app": "koordlet"}
	p := podOf("koordlet")
	p.Spec.Containers[0].Name = "koordlet"
	_, err = sets.Create(t.Context(), &apps.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "koordlet"},
		Spec: apps.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: p.Spec},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	end := func() {
		if err := sets.Delete(t.Context(), "koordlet", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			must(t, err)
		}
	}
	defer end()
	s.refusedThenPinned(t, "Koordlet", end)
}

// virtualMachine runs a pod with a handler whose name belongs to a runtime that starts virtual machines.
func (s *stage) virtualMachine(t *testing.T) {
	classes := s.client.NodeV1().RuntimeClasses()
	_, err := classes.Create(t.Context(), &node.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "kata"}, Handler: "kata"}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		must(t, err)
	}
	defer func() { must(t, classes.Delete(t.Context(), "kata", metav1.DeleteOptions{})) }()
	p := s.start(t, "machine", pinned, here, func(p *v1.Pod) {
		name := "kata"
		p.Spec.RuntimeClassName = &name
	})
	s.event(t, space, "machine", "PlacementRefused", "kata", "virtual machine")
	if masks, _ := s.groupOf(t, id(p, "app")).masks(true); len(masks) != 1 || !masks[0].equal(online()) {
		t.Errorf("machine runs on %s", masks)
	}
	s.start(t, "beside", pinned, here) // This machine has no such runtime, but the scheduler does not know that.
	s.settled(t)
}

// twoAgents starts another agent on the node, with its own state directory.
func (s *stage) twoAgents(t *testing.T) {
	maps := s.client.CoreV1().ConfigMaps(berth)
	_, err := maps.Create(t.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "second"}, Data: map[string]string{"agent.yaml": `stateDir: /var/lib/berth/second
listen: 127.0.0.1:9317
cluster: {enabled: true, nriSocket: /run/nri/nri.sock}
`}}, metav1.CreateOptions{})
	must(t, err)
	defer func() { must(t, maps.Delete(t.Context(), "second", metav1.DeleteOptions{})) }()
	must(t, os.MkdirAll(local.NodePath("/var/lib/berth")+"/second", 0o700))
	first := s.agent(t)
	second := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "second", Namespace: berth}, Spec: *first.Spec.DeepCopy()}
	c := &second.Spec.Containers[0]
	c.LivenessProbe, c.ReadinessProbe = nil, nil
	for i := range second.Spec.Volumes {
		if v := &second.Spec.Volumes[i]; v.ConfigMap != nil && v.Name == "config" {
			v.ConfigMap.Name = "second"
		}
	}
	pods := s.client.CoreV1().Pods(berth)
	_, err = pods.Create(t.Context(), second, metav1.CreateOptions{})
	must(t, err)
	defer func() { must(t, pods.Delete(t.Context(), "second", deleteNow())) }()
	s.eventually(t, "the second agent says that it is not the one", func() string {
		log, err := pods.GetLogs("second", &v1.PodLogOptions{}).DoRaw(t.Context())
		if err != nil {
			return err.Error()
		}
		if strings.Contains(string(log), "another agent") || strings.Contains(string(log), "Another agent") {
			return ""
		}
		return "it says " + strconv.Quote(string(log))
	})
	s.start(t, "neighbour")
	p := s.start(t, "held", pinned)
	s.settled(t)
	s.unchanged(t, p)
	if journal, err := os.ReadFile(local.NodePath("/var/lib/berth") + "/second/journal"); err == nil && strings.Contains(string(journal), "cpuset") {
		t.Errorf("the second agent has written:\n%s", journal)
	}
}

// deleteNow returns options for a deletion without a grace period.
func deleteNow() metav1.DeleteOptions {
	now := int64(0)
	return metav1.DeleteOptions{GracePeriodSeconds: &now}
}
