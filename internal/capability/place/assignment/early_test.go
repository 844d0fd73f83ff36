package assignment_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/nri"
)

// pairPod has two containers of two CPUs, main on 2-3 and two on 4-5, and an init container.
func pairPod(uid string) *cluster.Pod {
	p := pinnedPod(uid, "")
	p.Scheduled = 4000
	p.Containers = append(p.Containers, workload.Container{Name: "two", Resources: workload.Resources{CPURequest: 2000, CPULimit: 2000}})
	p.Init = []workload.Container{{Name: "init", Resources: workload.Resources{CPURequest: 1000, CPULimit: 1000}}}
	placed := v1alpha1.Placement{V: v1alpha1.PlacementVersion, Topology: "0123456789abcdef", Containers: map[string]v1alpha1.ContainerPlacement{
		"main": {CPUs: "2-3", Mems: "0", Policy: v1alpha1.PlacementExclusive},
		"two":  {CPUs: "4-5", Mems: "0", Policy: v1alpha1.PlacementExclusive},
	}}
	p.Annotations[v1alpha1.AnnotationPlacement] = placed.Encode()
	return p
}

// create creates a container with a limit of so many CPUs, when the runtime can wait no longer.
func create(t *testing.T, n *node, p *cluster.Pod, name string, cpus int64) string {
	t.Helper()
	e := event(nri.Create, p)
	e.Container.ID, e.Container.Name, e.Container.CgroupPath = "c-"+p.UID+"-"+name, name, ""
	e.Container.Resources.Quota = cpus * 100_000
	a, err := n.Handle(e, true)
	if err != nil {
		t.Fatal(err)
	}
	return a.Reply.Adjust.CPUs.String()
}

// written returns the placement to be written to a pod, as "main 2-3, two 4-5".
func written(n *node, uid string) string {
	var all []string
	for _, event := range n.Events() {
		if event.PodUID != uid || event.Annotation == nil {
			continue
		}
		for name, c := range event.Annotation.Containers {
			all = append(all, name+" "+c.CPUs)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// A pod that only the runtime reports at first gets the CPUs of its placement in all its containers. The placement is
// not overwritten.
func TestEarlyPodIsFollowedOnceKnown(t *testing.T) {
	type step struct {
		name string
		cpus int64
		want string
	}
	rest := "0-1,6-7"
	cases := map[string]struct{ before, after []step }{
		"an app container first":     {[]step{{"main", 2, "2-3"}}, []step{{"two", 2, "4-5"}}},
		"an init container first":    {[]step{{"init", 1, rest}}, []step{{"main", 2, "2-3"}, {"two", 2, "4-5"}}},
		"never known":                {[]step{{"init", 1, rest}, {"main", 2, "2-3"}, {"two", 2, "4-5"}, {"debug", 0, rest}}, nil},
		"known after the init one":   {[]step{{"init", 1, rest}}, []step{{"init", 1, "2-5"}, {"main", 2, "2-3"}}},
		"a debug container is later": {[]step{{"main", 2, "2-3"}, {"debug", 0, rest}}, []step{{"debug", 0, rest}, {"two", 2, "4-5"}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := open(t)
			n.Take(snapshot())
			p := pairPod("early")
			handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(p)})
			for _, s := range c.before {
				if got := create(t, n, p, s.name, s.cpus); got != s.want {
					t.Errorf("unknown: %s gets %s, want %s", s.name, got, s.want)
				}
			}
			if events := n.Events(); len(events) > 0 {
				t.Errorf("events of an unknown pod: %+v", events)
			}
			if c.after != nil {
				n.Take(snapshot(p))
			}
			for _, s := range c.after {
				if got := create(t, n, p, s.name, s.cpus); got != s.want {
					t.Errorf("known: %s gets %s, want %s", s.name, got, s.want)
				}
			}
			if got := written(n, "early"); got != "" {
				t.Errorf("its placement is overwritten: %s", got)
			}
		})
	}
}

// Without a placement an init container looks like an app container. CPUs given to it for this reason belong to no pod
// once the pod is known, and are never written.
func TestEarlyPodWithoutAPlacement(t *testing.T) {
	n := open(t)
	n.Take(snapshot())
	p := pairPod("early")
	delete(p.Annotations, v1alpha1.AnnotationPlacement)
	handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(p)})
	if got := create(t, n, p, "init", 1); got != "0" {
		t.Errorf("unknown: init gets %s", got)
	}
	if events := n.Events(); len(events) > 0 {
		t.Errorf("events of an unknown pod: %+v", events)
	}
	n.Take(snapshot(p))
	if got := create(t, n, p, "main", 2); got != "0-1" {
		t.Errorf("known: main gets %s", got)
	}
	if got := written(n, "early"); got != "main 0-1, two 2-3" {
		t.Errorf("written: %q", got)
	}
}

