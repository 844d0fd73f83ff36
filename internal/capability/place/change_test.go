package place_test

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/observed"
)

// resized returns the pod with other limits, as during a resize.
func resized(p workload.Pod, containers ...workload.Container) workload.Pod {
	p.Containers, p.Scheduled, p.Changed, p.Resizing = containers, 0, true, true
	for _, c := range containers {
		p.Scheduled += c.CPURequest
	}
	return p
}

func TestResize(t *testing.T) {
	half := app("app", 0)
	half.CPULimit = 2500
	single := func(p workload.Pod) workload.Pod {
		return with(p, v1alpha1.AnnotationNUMATopologySpec, `{"numaTopologyPolicy":"SingleNUMANode"}`)
	}
	whole := func(p workload.Pod) workload.Pod {
		return with(p, v1alpha1.AnnotationResourceSpec, `{"requiredCPUBindPolicy":"FullPCPUs"}`)
	}
	spread := func(p workload.Pod) workload.Pod {
		return with(p, v1alpha1.AnnotationResourceSpec, `{"requiredCPUBindPolicy":"SpreadByPCPUs"}`)
	}
	alone := func(p workload.Pod) workload.Pod {
		return with(p, v1alpha1.AnnotationResourceSpec, `{"requiredCPUExclusivePolicy":"PCPULevel"}`)
	}
	tests := []struct {
		name     string
		terms    func(workload.Pod) workload.Pod
		has      string
		to       workload.Container
		neighbor string
		want     string
		says     string
	}{
		{"same", nil, "1,9", app("app", 2), "", "1,9", ""},
		{"grow", nil, "1,9", app("app", 4), "", "0-1,8-9", "[app 0-1,8-9 on 0]"},
		{"grow beside a neighbour", nil, "1,9", app("app", 4), "0,8,2", "1,3,9,11", "[app 1,3,9,11 on 0]"},
		{"grow fills up the core", nil, "1", app("app", 2), "", "1,9", "[app 1,9 on 0]"},
		{"grow on more cores", spread, "1", app("app", 2), "", "0-1", "[app 0-1 on 0]"},
		{"grow into the other node", nil, "1,9", app("app", 4), "0,8,2,10,3,11", "1,4,9,12", "[app 1,4,9,12 on 0-1]"},
		{"no room in the node", single, "1,9", app("app", 4), "0,8,2,10,3,11", "1,9", "a CPUPinFailed: Pod resize Deferred: "},
		{"no whole core in the node", whole, "1,9", app("app", 4), "0,2,3,4,5", "1,6,9,14", "[app 1,6,9,14 on 0-1]"},
		{"nothing on whole cores", whole, "1,9", app("app", 3), "", "1,9", "CPUs are not whole cores"},
		{"spread past its siblings", spread, "0", app("app", 2), "1-6", "0,9", "[app 0,9 on 0]"},
		{"a whole core far away", nil, "1,9", app("app", 4), "0,8,2,10,3", "1,4,9,12", "[app 1,4,9,12 on 0-1]"},
		{"siblings stay empty", alone, "1", app("app", 2), "", "1,9", "[app 1,9 on 0]"},
		{"too many", nil, "1,9", app("app", 15), "", "1,9", "no whole core left for the shared pool"},
		{"shrink", nil, "0-1,8-9", app("app", 2), "", "0,8", "[app 0,8 on 0]"},
		{"shrink to one node", nil, "0-1,8,4,12", app("app", 2), "", "4,12", "[app 4,12 on 1]"},
		{"shrink to one", nil, "0-1,8-9", app("app", 1), "", "0", "[app 0 on 0]"},
		{"fraction", nil, "1,9", half, "", "1,9", "a CPUPinFailed: Pod resize Infeasible: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := place.New(two().facts(t))
			if test.neighbor != "" {
				n.Pods.Put(placed(pod("b", 0, app("app", int64(set(t, test.neighbor).Size()))), "app", test.neighbor, "0-1"))
				start(t, n, "b", "app")
			}
			n.Pods.Put(plain("web", 1, app("web", 0)))
			start(t, n, "web", "web")
			before := pod("a", 1, app("app", int64(set(t, test.has).Size())))
			if test.terms != nil {
				before = test.terms(before)
			}
			n.Pods.Put(placed(before, "app", test.has, "0-1"))
			start(t, n, "a", "app")
			equal(t, "before", n.Pool().String(), set(t, "0-15").Difference(set(t, test.has)).Difference(set(t, test.neighbor)).String())
			n.Events()
			after := resized(placed(before, "app", test.has, "0-1"), test.to)
			n.Pods.Put(after)
			equal(t, "not yet", n.Pool().String(), set(t, "0-15").Difference(set(t, test.has)).Difference(set(t, test.neighbor)).String())
			a, err := n.Resize("a")
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "pool", n.Pool().String(), set(t, "0-15").Difference(set(t, test.want)).Difference(set(t, test.neighbor)).String())
			if test.want == test.has {
				equal(t, "own", show(a.Own), "")
			} else {
				equal(t, "own", show(a.Own), "a/app "+test.want+"!")
			}
			if grown := !set(t, test.want).IsSubsetOf(set(t, test.has)); grown != (len(a.Others) == 1) {
				t.Errorf("others: %s", show(a.Others))
			}
			holds(t, "events", events(n), test.says)
		})
	}
}

