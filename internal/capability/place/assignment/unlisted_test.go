package assignment_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// occupied is a host on which these groups have processes.
type occupied struct {
	host

	groups map[string]bool
}

func (o occupied) HasProcesses(group string) bool { return o.groups[group] }

// withProcesses returns a node of such a host with these pods running.
func withProcesses(t *testing.T, pods ...*cluster.Pod) (*node, occupied) {
	t.Helper()
	h := occupied{groups: map[string]bool{}}
	n := newNode(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	handle(t, n, nri.Event{Kind: nri.Synchronize})
	n.Take(snapshot(pods...))
	for _, p := range pods {
		start(t, n, p)
		h.groups[event(nri.Start, p).Container.CgroupPath], h.groups[sandbox(p).CgroupPath] = true, true
	}
	return n, h
}

// listOf returns the runtime's list of pods.
func listOf(pods ...*cluster.Pod) nri.Event {
	e := nri.Event{Kind: nri.Synchronize}
	for _, p := range pods {
		running := event(nri.Start, p).Container
		running.State = nri.Running
		e.Pods, e.Containers = append(e.Pods, sandbox(p)), append(e.Containers, running)
	}
	return e
}

// desiredOf returns the desired CPUs of each pod's container.
func desiredOf(n *node) map[string]string {
	cpus := map[string]string{}
	all, _ := n.Desired(nil)
	for _, d := range all {
		if d.Container == "main" {
			cpus[d.PodUID] = d.CPUs.String()
		}
	}
	return cpus
}

func nothing(string) cpuset.Set { return cpuset.Set{} }

// The runtime may stop listing a container whose processes run, as containerd does at its start when the shim does not
// answer. The container keeps its CPUs and stays off other CPUs until its processes have ended.
func TestUnlistedContainerKeepsItsCPUs(t *testing.T) {
	pinned, plain := pinnedPod("pinned", "2-3"), plainPod("plain")
	for _, c := range []struct {
		name     string
		unlisted *cluster.Pod
		others   *cluster.Pod
		left     map[string]string // desired once it has ended
	}{
		{"an ordinary pod", plain, pinned, map[string]string{"pinned": "2-3"}},
		{"the pinned pod", pinned, plain, map[string]string{"plain": "0-1,4-7"}}, // the kubelet starts it again
	} {
		t.Run(c.name, func(t *testing.T) {
			n, h := withProcesses(t, pinned, plain)
			want := map[string]string{"pinned": "2-3", "plain": "0-1,4-7"}
			for range 3 {
				handle(t, n, listOf(c.others))
				n.Saw(nothing)
				if diff := cmp.Diff(want, desiredOf(n)); diff != "" {
					t.Fatalf("desired (-want +got):\n%s", diff)
				}
			}
			group := event(nri.Start, c.unlisted).Container.CgroupPath
			if got := inventory.Unlisted(n.Inventory); !slices.Contains(got, group) {
				t.Errorf("unlisted %v, want %s among them", got, group)
			}

			handle(t, n, listOf(pinned, plain)) // its shim answers again
			if got := inventory.Unlisted(n.Inventory); len(got) > 0 {
				t.Errorf("listed again, and unlisted: %v", got)
			}

			handle(t, n, listOf(c.others))
			h.groups[group], h.groups[sandbox(c.unlisted).CgroupPath] = false, false
			n.Saw(nothing)
			if diff := cmp.Diff(c.left, desiredOf(n)); diff != "" {
				t.Errorf("desired after its end (-want +got):\n%s", diff)
			}
			if containers, sandboxes := n.Inventory.Containers().Known(); containers != 2 || sandboxes != 1 || len(inventory.Unlisted(n.Inventory)) > 0 {
				t.Errorf("%d containers, %d sandboxes, unlisted %v", containers, sandboxes, inventory.Unlisted(n.Inventory))
			}
		})
	}
}

// A pod is deleted by force while the runtime does not list it. The next pod must not get the CPUs of its processes.
func TestCPUsOfAnUnlistedPodAreNotGivenAway(t *testing.T) {
	pinned, next := pinnedPod("pinned", "2-3"), pinnedPod("next", "2-3")
	n, h := withProcesses(t, pinned)
	handle(t, n, listOf())
	n.Take(snapshot(next))
	n.Saw(nothing)
	a := start(t, n, next)
	if has := set(desiredOf(n)["pinned"]); has.Size() != 2 || has.Intersects(a.Reply.Adjust.CPUs) {
		t.Errorf("the next pod gets %s, processes of the former have %s", a.Reply.Adjust.CPUs, has)
	}
	for _, u := range a.Reply.Updates {
		if strings.HasSuffix(u.ContainerID, "-pinned") {
			t.Errorf("the runtime is asked to change %s, of which its shim knows nothing", u.ContainerID)
		}
	}
	handle(t, n, nri.Event{Kind: nri.RemovePod, Pod: sandbox(next)})
	clear(h.groups)
	n.Saw(nothing)
	n.Take(snapshot())
	if containers, sandboxes := n.Inventory.Containers().Known(); containers+sandboxes > 0 || len(n.Snapshot().Rows) > 0 {
		t.Errorf("%d containers, %d sandboxes, %+v", containers, sandboxes, n.Snapshot().Rows)
	}
}

// The runtime lists a container whose sandbox has ended, as over CRI during the container's grace period. The container
// keeps its CPUs until it ends.
func TestContainerThatOutlivesItsSandbox(t *testing.T) {
	pinned, plain := pinnedPod("pinned", "2-3"), plainPod("plain")
	n, h := withProcesses(t, pinned, plain)
	e := listOf(pinned, plain)
	e.Pods = e.Pods[1:]
	h.groups[sandbox(pinned).CgroupPath] = false
	for range 3 {
		handle(t, n, e)
		n.Saw(nothing)
		if got := desiredOf(n)["pinned"]; got != "2-3" {
			t.Fatalf("desired %q, want 2-3", got)
		}
	}
	h.groups[event(nri.Start, pinned).Container.CgroupPath] = false
	handle(t, n, listOf(plain))
	if got, found := desiredOf(n)["pinned"]; found {
		t.Errorf("it has ended, and %q is desired", got)
	}
}

// The runtime reports the end of containers whose shims do not answer. They keep their CPUs until their processes have
// ended.
func TestEndOfAnUnlistedContainer(t *testing.T) {
	pinned, plain := pinnedPod("pinned", "2-3"), plainPod("plain")
	n, h := withProcesses(t, pinned, plain)
	handle(t, n, listOf())
	n.Take(snapshot())
	for _, e := range []nri.Event{
		event(nri.Stop, plain), event(nri.Remove, plain), event(nri.Stop, pinned),
		{Kind: nri.StopPod, Pod: sandbox(pinned)},
		{Kind: nri.RemovePod, Pod: sandbox(pinned)},
	} {
		handle(t, n, e)
		n.Saw(nothing)
		if got := desiredOf(n); n.Exclusive().String() != "2-3" || got["pinned"] != "2-3" || got["plain"] != "0-1,4-7" {
			t.Fatalf("after %s of %s: exclusive %s, desired %v", e.Kind, e.Pod.UID, n.Exclusive(), got)
		}
	}
	clear(h.groups)
	n.Saw(nothing)
	if containers, sandboxes := n.Inventory.Containers().Known(); containers+sandboxes > 0 || !n.Exclusive().IsEmpty() || len(inventory.Unlisted(n.Inventory)) > 0 {
		t.Errorf("%d containers, %d sandboxes, exclusive %s", containers, sandboxes, n.Exclusive())
	}
}

// The runtime lists a new container with the group of an old one. The group is then no longer unlisted.
func TestGroupOfAnUnlistedContainer(t *testing.T) {
	plain := plainPod("plain")
	n, _ := withProcesses(t, plain)
	e := listOf(plain)
	e.Containers[0].ID = "next"
	handle(t, n, e)
	if got := inventory.Unlisted(n.Inventory); len(got) > 0 {
		t.Errorf("unlisted %v", got)
	}
}