// Containers that share a pod-level limit show no limit to the runtime. They get CPUs once the pod is known.
func TestEarlyPodWithALimitOfItsOwn(t *testing.T) {
	n := open(t)
	n.Take(snapshot())
	p := pinnedPod("early", "2-3")
	p.CPULimit, p.Containers = 2000, []workload.Container{{Name: "main"}, {Name: "two"}}
	p.Annotations[v1alpha1.AnnotationPlacement] = strings.Replace(p.Annotations[v1alpha1.AnnotationPlacement],
		`"main":{`, `"two":{"cpus":"2-3","mems":"0","policy":"exclusive"},"main":{`, 1)
	handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(p)})
	if got := create(t, n, p, "main", 0); got != "" {
		t.Errorf("it gets %s", got)
	}
	n.Take(snapshot(p))
	if got := create(t, n, p, "two", 0); got != "2-3" {
		t.Errorf("known: it gets %q", got)
	}
	if got := written(n, "early"); got != "" {
		t.Errorf("its placement is overwritten: %s", got)
	}
}

// When the last sandbox of an early pod is removed, its CPUs return to the pool.
func TestEarlyPodGoes(t *testing.T) {
	n := open(t)
	n.Take(snapshot())
	p := pinnedPod("early", "2-3")
	handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(p)})
	create(t, n, p, "main", 2)
	if got := n.Snapshot().Shared.String(); got != "0-1,4-7" {
		t.Errorf("pool %s while it runs", got)
	}
	handle(t, n, nri.Event{Kind: nri.RemovePod, Pod: sandbox(p)})
	if got := n.Snapshot().Shared.String(); got != "0-7" {
		t.Errorf("pool %s after it", got)
	}
}

func TestEarlyPodInAVirtualMachine(t *testing.T) {
	n := open(t)
	n.Take(snapshot())
	p := pinnedPod("early", "2-3")
	e := event(nri.Create, p)
	e.Pod.RuntimeHandler = "kata-qemu"
	a, err := n.Handle(e, true)
	if err != nil || a.Reply.Adjust != (nri.Settings{}) {
		t.Errorf("it is pinned: %+v, %v", a.Reply, err)
	}
}

// A static pod has an API object only once its mirror pod is known. Its placement is then written once.
func TestPlacementWaitsForTheObject(t *testing.T) {
	n := open(t)
	static := pinnedPod("static", "")
	static.Object = cluster.Object{}
	n.Take(snapshot(static))
	start(t, n, static)
	if got := written(n, "static"); got != "" {
		t.Errorf("written without an object: %s", got)
	}
	n.Take(snapshot()) // the API server is back, without a mirror pod
	if got := written(n, "static"); got != "" {
		t.Errorf("written without an object: %s", got)
	}
	mirrored := *static
	mirrored.Object = cluster.Object{Namespace: "ns", Name: "static", UID: "mirror"}
	n.Take(snapshot(&mirrored))
	if got := written(n, "static"); got != "main 0-1" {
		t.Errorf("written: %q", got)
	}
	n.Take(snapshot(&mirrored))
	if got := written(n, "static"); got != "" {
		t.Errorf("written again: %s", got)
	}
}

// A placement that was chosen before another agent held the node is written after that agent has gone.
func TestPlacementIsWrittenAfterAnObstacle(t *testing.T) {
	n := open(t)
	p := pinnedPod("p", "")
	n.Take(snapshot(p))
	start(t, n, p)
	s := snapshot(p)
	s.Lease.Other = "other"
	n.Take(s)
	if got := written(n, "p"); got != "" {
		t.Errorf("written beside another agent: %s", got)
	}
	n.Take(snapshot(p))
	if got := written(n, "p"); got != "main 0-1" {
		t.Errorf("written: %q", got)
	}
}