func TestResizeOneOfTwo(t *testing.T) {
	n := place.New(two().facts(t))
	before := placed(pod("a", 1, app("x", 2), app("y", 2)), "x", "0,8", "0", "y", "1,9", "0")
	n.Pods.Put(before)
	start(t, n, "a", "x")
	start(t, n, "a", "y")
	n.Pods.Put(resized(before, app("x", 4), app("y", 1)))
	if _, err := n.Resize("a"); err != nil {
		t.Fatal(err)
	}
	equal(t, "desired", has(n), "a/x 0,2,8,10!; a/y 1!")
}

func TestFractionOfOneOfTwo(t *testing.T) {
	n := place.New(two().facts(t))
	before := placed(pod("a", 1, app("x", 2), app("y", 2)), "x", "0,8", "0", "y", "1,9", "0")
	n.Pods.Put(before)
	start(t, n, "a", "x")
	start(t, n, "a", "y")
	n.Events()
	half := app("y", 0)
	half.CPULimit = 1500
	n.Pods.Put(resized(before, app("x", 4), half))
	if _, err := n.Resize("a"); err != nil {
		t.Fatal(err)
	}
	equal(t, "desired", has(n), "a/x 0,2,8,10!; a/y 1,9!")
	holds(t, "events", events(n), "CPUPinFailed", "the new limit of container y, 1.5, is no whole number: it keeps CPUs 1,9")
}

