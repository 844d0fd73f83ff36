package assignment_test

import (
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// lists is a host on which groups had CPU lists before Berth.
type lists struct {
	host

	original map[string]cpuset.Set
}

func (l lists) OriginalCPUs(group string) cpuset.Set { return cpusOf(group, l.original) }

func withLists(t *testing.T, original map[string]cpuset.Set) *node {
	t.Helper()
	h := lists{host{map[string]cpuset.Set{}}, original}
	n := newNode(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef", AllocatableMilli: 8000})
	return n
}

func wantsOf(n *node) map[string]string {
	got := map[string]string{}
	all, _ := n.Desired(nil)
	for _, w := range all {
		got[w.Group] = w.CPUs.String()
	}
	return got
}

// Groups that shrink to the shared pool stay within their CPUs from before Berth.
func TestPoolIsBoundByOriginals(t *testing.T) {
	n := withLists(t, map[string]cpuset.Set{"b.service": set("4-6")})
	n.SetStandalone([]workload.Workload{{
		Name: "w", Cgroup: "w.service", Limit: 2, Annotations: map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"},
	}}, []string{"a.service", "b.service"})
	got := wantsOf(n)
	own := set(got["w.service"])
	if own.Size() != 2 {
		t.Fatalf("desired %v", got)
	}
	for group, want := range map[string]cpuset.Set{"a.service": set("0-7"), "b.service": set("4-6")} {
		if got[group] != want.Difference(own).String() {
			t.Errorf("%s gets %s, want %s", group, got[group], want.Difference(own))
		}
	}
}

// A workload keeps its exclusive CPUs until its file asks for none. An invalid value does not take them away.
func TestWorkloadKeepsWhatItAsksFor(t *testing.T) {
	for value, want := range map[string]string{"true": "2-3", "false": "", "maybe": "2-3"} {
		n := newNode(host{map[string]cpuset.Set{"w.service": set("2-3")}}, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
		n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
		n.SetStandalone([]workload.Workload{{
			Name: "w", Cgroup: "w.service", Limit: 2, Annotations: map[string]string{v1alpha1.AnnotationCPUSetScheduler: value},
		}}, nil)
		if got := wantsOf(n)["w.service"]; got != want {
			t.Errorf("cpuset-scheduler %s: it gets %q, want %q", value, got, want)
		}
	}
}

// Containers that the runtime reports also stay within their original CPUs. A list from Berth's answer is not an
// original.
func TestContainersAreBoundByOriginals(t *testing.T) {
	n := withLists(t, map[string]cpuset.Set{"kubepods/podweb/c": set("4-6"), "kubepods/podnew/c": set("4-6")})
	handle(t, n, nri.Event{Kind: nri.Synchronize})
	app, web, later := pinnedPod("app", "0-1"), plainPod("web"), plainPod("new")
	n.Take(snapshot(web))
	start(t, n, web)
	n.Take(snapshot(app, web, later))
	start(t, n, app)
	handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(later)})
	a := handle(t, n, event(nri.Create, later))
	started := event(nri.Start, later)
	started.Container.Resources.CPUs = a.Reply.Adjust.CPUs
	handle(t, n, started)
	got := wantsOf(n)
	for group, want := range map[string]string{"app": "0-1", "web": "4-6", "new": "2-7"} {
		if got["kubepods/pod"+group+"/c"] != want {
			t.Errorf("desired %v, want %s for %s", got, want, group)
		}
	}
}
