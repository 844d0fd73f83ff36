package cluster

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/api/v1alpha1"
)

// boundPod returns pinnedPod, bound to node n with a placement annotation.
func boundPod(t *testing.T, name string, count int, placement v1alpha1.Placement, options ...podOption) *v1.Pod {
	t.Helper()
	pod := pinnedPod(name, count, options...)
	pod.UID = types.UID(name)
	pod.Spec.NodeName = "n"
	pod.Annotations[v1alpha1.AnnotationPlacement] = placement.Encode()
	return pod
}

// TestTheLedgerSeesEachKindOfFault gives the ledger each kind of fault, because the other tests rely on its judgment.
func TestTheLedgerSeesEachKindOfFault(t *testing.T) {
	machine := recorded(t, "vm-2s2n-smt") // Cores 0-1, 2-3, 4-5, 6-7; nodes 0-3 and 4-7.
	at := func(cpus string) v1alpha1.Placement {
		return v1alpha1.Placement{V: 1, Topology: machine.Hash(), Containers: map[string]v1alpha1.ContainerPlacement{
			"app": {CPUs: cpus, Mems: "0", Policy: v1alpha1.PlacementExclusive},
		}}
	}
	alone := at("0")
	alone.Exclusive = v1alpha1.CPUExclusivePCPULevel
	wholeNode := at("0")
	wholeNode.Exclusive = v1alpha1.CPUExclusiveNUMANodeLevel
	elsewhere := at("0-1")
	elsewhere.Topology = "0123456789abcdef"
	burst := at("0-1")
	burst.Containers["app"] = v1alpha1.ContainerPlacement{CPUs: "0-1", Mems: "0", Policy: v1alpha1.PlacementStaticBurst, Domain: "numa:1"}
	bad := func(mems string) v1alpha1.Placement {
		p := at("0-1")
		p.Containers["app"] = v1alpha1.ContainerPlacement{CPUs: "0-1", Mems: mems, Policy: v1alpha1.PlacementExclusive}
		return p
	}
	two := map[string]int{"app": 2}
	ordinary := func(name, request string) *v1.Pod {
		pod := podObject(name, request, "")
		pod.UID, pod.Spec.NodeName = types.UID(name), "n"
		return pod
	}
	for _, test := range []struct {
		name string
		pods []*v1.Pod
		want string // A part of the only fault; no fault if empty.
	}{
		{"neighbours", []*v1.Pod{boundPod(t, "a", 2, at("0-1")), boundPod(t, "b", 2, at("2-3"))}, ""},
		{"twice", []*v1.Pod{boundPod(t, "a", 2, at("0-1")), boundPod(t, "b", 2, at("1-2"))}, "CPUs 1 are given to"},
		{"count", []*v1.Pod{boundPod(t, "a", 3, at("0-1"))}, "want 3 of them"},
		{"offline", []*v1.Pod{boundPod(t, "a", 2, at("7-8"))}, "not all usable"},
		{"mems", []*v1.Pod{boundPod(t, "a", 2, bad("5"))}, "memory nodes"},
		{"nothing to share", []*v1.Pod{boundPod(t, "a", 4, at("0-3")), boundPod(t, "b", 3, at("4-6"))}, "no whole core"},
		{"a core to share", []*v1.Pod{boundPod(t, "a", 4, at("0-3")), boundPod(t, "b", 2, at("4-5"))}, ""},
		{"hash", []*v1.Pod{boundPod(t, "a", 2, elsewhere)}, "for topology"},
		{"too full", []*v1.Pod{boundPod(t, "a", 2, at("0-1")), ordinary("b", "6100m")}, "8100 milli-CPUs are promised, 8000"},
		{"just full", []*v1.Pod{boundPod(t, "a", 2, at("0-1")), ordinary("b", "6")}, ""},
		{"empty sibling counts", []*v1.Pod{boundPod(t, "a", 1, alone), ordinary("b", "6100m")}, "8100 milli-CPUs"},
		{"empty sibling is taken", []*v1.Pod{boundPod(t, "a", 1, alone), boundPod(t, "b", 1, at("1"))}, "has for itself"},
		{"node is taken", []*v1.Pod{boundPod(t, "b", 1, at("3")), boundPod(t, "a", 1, wholeNode)}, "has for itself"},
		{"hidden CPUs count", []*v1.Pod{boundPod(t, "a", 4, at("0-3"), requesting("1")), ordinary("b", "4100m")}, "8100 milli-CPUs"},
		{"two nodes", []*v1.Pod{boundPod(t, "a", 2, at("3-4"), expecting(expectation{CPUs: two, OneNode: true}))}, "several NUMA nodes"},
		{"split core", []*v1.Pod{boundPod(t, "a", 2, at("1-2"), expecting(expectation{CPUs: two, FullCores: true}))}, "not whole cores"},
		{"not exclusive", []*v1.Pod{boundPod(t, "a", 2, at("0-1"), expecting(expectation{CPUs: two, Exclusive: v1alpha1.CPUExclusivePCPULevel}))}, "exclusivity"},
		{"wrong domain", []*v1.Pod{boundPod(t, "a", 2, burst, expecting(expectation{CPUs: two, Burst: true}))}, "not in domain"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLedger()
			l.addNode("n", machine, 8000)
			for _, pod := range test.pods {
				l.seen(pod)
			}
			wantFaults(t, l, test.want)
			for _, pod := range test.pods {
				l.deleted(pod)
			}
			if used := l.nodes["n"].used; used != 0 {
				t.Errorf("%d milli-CPUs are still promised on the empty node", used)
			}
		})
	}
}

func TestTheLedgerSeesChangesAfterBinding(t *testing.T) {
	machine := recorded(t, "vm-2s2n-smt")
	at := func(cpus string) v1alpha1.Placement {
		return v1alpha1.Placement{V: 1, Topology: machine.Hash(), Containers: map[string]v1alpha1.ContainerPlacement{
			"app": {CPUs: cpus, Mems: "0", Policy: v1alpha1.PlacementExclusive},
		}}
	}
	for _, test := range []struct {
		name   string
		change func(*v1.Pod)
		want   string
	}{
		{"nothing", func(*v1.Pod) {}, ""},
		{"placement", func(p *v1.Pod) { p.Annotations[v1alpha1.AnnotationPlacement] = at("2-3").Encode() }, "changed after binding"},
		{"node", func(p *v1.Pod) { p.Spec.NodeName = "m" }, "moved from n to m"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLedger()
			l.addNode("n", machine, 8000)
			l.seen(boundPod(t, "a", 2, at("0-1")))
			changed := boundPod(t, "a", 2, at("0-1"))
			test.change(changed)
			l.seen(changed)
			wantFaults(t, l, test.want)
			changed.Status.Phase = v1.PodSucceeded
			l.seen(changed)
			l.seen(boundPod(t, "b", 2, at("0-1"))) // The CPUs of an ended pod are free.
			wantFaults(t, l, test.want)
		})
	}
}

func wantFaults(t *testing.T, l *ledger, want string) {
	t.Helper()
	for _, fault := range l.faults {
		if want == "" || !strings.Contains(fault, want) {
			t.Errorf("fault %q, want %q", fault, want)
		}
	}
	if want != "" && len(l.faults) == 0 {
		t.Errorf("no fault, want %q", want)
	}
}