func TestOffline(t *testing.T) {
	tests := []struct {
		name                      string
		has, neighbor, off        string
		terms                     string
		want, pool, says, andBack string
	}{
		{"replaced", "1,9", "", "9", "", "0-1", "2-8,10-15", "a CPUPinFailed [app 0-1 on 0]: CPUs 9 cannot be used any more; now app 0-1", "0-1"},
		{"all gone", "1,9", "", "1,9", "", "0,8", "2-7,10-15", "a CPUPinFailed [app 0,8 on 0]: CPUs 1,9 cannot be used any more; now app 0,8", "0,8"},
		{"none left", "1-2,9-10", "0,8,3,11,4,12,5,13,6,14", "9", `{"numaTopologyPolicy":"SingleNUMANode"}`, "1-2,10", "7,15", "a CPUPinFailed: CPUs 9 cannot be used any more; no others: no whole core left for the shared pool", "1-2,9-10"},
		{"elsewhere", "1,9", "0,2,8,10,3,11", "9", `{"numaTopologyPolicy":"SingleNUMANode"}`, "4,12", "1,5-7,13-15", "a CPUPinFailed [app 4,12 on 1]: CPUs 9", "4,12"},
		{"another pod's", "1,9", "", "4", "", "1,9", "0,2-3,5-8,10-15", "", "1,9"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := two()
			n := place.New(s.facts(t))
			if test.neighbor != "" {
				n.Pods.Put(placed(pod("b", 0, app("app", int64(set(t, test.neighbor).Size()))), "app", test.neighbor, "0-1"))
				start(t, n, "b", "app")
			}
			p := placed(pod("a", 1, app("app", int64(set(t, test.has).Size()))), "app", test.has, "0-1")
			if test.terms != "" {
				p = with(p, v1alpha1.AnnotationNUMATopologySpec, test.terms)
			}
			n.Pods.Put(p)
			start(t, n, "a", "app")
			n.Events()
			s.switched = test.off
			f := s.facts(t)
			f.AllocatableMilli = 16000
			n.SetFacts(f)
			equal(t, "pool", n.Pool().String(), test.pool)
			holds(t, "desired", has(n), "a/app "+test.want+"!")
			if text := events(n); test.says == "" {
				equal(t, "events", text, "")
			} else {
				holds(t, "events", text, test.says)
			}
			s.switched = ""
			n.SetFacts(s.facts(t))
			holds(t, "and back", has(n), "a/app "+test.andBack+"!")
		})
	}
}

// A new Node finds these pods and containers.
func TestAfterRestart(t *testing.T) {
	found := func(uid, cpus string, pinned bool) observed.Container {
		c := observed.Container{ID: uid + "/app", PodUID: uid, Name: "app", Phase: observed.Running, CPUs: set(t, cpus), Pinned: pinned}
		if pinned {
			c.Given = c.CPUs
		}
		return c
	}
	a := pod("a", 1, app("app", 2))
	over := a
	over.Init, over.Ended = []workload.Container{app("init", 1)}, true
	tests := []struct {
		name       string
		pods       []workload.Pod
		containers []observed.Container
		want, says string
	}{
		{"as written", []workload.Pod{placed(a, "app", "1,9", "0")}, []observed.Container{found("a", "1,9", true)}, "a/app 1,9!", "a CPUPinned: app 1,9"},
		{"never pinned", []workload.Pod{placed(a, "app", "1,9", "0")}, []observed.Container{found("a", "0-15", false)}, "a/app 1,9!", ""},
		{"the rewrite was lost", []workload.Pod{placed(a, "app", "1,9", "0")}, []observed.Container{found("a", "2,10", true)}, "a/app 2,10!", "a  [app 2,10 on 0-1]"},
		{"no placement", []workload.Pod{a}, []observed.Container{found("a", "2,10", true)}, "a/app 2,10!", "a  [app 2,10 on 0-1]"},
		{"a pool of the same size", []workload.Pod{a}, []observed.Container{found("a", "2,10", false)}, "a/app 0,8!", "a  [app 0,8 on 0]"},
		{"does not ask any more", []workload.Pod{plain("a", 1, app("app", 2))}, []observed.Container{found("a", "2,10", true)}, "a/app 2,10!", "a  [app 2,10 on 0-1]"},
		{"gone from the API", nil, []observed.Container{found("a", "2,10", true)}, "a/app 2,10!", ""},
		{"stopped", []workload.Pod{a}, []observed.Container{{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Stopped, CPUs: set(t, "2,10"), Given: set(t, "2,10"), Pinned: true}}, "", "a  [app 0,8 on 0]"},
		{"over, not stopped", []workload.Pod{over}, []observed.Container{{ID: "a/init", PodUID: "a", Name: "init", Phase: observed.Running, CPUs: set(t, "2,10"), Given: set(t, "2,10"), Pinned: true}}, "a/init 2,10!", "a CPUPinned: init 2,10"},
		{
			"gone, one in the other's place", nil,
			[]observed.Container{found("a", "2", true), {ID: "a/init", PodUID: "a", Name: "init", Phase: observed.Running, CPUs: set(t, "2,10"), Given: set(t, "2,10"), Pinned: true}, found("b", "0-15", false)},
			"a/app 2!; a/init 2,10!; b/app 0-1,3-9,11-15", "",
		},
		{"gone and not pinned", nil, []observed.Container{found("a", "2,10", false)}, "", ""},
		{
			"placed on a gone pod's",
			[]workload.Pod{placed(pod("b", 0, app("app", 2)), "app", "2,10", "0")},
			[]observed.Container{found("a", "2,10", true), found("b", "0-15", false)},
			"a/app 2,10!; b/app 0,8!", "CPUs 2,10 belong to pod a",
		},
		{
			"two agents",
			[]workload.Pod{placed(a, "app", "1,9", "0"), placed(pod("b", 0, app("app", 2)), "app", "1,9", "0")},
			[]observed.Container{found("a", "1,9", true), found("b", "9,10", true)},
			"a/app 0,8!; b/app 9-10!", "a PlacementRefused [app 0,8 on 0]",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := place.New(two().facts(t))
			n.Pods.SetContainers(test.containers)
			n.Pods.Set(test.pods)
			equal(t, "desired", has(n), test.want)
			if text := events(n); test.says == "" {
				equal(t, "events", text, "")
			} else {
				holds(t, "events", text, test.says)
			}
		})
	}
}

