package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/scheduler/relocation"
	"github.com/berth-project/berth/test/cluster"
)

// movedMiB is the amount of memory of each movable pod.
const movedMiB = 32

// movable makes a pod movable. The pod has memory that follows its CPUs: first on the other NUMA node.
func movable(p *v1.Pod) {
	p.Annotations[v1alpha1.AnnotationMovable] = v1alpha1.Movable
	p.Annotations[v1alpha1.AnnotationMemoryLocality] = `{"policy": "bestEffort"}`
	p.Spec.Containers[0].Image, p.Spec.Containers[0].Args = "berth-load:1", []string{fmt.Sprint(movedMiB)}
}

// oneNode makes a pod wait for CPUs of one NUMA node.
func oneNode(p *v1.Pod) {
	p.Annotations[v1alpha1.AnnotationNUMATopologySpec] = fmt.Sprintf(`{"numaTopologyPolicy":%q}`, v1alpha1.NUMASingleNUMANode)
}

// repack fragments the machine, whose NUMA nodes have ten CPUs each: movable pods have four CPUs of each node. A pod
// that needs eight CPUs of one node waits, until kubectl berth repack has moved one of the pods to the other node. No
// container restarts, and the memory of the moved pod follows. In the end a rollback restores everything.
func (s *second) repack(t *testing.T) {
	if err := s.deploy(t.Context(), "hostpid"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.applyDeploy(context.WithoutCancel(t.Context()), "agent"); err != nil {
			t.Error(err)
		}
	}()
	pods := []string{"one", "two"}
	s.start(t, "neighbour", 0)
	s.start(t, "one", 4, movable)
	s.start(t, "filler", 6)
	s.start(t, "two", 4, movable)
	s.remove(t, "filler")
	s.settled(t)
	before := map[string]resting{}
	for _, name := range append(pods, "neighbour") {
		before[name] = s.resting(t, name)
	}
	if before["one"].node == before["two"].node {
		t.Fatalf("the movable pods are on one NUMA node: %+v", before)
	}
	for _, name := range pods {
		s.localMemory(t, name)
	}

	s.create(t, "large", 8, oneNode)
	s.eventually(t, "large is pending by fragmentation", func() string {
		for _, c := range s.pod(t, "large").Status.Conditions {
			if c.Type == v1.PodScheduled && strings.Contains(c.Message, "pending by fragmentation: node "+vmName+" has ") {
				t.Log(c.Message)
				return ""
			}
		}
		return fmt.Sprintf("%+v", s.pod(t, "large").Status.Conditions)
	})
	t.Log(s.event(t, "large", v1alpha1.EventFitsAfterRepack))
	name := s.carryOut(t, before)
	s.runs(t, "large")
	s.settled(t)
	t.Log(s.event(t, name, v1alpha1.EventCPUPinned))
	s.localMemory(t, name)
	for _, name := range append(pods, "neighbour") {
		s.sameContainer(t, name, before[name].id)
	}
	if has := s.given(t, "large"); has.Size() != 8 || s.nodeOf(t, has) != before[name].node {
		t.Errorf("large has CPUs %s, and node %d came free", has, before[name].node)
	}

	s.agents(t, patchPaused)
	s.eventually(t, "the agent ended", func() string { return s.sh(t, "cat /proc/[0-9]*/comm 2>/dev/null | grep -x berth || true") })
	t.Log(s.sh(t, "berth rollback"))
	s.everywhere(t, "after the rollback")
	for _, name := range append(pods, "neighbour") {
		s.sameContainer(t, name, before[name].id)
	}
	s.agents(t, patchBack)
	s.settled(t)
}

// resting is a pod before a repack.
type resting struct {
	id   string // of the container
	cpus string // of the placement
	node int    // which has these CPUs
	mems string // that the kernel permits
}

func (s *second) resting(t *testing.T, name string) resting {
	t.Helper()
	p := s.pod(t, name)
	r := resting{id: containerID(p), mems: s.kernel(t.Context(), p).Mems}
	if cpus := s.given(t, name); !cpus.IsEmpty() {
		r.cpus, r.node = cpus.String(), s.nodeOf(t, cpus)
	}
	return r
}

// localMemory waits until nearly all memory of a pod is on the NUMA node of its CPUs.
func (s *second) localMemory(t *testing.T, name string) {
	t.Helper()
	node := s.nodeOf(t, s.given(t, name))
	s.eventually(t, fmt.Sprintf("the memory of %s is on node %d", name, node), func() string {
		on := s.memoryOn(t, name)
		t.Logf("%s has CPUs of node %d, memory on the nodes: %d", name, node, on)
		if on[node] < movedMiB<<20 || on[1-node]*100 > on[0]+on[1] {
			return fmt.Sprintf("the nodes have %d", on)
		}
		return ""
	})
}

// carryOut runs kubectl berth repack as a user does, first with --dry-run. The plan must have one move, which the agent
// must carry out. It returns the name of the pod that moved.
func (s *second) carryOut(t *testing.T, before map[string]resting) string {
	t.Helper()
	programs, err := cluster.Find()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(programs.Berth, filepath.Join(dir, "kubectl-berth")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if err := s.run(t.Context(), "berth", "repack", vmName, "--dry-run"); err != nil {
		t.Fatal(err)
	}
	for name, was := range before {
		if now := s.resting(t, name); now != was {
			t.Errorf("--dry-run: %s was %+v and is %+v", name, was, now)
		}
	}
	out, err := s.quiet(t.Context(), "berth", "repack", vmName, "--timeout", "1h", "-o", "json")
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	var done struct {
		Pod   string            `json:"pod"`
		Steps []relocation.Step `json:"steps"`
	}
	if err := json.Unmarshal(out, &done); err != nil {
		t.Fatal(err)
	}
	if len(done.Steps) != 1 || done.Pod != namespace+"/large" || done.Steps[0].State != relocation.Moved {
		t.Fatalf("the result is %+v", done)
	}
	step := done.Steps[0]
	name := strings.TrimPrefix(step.Pod, namespace+"/")
	was, now := before[name], s.resting(t, name)
	if step.From.String() != was.cpus || step.To.String() != now.cpus || now.node == was.node || now.id != was.id || now.mems != was.mems {
		t.Errorf("%+v: %s was %+v and is %+v", step, name, was, now)
	}
	return name
}
