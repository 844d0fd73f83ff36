package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// leastTold is the minimum ratio that the agent may report to a pod after a pass that moved all pages. The agent waits
// for the kernel's count, which the kernel of a slow machine may update late (mm/memcontrol.c). The ratio in the group
// itself must be at least 99 %.
const leastTold = 95

// loadMiB is the amount of memory that the pod has on the wrong node.
const loadMiB = 64

// locality makes the documentation's pod allocate its memory on the NUMA node without its CPUs. The shipped agent may
// not move the memory and must report the missing rights. With the rights of deploy/hostpid it must move it. First the
// class's ConfigMap requests this, then the annotation.
func (s *second) locality(t *testing.T) {
	defer s.leave()
	s.applySeed(t, localityConfig)
	s.applyLoaded(t)
	if runs, err := s.await(t.Context(), long); err != nil || !runs {
		t.Fatalf("redis runs: %t, %v", runs, err)
	}
	local := s.localNode(t)
	said := s.event(t, "redis", v1alpha1.EventMemoryLocalityFailed)
	t.Log(said)
	for _, word := range []string{"Container redis failed: ", "hostPID", "CAP_SYS_PTRACE", "deploy/hostpid", "Total: 0 container(s) completed, 1 failed, 0 skipped"} {
		if !strings.Contains(said, word) {
			t.Errorf("no %q in %q", word, said)
		}
	}
	if on := s.memoryOn(t, "redis"); on[1-local] < loadMiB<<20 {
		t.Fatalf("CPUs on node %d, memory on the nodes: %d", local, on)
	}
	if err := s.deploy(t.Context(), "hostpid"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.applyDeploy(context.WithoutCancel(t.Context()), "agent"); err != nil {
			t.Error(err)
		}
	}()
	if _, err := s.quiet(t.Context(), "-n", namespace, "annotate", "pod", "redis", v1alpha1.AnnotationMemoryLocality+`={"policy": "bestEffort"}`, "--overwrite"); err != nil {
		t.Fatal(err)
	}
	s.moved(t, local)
}

// moved waits until the agent reports, in the words of the documentation, that the pod's memory is local. The kernel
// and the pod's status must agree.
func (s *second) moved(t *testing.T, local int) {
	t.Helper()
	said := s.event(t, "redis", v1alpha1.EventMemoryLocalityCompleted)
	t.Log(said)
	form := fmt.Sprintf(`^Container redis completed: migrated memory from remote numa: %d to local numa: %d
Total: 1 container\(s\) completed, 0 failed, 0 skipped; cur local memory ratio (9[5-9]|100), rest remote memory pages \d+$`, 1-local, local)
	if !regexp.MustCompile(form).MatchString(said) {
		t.Errorf("the event says %q, want %q", said, form)
	}
	if on := s.memoryOn(t, "redis"); on[1-local]*100 > on[0]+on[1] || on[local] < loadMiB<<20 {
		t.Errorf("CPUs on node %d, memory on the nodes: %d", local, on)
	}
	s.eventually(t, "the status", func() string {
		p, err := s.client.CoreV1().Pods(namespace).Get(t.Context(), "redis", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		said, status := p.Annotations[v1alpha1.AnnotationMemoryLocalityStatus], v1alpha1.MemoryLocalityStatus{}
		if json.Unmarshal([]byte(said), &status) != nil || status.Phase != v1alpha1.MemoryLocalityPhaseCompleted ||
			status.LastResult == nil || status.LastResult.Result != "Completed" || status.LastResult.CompletedTimeLocalityRatio < leastTold {
			return fmt.Sprintf("it is %q", said)
		}
		return ""
	})
}

// applySeed applies a manifest of the documentation.
func (s *second) applySeed(t *testing.T, name string) {
	t.Helper()
	file, err := seed(name)
	if err == nil {
		err = s.apply(t.Context(), file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// applyLoaded applies the documentation's manifest of Redis. The image here has no bash, so another program replaces
// the command. It chooses where its memory goes, and runs as a user other than root.
func (s *second) applyLoaded(t *testing.T) {
	t.Helper()
	file, err := seed("redis.yaml")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for _, change := range [][2]string{
		{"image: redis:6.0.5", "image: berth-load:1"},
		{`command: ["bash", "-c", "redis-server /redis-master/redis.conf"]`, fmt.Sprintf("args: [%q]", fmt.Sprint(loadMiB))},
		{"spec:\n  containers:", "spec:\n  terminationGracePeriodSeconds: 1\n  securityContext: {runAsUser: 999}\n  containers:"},
	} {
		if strings.Count(text, change[0]) != 1 {
			t.Fatalf("%s: no %q", file, change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	file = filepath.Join(t.TempDir(), "redis.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.apply(t.Context(), file); err != nil {
		t.Fatal(err)
	}
}

// localNode returns the NUMA node of the pod's CPUs.
func (s *second) localNode(t *testing.T) int {
	t.Helper()
	placed, problems := v1alpha1.DecodePlacement(s.pod(t, "redis").Annotations[v1alpha1.AnnotationPlacement])
	cpus, err := cpuset.Parse(placed.Containers["redis"].CPUs)
	if err != nil || len(problems) > 0 || cpus.Size() != 4 {
		t.Fatalf("the placement is %+v: %v, %v", placed, problems, err)
	}
	return s.nodeOf(t, cpus)
}

// nodeOf returns the NUMA node that has all of the CPUs.
func (s *second) nodeOf(t *testing.T, cpus cpuset.Set) int {
	t.Helper()
	for i, list := range strings.Fields(s.sh(t, "cat /sys/devices/system/node/node[01]/cpulist")) {
		if of, err := cpuset.Parse(list); err == nil && cpus.IsSubsetOf(of) {
			return i
		}
	}
	t.Fatalf("CPUs %s are on no single node", cpus)
	return 0
}

// memoryOn returns how many movable bytes of a pod's container are on each of the two nodes.
func (s *second) memoryOn(t *testing.T, pod string) (on [2]int64) {
	t.Helper()
	text := s.sh(t, "cat /sys/fs/cgroup/kubepods.slice/*/*/cri-containerd-"+containerID(s.pod(t, pod))+".scope/memory.numa_stat")
	for line := range strings.Lines(text) {
		var kind string
		var of [2]int64
		if _, err := fmt.Sscanf(line, "%s N0=%d N1=%d", &kind, &of[0], &of[1]); err == nil && (kind == "anon" || kind == "shmem") {
			on[0], on[1] = on[0]+of[0], on[1]+of[1]
		}
	}
	return on
}

// event waits for an event about a pod, and returns its text. Events outlive their pods: an earlier pod of the same
// name may have some.
func (s *second) event(t *testing.T, pod, reason string) (text string) {
	t.Helper()
	s.eventually(t, "event "+reason+" of "+pod, func() string {
		p, err := s.client.CoreV1().Pods(namespace).Get(t.Context(), pod, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		list, err := s.client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(p.UID)})
		if err != nil {
			return err.Error()
		}
		others := make([]string, 0, len(list.Items))
		for _, e := range list.Items {
			if e.Reason == reason {
				text = e.Message
				return ""
			}
			others = append(others, e.Reason+": "+e.Message)
		}
		return fmt.Sprintf("there are %q", others)
	})
	return text
}