// A container that runs before its pod is known still gets the memory nodes of the placement later. Memory nodes that
// do not match the CPUs cost the pod neither its CPUs nor local memory.
func TestMemsAfterRestart(t *testing.T) {
	for _, c := range []struct{ name, cpus, written, want string }{
		{"as placed", "1,9", "0", "0"},
		{"more than needed", "1,9", "0-1", "0-1"},
		{"remote", "1,9", "1", ""},
		{"half of it remote", "1,4", "0", ""},
		{"absent besides", "1,9", "0,7", "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := placed(pod("a", 1, app("app", 2)), "app", c.cpus, c.written)
			runs := []observed.Container{{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, c.cpus), Given: set(t, c.cpus), Pinned: true}}
			mems := func(what string, n *place.Node) {
				t.Helper()
				desired := n.Desired()
				if len(desired) != 1 || desired[0].CPUs != set(t, c.cpus) || desired[0].Mems != set(t, c.want) {
					t.Errorf("%s: desired %+v, want CPUs %s and NUMA nodes %q", what, desired, c.cpus, c.want)
				}
			}
			n := place.New(two().facts(t))
			n.Pods.SetContainers(runs)
			equal(t, "found", has(n), "a/app "+c.cpus+"!")
			n.Pods.Set([]workload.Pod{a})
			mems("known late", n)
			n = place.New(two().facts(t))
			n.Pods.SetContainers(runs)
			n.Pods.Set([]workload.Pod{a})
			mems("known at once", n)
		})
	}
}

func TestOnTheWay(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("a", 1, app("app", 2)), "app", "1,9", "0"))
	create(t, n, "a", "app")
	n.Pods.Drop("a")
	n.Pods.SetContainers(nil)
	equal(t, "the list may be older", has(n), "a/app 1,9!")
	n.Pods.SetContainers(nil)
	equal(t, "it never came", has(n), "")
	n.Pods.Put(placed(pod("b", 1, app("app", 2)), "app", "1,9", "0"))
	start(t, n, "b", "app")
	n.Pods.Drop("b")
	n.Pods.SetContainers(nil)
	equal(t, "it was seen and is not there", has(n), "")
}

