package assignment_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// waiting returns a node that knows the machine, while no runtime has reported.
func waiting(t *testing.T) *node {
	t.Helper()
	n := newNode(host{map[string]cpuset.Set{}}, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef", AllocatableMilli: 8000})
	return n
}

// since is the start of the agent on a clock that counts from the boot.
const since = 3 * time.Hour

// refusals returns the refusals that are reported now, as pod and text.
func refusals(n *node) []string {
	var all []string
	for _, one := range n.Events() {
		if one.Reason == v1alpha1.EventPlacementRefused {
			all = append(all, one.PodUID+": "+one.Text)
		}
	}
	return all
}

// A runtime that lists no containers for a minute is reported once. When it does report, pods are pinned normally.
func TestRuntimeThatNeverReports(t *testing.T) {
	n := waiting(t)
	n.Take(snapshot(pinnedPod("p", "")))
	var reported []string
	for at := time.Duration(0); at < 3*time.Minute; at += time.Second {
		n.Now(since + at)
		o := n.Obstacle()
		if o.Reason != observed.Starting || !o.Suspends() || o.Lasting != (at >= observed.BriefFor) {
			t.Fatalf("after %s: %+v", at, o)
		}
		now := refusals(n)
		if at < observed.BriefFor && len(now) > 0 {
			t.Errorf("after %s: %v", at, now)
		}
		reported = append(reported, now...)
	}
	want := []string{"p: node not pinnable (the container runtime does not report its containers)"}
	if diff := cmp.Diff(want, reported); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	handle(t, n, nri.Event{Kind: nri.Synchronize})
	if o := n.Obstacle(); o != (observed.Obstacle{}) {
		t.Errorf("%+v", o)
	}
	if a := start(t, n, pinnedPod("p", "")); a.Reply.Adjust.CPUs.IsEmpty() {
		t.Errorf("the pod gets no CPUs: %+v", a.Reply)
	}
	if now := refusals(n); len(now) > 0 {
		t.Errorf("reported %v", now)
	}
}

// Where another agent holds the node, only that agent reports, even if no runtime ever reports to this one.
func TestOtherAgentReports(t *testing.T) {
	n := waiting(t)
	s := snapshot(pinnedPod("p", ""))
	s.Lease.Other = "another"
	n.Take(s)
	for at := range 2 {
		n.Now(since + time.Duration(at)*2*observed.BriefFor)
		if now := n.Events(); len(now) > 0 {
			t.Errorf("reported %+v", now)
		}
	}
}

// While events are held back, the agent does not keep events of pods that are gone.
func TestEventsOfPodsThatAreGone(t *testing.T) {
	n := waiting(t)
	n.Kubelet(observed.Obstacle{Reason: observed.KubeletUnknown, Message: "not asked yet"}, "")
	handle(t, n, nri.Event{Kind: nri.Synchronize})
	bad := func(uid string) *cluster.Pod {
		p := pinnedPod(uid, "")
		p.RuntimeClass = "kata" // refused with any owner of CPU sets
		return p
	}
	for i := range 1000 {
		n.Take(snapshot(bad("stays"), bad(fmt.Sprintf("p%d", i))))
		if now := n.Events(); len(now) > 0 {
			t.Fatalf("reported %+v", now)
		}
		if held := n.Held(); held > 2 {
			t.Fatalf("%d events are kept of two pods", held)
		}
	}
	n.Kubelet(observed.Obstacle{}, "")
	reported := refusals(n)
	slices.Sort(reported)
	if diff := cmp.Diff([]string{"p999: its runtime handler kata starts a virtual machine", "stays: its runtime handler kata starts a virtual machine"}, reported); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
