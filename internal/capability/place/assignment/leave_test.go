package assignment_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// The agent remembers nothing of a pod after its last sandbox is removed, however late or incomplete the runtime's
// reports are.
func TestNothingIsRememberedForGood(t *testing.T) {
	box := func(kind nri.Kind) nri.Event { return nri.Event{Kind: kind, Pod: sandbox(plainPod("p"))} }
	of := func(kind nri.Kind) nri.Event { return event(kind, plainPod("p")) }
	for name, events := range map[string][]nri.Event{
		"in order":                    {of(nri.Stop), of(nri.Remove), box(nri.StopPod), box(nri.RemovePod)},
		"containers are not reported": {box(nri.StopPod), box(nri.RemovePod)},
		"stopped late":                {box(nri.StopPod), of(nri.Stop), box(nri.RemovePod)},
		"stopped last":                {box(nri.StopPod), box(nri.RemovePod), of(nri.Stop)},
		"started late, then removed":  {box(nri.StopPod), of(nri.PostStart), box(nri.RemovePod)},
		"made while it stops":         {box(nri.StopPod), of(nri.PostCreate), of(nri.Stop)},
	} {
		t.Run(name, func(t *testing.T) {
			n := open(t)
			p := plainPod("p")
			n.Take(snapshot(p))
			start(t, n, p)
			for _, e := range events {
				handle(t, n, e)
			}
			n.Take(snapshot())
			if containers, sandboxes := n.Inventory.Containers().Known(); containers+sandboxes > 0 || len(n.Snapshot().Rows) > 0 {
				t.Errorf("%d containers, %d sandboxes, %+v", containers, sandboxes, n.Snapshot().Rows)
			}
		})
	}
}

// The agent also forgets a pod whose sandbox ended without a report, as with a sandbox older than its containerd. The
// pod is unknown, and its group is gone.
func TestNothingIsRememberedOfUnreportedEnds(t *testing.T) {
	h := host{map[string]cpuset.Set{}}
	n := newNode(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	handle(t, n, nri.Event{Kind: nri.Synchronize})
	p, stays := pinnedPod("p", "2-3"), pinnedPod("stays", "4-5")
	n.Take(snapshot(p, stays))
	start(t, n, p)
	start(t, n, stays)
	h.pinned["kubepods/podp/box"] = cpuset.Set{} // the group is gone
	n.Take(snapshot(stays))
	if containers, sandboxes := n.Inventory.Containers().Known(); containers != 2 || sandboxes != 1 {
		t.Errorf("%d containers, %d sandboxes", containers, sandboxes)
	}
	for id, a := range n.Inventory.Containers().Answers() {
		if a.Pod != "stays" {
			t.Errorf("answers for %s of %s are kept", id, a.Pod)
		}
	}
}

// A container that the runtime fails to create repeatedly is one container. Every second try gets no answer, to find
// out whether another plugin is the cause.
func TestFailedContainersDoNotAddUp(t *testing.T) {
	n := open(t)
	p := pinnedPod("p", "2-3")
	n.Take(snapshot(p))
	handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(p)})
	for i := range 50 {
		e := event(nri.Create, p)
		e.Container.ID = strconv.Itoa(i)
		want := set("2-3")
		if i%2 == 1 {
			want = cpuset.Set{}
		}
		if a := handle(t, n, e); a.Reply.Adjust.CPUs != want || len(a.Reply.Updates) > 1 {
			t.Fatalf("try %d: %+v", i, a.Reply)
		}
	}
	if containers, _ := n.Inventory.Containers().Known(); containers != 2 || len(n.Snapshot().Rows) != 2 || len(n.Inventory.Containers().Answers()) > 2 {
		t.Errorf("%d containers, %d rows, %d answers, want the sandbox and the last try", containers, len(n.Snapshot().Rows), len(n.Inventory.Containers().Answers()))
	}
}

// After a forced deletion the scheduler gives the CPUs to the next pod while the old containers still run. The next pod
// starts on them once they are free, or without exclusive CPUs after 30 s.
func TestSuccessorOfForceDeletedPod(t *testing.T) {
	for name, c := range map[string]struct {
		free bool
		own  string
	}{"it ends": {true, "2-3"}, "it does not": {false, "6-7"}} {
		t.Run(name, func(t *testing.T) {
			h := host{map[string]cpuset.Set{"kubepods/podold/c": set("0-5")}}
			n := newNode(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
			n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
			handle(t, n, nri.Event{Kind: nri.Synchronize})
			old, next := pinnedPod("old", "0-5"), pinnedPod("next", "2-3")
			old.Containers[0].CPULimit, old.Containers[0].CPURequest, old.Scheduled = 6000, 6000, 6000
			n.Take(snapshot(old))
			start(t, n, old)
			n.Events()
			n.Take(snapshot(next))
			handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(next)})
			for i := range 3 {
				n.Now(since + time.Duration(i)*10*time.Second)
				if _, err := n.Handle(event(nri.Create, next), false); !errors.Is(err, place.ErrRefused) {
					t.Fatalf("created while the old one runs: %v", err)
				}
				if events := n.Events(); len(events) > 0 {
					t.Fatalf("events while it waits: %+v", events)
				}
			}
			n.Now(since + 30*time.Second)
			if c.free {
				handle(t, n, nri.Event{Kind: nri.StopPod, Pod: sandbox(old)})
			}
			if a := handle(t, n, event(nri.Create, next)); a.Reply.Adjust.CPUs.String() != c.own {
				t.Errorf("it gets %s, want %s", a.Reply.Adjust.CPUs, c.own)
			}
		})
	}
}