func TestSnapshot(t *testing.T) {
	n := full(t)
	n.Pods.Put(pod("a", 2, app("app", 2)))
	create(t, n, "a", "app")
	n.Pods.Observe(observed.Container{ID: "x", Name: "x", Phase: observed.Stopped})
	s := n.Snapshot()
	equal(t, "exclusive", s.Exclusive.String(), "0-6,8-10,12-14")
	equal(t, "shared", s.Shared.String(), "7,11,15")
	equal(t, "free", s.Free.String(), "11")
	if len(s.Nodes) != 2 || s.Nodes[0] != (placement.NodeFree{ID: 0, FreeCPUs: 1}) || s.Nodes[1] != (placement.NodeFree{ID: 1}) {
		t.Errorf("nodes %+v", s.Nodes)
	}
	if f := s.Fragmentation; f.FreeCPUs != s.Free.Size() || f.Shared != 2 || f.BrokenCores != 1 {
		t.Errorf("fragmentation %+v", f)
	}
	var lines []string
	for _, r := range s.Rows {
		lines = append(lines, r.ContainerID+": "+r.Why)
	}
	want := []string{
		"old/x: exclusive CPUs, by its placement",
		"old/y: exclusive CPUs, by its placement",
		"a/app: the shared pool, while ns/old has exclusive CPUs; no exclusive CPUs: no whole core left for the shared pool: 2 CPUs wanted, 3 left",
		"x: it is stopped",
	}
	for i, line := range lines {
		equal(t, "row", line, want[i])
	}
}

// The snapshot gives the reason why a container has no exclusive CPUs, even where nothing is pinned.
func TestSnapshotSaysWhatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		pod  workload.Pod
		want string
	}{
		"does not ask":   {plain("a", 1, app("app", 2)), ""},
		"cannot be read": {with(plain("a", 1, app("app", 2)), "cpuset-scheduler", "yes"), `value "yes": allowed`},
		"too large":      {pod("a", 1, app("app", 99)), "99 CPUs wanted"},
		"has them":       {pod("a", 1, app("app", 2)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := place.New(two().facts(t))
			n.Pods.Put(c.pod)
			n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "0-15")})
			rows := n.Snapshot().Rows
			if len(rows) != 1 || !strings.Contains(rows[0].Refused, c.want) || c.want == "" && rows[0].Refused != "" || !strings.Contains(rows[0].Why, rows[0].Refused) {
				t.Errorf("rows %+v, want refused %q", rows, c.want)
			}
		})
	}
}

// shut returns the facts of a machine with CPUs offline. Allocatable still includes them.
func shut(t *testing.T, cpus string) place.Facts {
	s := two()
	s.switched = cpus
	f := s.facts(t)
	f.AllocatableMilli = 16000
	return f
}

func TestLimitsCountWithResizeOnly(t *testing.T) {
	n := place.New(two().facts(t))
	p := placed(pod("a", 1, app("app", 2)), "app", "1,9", "0")
	n.Pods.Put(p)
	start(t, n, "a", "app")
	n.Pods.Put(resized(p, app("app", 4)))
	n.SetFacts(shut(t, "15"))
	equal(t, "facts changed", has(n), "a/app 1,9!")
}

func TestShrinkWherePromisedTooMuch(t *testing.T) {
	n := place.New(two().facts(t))
	p := placed(pod("a", 1, app("app", 4)), "app", "0-1,8-9", "0")
	n.Pods.Put(p)
	start(t, n, "a", "app")
	n.Pods.Put(plain("web", 1, app("web", 30)))
	n.Pods.Put(resized(p, app("app", 2)))
	if _, err := n.Resize("a"); err != nil {
		t.Fatal(err)
	}
	equal(t, "desired", has(n), "a/app 0,8!")
}

// Before a change is applied, the container's present CPUs still belong to it, even when an earlier pod claims them.
func TestRunsOnLess(t *testing.T) {
	forged := placed(pod("b", 0, app("app", 1)), "app", "1", "0")
	t.Run("CPU went", func(t *testing.T) {
		n := place.New(two().facts(t))
		n.Pods.Put(placed(pod("a", 1, app("app", 2)), "app", "0-1", "0"))
		create(t, n, "a", "app")
		n.SetFacts(shut(t, "0"))
		holds(t, "desired", has(n), "a/app 1,9!")
		n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "1")})
		holds(t, "desired", has(n), "a/app 1,9!")
		n.Pods.Put(forged)
		holds(t, "desired", has(n), "a/app 1,9!")
	})
	t.Run("fewer", func(t *testing.T) {
		n := place.New(two().facts(t))
		p := placed(pod("a", 1, app("app", 4)), "app", "1-2,9-10", "0")
		n.Pods.Put(p)
		start(t, n, "a", "app")
		n.Pods.Put(resized(p, app("app", 2)))
		if _, err := n.Resize("a"); err != nil {
			t.Fatal(err)
		}
		n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "1-2,9-10")})
		n.Pods.Put(forged)
		holds(t, "desired", has(n), "a/app 1,9!")
	})
}

// A placement with CPUs that are offline stays, because they may return.
func TestFewerAreNotWritten(t *testing.T) {
	n := place.New(shut(t, "9"))
	n.Pods.Put(placed(pod("b", 0, app("app", 10)), "app", "0,8,3,11,4,12,5,13,6,14", "0-1"))
	n.Pods.Put(with(placed(pod("a", 1, app("app", 4)), "app", "1-2,9-10", "0"), v1alpha1.AnnotationNUMATopologySpec, `{"numaTopologyPolicy":"SingleNUMANode"}`))
	n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "1-2,10")})
	for _, one := range n.Events() {
		if one.Annotation != nil {
			t.Errorf("events %+v", one)
		}
	}
	equal(t, "desired", has(n), "a/app 1-2,10!")
}

// A container that lacks CPUs gets more when the facts change, and not for any other reason.
func TestFewerStayFewer(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("b", 0, app("app", 10)), "app", "0,8,3,11,4,12,5,13,6,14", "0-1"))
	p := placed(pod("a", 1, app("app", 4)), "app", "1-2,9-10", "0")
	n.Pods.Put(with(p, v1alpha1.AnnotationNUMATopologySpec, `{"numaTopologyPolicy":"SingleNUMANode"}`))
	start(t, n, "a", "app")
	n.SetFacts(shut(t, "9"))
	equal(t, "one went", has(n), "a/app 1-2,10!")
	n.Pods.Drop("b")
	create(t, n, "a", "debug")
	holds(t, "room", has(n), "a/app 1-2,10!")
	f := shut(t, "9")
	n.SetFacts(f)
	holds(t, "looked at again", has(n), "a/app 0-2,10!")
}

// A placement with another pod's CPUs is removed once when no other CPUs are left.
func TestPlacementTakenBack(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("a", 1, app("app", 14)), "app", "0-6,8-14", "0-1"))
	create(t, n, "a", "app")
	events(n)
	late := placed(pod("b", 2, app("app", 2)), "app", "0,8", "0")
	n.Pods.Put(late)
	create(t, n, "b", "app")
	if got := events(n); !strings.HasPrefix(got, "b PlacementRefused") || !strings.HasSuffix(got, "\nb [removed]") {
		t.Errorf("events: %s", got)
	}
	n.Pods.Put(with(late, v1alpha1.AnnotationPlacement, ""))
	n.Pods.Put(late)
	equal(t, "written again", events(n), "")
}

// A pod is gone, but the runtime never reported the end of its sandbox. The sandbox holds no CPUs.
func TestSandboxHoldsNothing(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("a", 1, app("app", 2)), "app", "1,9", "0"))
	n.Pods.Observe(observed.Container{ID: "sandbox", PodUID: "a", Sandbox: true, Phase: observed.Running})
	start(t, n, "a", "app")
	n.Pods.Drop("a")
	equal(t, "while its container runs", n.Pool().String(), "0,2-8,10-15")
	n.Pods.Remove("a/app")
	equal(t, "afterwards", n.Pool().String(), "0-15")
}

// A container shrinks to the shared pool twice. In between, nothing observed the CPUs that it got back.
func TestNarrowedAgain(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(plain("web", 1, app("nginx", 1)))
	start(t, n, "web", "nginx")
	for _, uid := range []string{"a", "b"} {
		n.Pods.Put(placed(pod(uid, 2, app("app", 2)), "app", "1,9", "0"))
		equal(t, "others of "+uid, show(create(t, n, uid, "app").Others), "web/nginx 0,2-8,10-15")
		n.Pods.Observe(observed.Container{ID: "web/nginx", PodUID: "web", Name: "nginx", Phase: observed.Running, CPUs: set(t, "0,2-8,10-15")})
		n.Pods.Remove(uid + "/app")
		n.Pods.Drop(uid)
		equal(t, "nothing pinned", has(n), "")
	}
}

// A refused pod runs in the shared pool. If its placement names exactly the pool's CPUs, they are still not its own.
func TestRefusedInThePool(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("b", 2, app("app", 14)), "app", "0-5,7-13,15", "0-1"))
	start(t, n, "b", "app")
	n.Pods.Put(placed(pod("a", 1, app("app", 2)), "app", "6,14", "1"))
	start(t, n, "a", "app")
	equal(t, "refused", has(n), "a/app 6,14; b/app 0-5,7-13,15!")
	n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "6,14")})
	start(t, n, "a", "debug")
	equal(t, "looked at again", has(n), "a/app 6,14; a/debug 6,14; b/app 0-5,7-13,15!")
}

// A container may run on exactly the CPUs of its placement while the journal says shared pool or offline work. A new
// Node does not mistake these CPUs for exclusive.
func TestSharesByTheJournal(t *testing.T) {
	for _, c := range []struct {
		name, given string
		pinned      bool
		want        string
	}{
		{"pool", "6,14", false, "a/app 6,14; b/app 0-5,7-13,15!"},
		{"larger pool, of which CPUs went offline", "6-7,14", false, "a/app 6,14; b/app 0-5,7-13,15!"},
		{"its own", "6,14", true, "a/app 6,14!; b/app 0-5,7-13,15"},
		{"not by Berth", "", false, "a/app 6,14!; b/app 0-5,7-13,15"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := place.New(two().facts(t))
			for _, one := range []struct {
				pod         workload.Pod
				cpus, given string
				pinned      bool
			}{
				{placed(pod("a", 1, app("app", 2)), "app", "6,14", "1"), "6,14", c.given, c.pinned},
				{placed(pod("b", 2, app("app", 14)), "app", "0-5,7-13,15", "0-1"), "0-5,7-13,15", "0-5,7-13,15", true},
			} {
				n.Pods.Put(one.pod)
				n.Pods.Observe(observed.Container{
					ID: one.pod.UID + "/app", PodUID: one.pod.UID, Name: "app", Phase: observed.Running,
					CPUs: set(t, one.cpus), Given: set(t, one.given), Pinned: one.pinned,
				})
			}
			equal(t, "desired", has(n), c.want)
		})
	}
}

// A container may leave the pool for exclusive CPUs equal to the pool's. From then on they belong to it.
func TestFromThePoolToTheSameCPUs(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("a", 1, app("app", 2)), "app", "6,14", "1"))
	n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "6,14"), Given: set(t, "6,14")})
	equal(t, "granted", has(n), "a/app 6,14!")
	n.Pods.Put(placed(pod("b", 0, app("app", 2)), "app", "6,14", "1"))
	equal(t, "claimed by a pod scheduled earlier", has(n), "a/app 6,14!")
	start(t, n, "b", "app")
	holds(t, "beside it", has(n), "a/app 6,14!")
}

// While the node was not pinnable, no pod was refused for lack of room. Afterwards a container that already runs on its
// CPUs still has precedence.
func TestPinnableAgain(t *testing.T) {
	closed := two().facts(t)
	closed.Pinnable = false
	n := place.New(closed)
	n.Pods.Put(placed(pod("early", 1, app("app", 1)), "app", "0", "0"))
	n.Pods.Put(placed(pod("runs", 2, app("app", 1)), "app", "0", "0"))
	n.Pods.Observe(observed.Container{ID: "runs/app", PodUID: "runs", Name: "app", Phase: observed.Running, CPUs: set(t, "0"), Given: set(t, "0"), Pinned: true})
	equal(t, "closed", has(n), "")
	n.SetFacts(two().facts(t))
	equal(t, "open", has(n), "runs/app 0!")
}
