package place_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/lending"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// static returns the pod with static-burst.
func static(p workload.Pod) workload.Pod {
	return with(p, v1alpha1.AnnotationCPUPolicy, v1alpha1.CPUPolicyStaticBurst)
}

// bursting returns the pod with a placement for static-burst: name, cpus, mems, ...
func bursting(p workload.Pod, parts ...string) workload.Pod {
	text := strings.ReplaceAll(written(parts...), `"policy":"exclusive"`, `"policy":"static-burst","domain":"numa:0"`)
	return with(static(p), v1alpha1.AnnotationPlacement, text)
}

// reserved returns the exclusive part of the desired CPUs.
func reserved(d place.Desired) cpuset.Set { return d.CPUs.Difference(d.Borrowed) }

// idle returns the use of a machine where only the listed CPUs are busy: number, use, ...
func idle(busy ...unit.CPUs) []unit.CPUs {
	use := make([]unit.CPUs, 16)
	for i := 0; i < len(busy); i += 2 {
		use[int(busy[i])] = busy[i+1]
	}
	return use
}

// lends sets the width of a pod's only container.
func lends(n *place.Node, uid string, width int, use []unit.CPUs) {
	n.Lend([]lending.Loan{{PodUID: uid, Container: "app", Width: width, Why: "so it is"}}, use)
}

// borrower returns a node with a pod on CPUs 0 and 8, of limit 2, beside a neighbor.
func borrower(t *testing.T) *place.Node {
	t.Helper()
	n := place.New(two().facts(t))
	n.Pods.Put(plain("web", 1, app("nginx", 1)))
	start(t, n, "web", "nginx")
	n.Pods.Put(bursting(pod("a", 2, app("app", 2)), "app", "0,8", "0"))
	start(t, n, "a", "app")
	return n
}

// A container with static-burst starts on its reserved CPUs. These are exclusive, and its quota stays.
func TestStaticBurst(t *testing.T) {
	n := borrower(t)
	equal(t, "desired", has(n), "a/app 0,8!; web/nginx 1-7,9-15")
	equal(t, "pool", n.Pool().String(), "1-7,9-15")
	if groups := n.DesiredPods(); len(groups) != 0 {
		t.Errorf("groups %+v", groups)
	}
	for _, d := range n.Desired() {
		if d.NoQuota || d.Pinned && d.Why != "CPUs 0,8 are reserved, by its placement; it borrows none so far" {
			t.Errorf("desired %+v", d)
		}
	}
	equal(t, "events", events(n), "a CPUPinned: app 0,8; memory of NUMA nodes 0 (by its placement)")
	got := n.Borrowers()
	if len(got) != 1 || got[0].ContainerID != "a/app" || got[0].Limit != 2 || got[0].Reserved.String() != "0,8" {
		t.Errorf("borrowers %+v", got)
	}
}

// A pod on CPUs 0 and 8 borrows the least used cores of its node, one thread of each core first. Core n has CPUs n and
// n+8.
func TestLend(t *testing.T) {
	tests := []struct {
		name  string
		width int
		use   []unit.CPUs
		want  string
		why   string
	}{
		{"nothing", 2, idle(), "0,8", "it borrows none: so it is"},
		{"one thread of a core", 3, idle(), "0-1,8", "it borrows 1: so it is"},
		{"one thread of every core first", 5, idle(), "0-3,8", "it borrows 1-3: so it is"},
		{"then a second", 6, idle(), "0-3,8-9", "it borrows 1-3,9: so it is"},
		{"all of its node", 99, idle(), "0-3,8-11", "it borrows 1-3,9-11: the other cores of its domain have reserved CPUs"},
		{"the least used", 3, idle(1, 0.5, 2, 0.1, 3, 0.2), "0,2,8", "it borrows 2: so it is"},
		{"either thread counts", 3, idle(9, 0.5, 10, 0.1, 11, 0.2), "0,2,8", "it borrows 2: so it is"},
		{"the second of the least used", 6, idle(1, 0.5, 2, 0.1, 3, 0.2), "0-3,8,10", "it borrows 1-3,10: so it is"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := borrower(t)
			lends(n, "a", test.width, test.use)
			equal(t, "desired", has(n), "a/app "+test.want+"!; web/nginx 1-7,9-15")
			for _, d := range n.Desired() {
				if d.Pinned && d.Why != "CPUs 0,8 are reserved, by its placement; "+test.why {
					t.Errorf("why: %s", d.Why)
				}
			}
		})
	}
}

// A borrowed core stays unless another core is idler by a quarter of a CPU, without the borrower's own use. Between two
// choices nothing new is borrowed.
func TestLendKeeps(t *testing.T) {
	n := borrower(t)
	again := func(width int, used unit.CPUs, use []unit.CPUs) {
		n.Lend([]lending.Loan{{PodUID: "a", Container: "app", Width: width, Why: "so it is", Used: used}}, use)
	}
	again(3, 0, nil)
	equal(t, "before the first choice", has(n), "a/app 0,8!; web/nginx 1-7,9-15")
	again(3, 0, idle(1, 0.9, 2, 0.1))
	equal(t, "chosen", has(n), "a/app 0,3,8!; web/nginx 1-7,9-15")
	again(3, 0, idle(1, 0.9, 2, 0.1, 3, 0.3))
	equal(t, "a little busier", has(n), "a/app 0,3,8!; web/nginx 1-7,9-15")
	again(3, 3, idle(0, 1, 8, 1, 1, 0.9, 2, 0.1, 3, 1))
	equal(t, "busy by itself", has(n), "a/app 0,3,8!; web/nginx 1-7,9-15")
	again(3, 1, idle(0, 0.3, 8, 0.3, 1, 0.9, 2, 0.1, 3, 0.9))
	equal(t, "busy by others", has(n), "a/app 0,2,8!; web/nginx 1-7,9-15")
	again(6, 1, nil)
	equal(t, "wider, and no choice", has(n), "a/app 0,2,8!; web/nginx 1-7,9-15")
	again(2, 1, nil)
	equal(t, "throttled", has(n), "a/app 0,8!; web/nginx 1-7,9-15")
	again(3, 1, idle())
	n.Lend(nil, nil)
	equal(t, "no borrower any more", has(n), "a/app 0,8!; web/nginx 1-7,9-15")
}

// Two borrowers get different cores, because the use of the first is part of the second's choice.
func TestLendApart(t *testing.T) {
	n := borrower(t)
	n.Pods.Put(bursting(pod("b", 3, app("app", 1)), "app", "1", "0"))
	start(t, n, "b", "app")
	loans := []lending.Loan{{PodUID: "a", Container: "app", Width: 3, Used: 3}, {PodUID: "b", Container: "app", Width: 2, Used: 2}}
	n.Lend(loans, idle())
	equal(t, "desired", has(n), "a/app 0,2,8!; b/app 1,3!; web/nginx 2-7,9-15")
	n.Lend(loans, idle(0, 1, 8, 1, 2, 1, 1, 1, 3, 1))
	equal(t, "again", has(n), "a/app 0,2,8!; b/app 1,3!; web/nginx 2-7,9-15")
}

// A pod that gets a borrowed core has it in the answer that assigns it. In this answer the borrower leaves the whole
// core, and its reserved part stays.
func TestYield(t *testing.T) {
	for name, observe := range map[string]bool{"seen": true, "not seen yet": false} {
		t.Run(name, func(t *testing.T) {
			n := borrower(t)
			lends(n, "a", 6, idle())
			equal(t, "borrowed", has(n), "a/app 0-3,8-9!; web/nginx 1-7,9-15")
			if observe {
				n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "0-3,8-9"), Given: set(t, "0-3,8-9"), Pinned: true})
			}
			n.Pods.Put(placed(pod("b", 3, app("app", 1)), "app", "1", "0"))
			a := create(t, n, "b", "app")
			equal(t, "own", show(a.Own), "b/app 1!")
			equal(t, "others", show(a.Others), "a/app 0,2-3,8!; web/nginx 2-7,9-15")
			equal(t, "desired", has(n), "a/app 0,2-3,8!; b/app 1!; web/nginx 2-7,9-15")
			n.Pods.Drop("b")
			n.Pods.RemovePod("b")
			equal(t, "not given back by itself", has(n), "a/app 0,2-3,8!; web/nginx 1-7,9-15")
		})
	}
}

// A borrowed CPU is returned when it goes offline, becomes isolated, or is outside the parent group. The other thread
// of an offline CPU stays borrowed.
func TestYieldsOfflineCPU(t *testing.T) {
	n := borrower(t)
	lends(n, "a", 99, idle())
	off := two()
	off.switched = "10"
	n.SetFacts(off.facts(t))
	equal(t, "offline", has(n), "a/app 0-3,8-9,11!; web/nginx 1-7,9,11-15")
	isolated := two()
	isolated.isolated = "2,10"
	n.SetFacts(isolated.facts(t))
	equal(t, "isolated", has(n), "a/app 0-1,3,8-9,11!; web/nginx 1,3-7,9,11-15")
	n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "0,8"), Bound: set(t, "0-1,4,8-9,12")})
	equal(t, "bound", has(n), "a/app 0-1,8-9!; web/nginx 1,3-7,9,11-15")
}

// A new agent knows the reserved CPUs from the annotation. Without one, they are the CPUs that no other container has.
func TestBorrowerAfterRestart(t *testing.T) {
	lend := bursting(pod("a", 2, app("app", 2)), "app", "3,11", "0")
	bare, ended := static(pod("a", 2, app("app", 2))), lend
	ended.Ended = true
	for name, c := range map[string]struct {
		pod  workload.Pod
		web  string
		want string
	}{
		"placement":                {lend, "0-2,4-10,12-15", "a/app 3,11!; web/nginx 0-2,4-10,12-15"},
		"placement, another on it": {lend, "0-15", "a/app 3,11!; web/nginx 0-2,4-10,12-15"},
		"placement, ended":         {ended, "4-7", "a/app 3,11!; web/nginx 0-2,4-10,12-15"},
		"without":                  {bare, "0-2,4-10,12-15", "a/app 3,11!; web/nginx 0-2,4-10,12-15"},
		"without, alone":           {bare, "4-7", "a/app 1,9!; web/nginx 0,2-8,10-15"},
	} {
		t.Run(name, func(t *testing.T) {
			n := place.New(two().facts(t))
			n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "1-3,9-11"), Given: set(t, "1-3,9-11"), Pinned: true})
			n.Pods.Observe(observed.Container{ID: "web/nginx", PodUID: "web", Name: "nginx", Phase: observed.Running, CPUs: set(t, c.web)})
			n.Pods.Set([]workload.Pod{c.pod, plain("web", 1, app("nginx", 1))})
			equal(t, "desired", has(n), c.want)
		})
	}
}

// A new container of the same name stays on the CPUs of its predecessor, whose end the agent has not heard of yet.
func TestBorrowerAfterRestartFollowsAnother(t *testing.T) {
	n := place.New(two().facts(t))
	for _, id := range []string{"a/app", "a/app-again"} {
		n.Pods.Observe(observed.Container{ID: id, PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "3,11"), Given: set(t, "3,11"), Pinned: true})
	}
	n.Pods.Put(static(pod("a", 2, app("app", 2))))
	equal(t, "desired", has(n), "a/app 3,11!; a/app-again 3,11!")
}

// The agent cannot know the reserved CPUs of a borrower that was gone before it started. If the borrower's CPUs leave
// no whole core, the borrower yields, and other pods keep their CPUs.
func TestBorrowerGoneBeforeARestart(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Observe(observed.Container{ID: "gone/app", PodUID: "gone", Name: "app", Phase: observed.Running, CPUs: set(t, "5-7"), Given: set(t, "5-7"), Pinned: true})
	n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "0-4"), Given: set(t, "0-4"), Pinned: true})
	n.Pods.Put(placed(pod("a", 1, app("app", 5)), "app", "0-4", "0-1"))
	equal(t, "desired", has(n), "a/app 0-4!; gone/app 5-15")
}

// The containers of a pod with a pod-level limit share the reserved and the borrowed CPUs.
func TestBorrowPerPod(t *testing.T) {
	p := static(pod("a", 2, workload.Container{Name: "x"}, workload.Container{Name: "y"}))
	p.CPULimit, p.CPURequest, p.Scheduled = 1500, 1500, 1500
	n := place.New(two().facts(t))
	n.Pods.Put(bursting(p, "x", "0,8", "0", "y", "0,8", "0"))
	start(t, n, "a", "x")
	start(t, n, "a", "y")
	got := n.Borrowers()
	if len(got) != 1 || got[0].Container != "" || got[0].Limit != 1.5 || got[0].Reserved.String() != "0,8" {
		t.Fatalf("borrowers %+v", got)
	}
	n.Lend([]lending.Loan{{PodUID: "a", Width: 3}}, idle())
	equal(t, "desired", has(n), "a/x 0-1,8!; a/y 0-1,8!")
}

// A resize keeps static-burst: the reserve is the limit rounded up, and the annotation names the domain.
func TestBorrowerResize(t *testing.T) {
	n := borrower(t)
	n.Events()
	half := app("app", 0)
	half.CPULimit, half.CPURequest = 2500, 2500
	n.Pods.Put(resized(bursting(pod("a", 2, app("app", 2)), "app", "0,8", "0"), half))
	if _, err := n.Resize("a"); err != nil {
		t.Fatal(err)
	}
	equal(t, "desired", has(n), "a/app 0-1,8!; web/nginx 2-7,9-15")
	for _, e := range n.Events() {
		if c := e.Annotation.Containers["app"]; c.Policy != v1alpha1.PlacementStaticBurst || c.Domain != "l3:0" || c.CPUs != "0-1,8" {
			t.Errorf("annotation %+v", e.Annotation)
		}
	}
}

// The same loan on the same use always gives the same cores.
func TestLendIsDeterministic(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		use := make([]unit.CPUs, 16)
		for i := range use {
			use[i] = unit.CPUs(rapid.Float64Range(0, 1).Draw(r, "use"))
		}
		width, twice := rapid.IntRange(0, 20).Draw(r, "width"), make([]string, 2)
		for i := range twice {
			n := borrower(t)
			lends(n, "a", width, slices.Clone(use))
			twice[i] = has(n)
		}
		if twice[0] != twice[1] {
			r.Fatalf("%s and %s", twice[0], twice[1])
		}
	})
}

// Every loan yields at once. A pod that gets exclusive CPUs has them in the answer, although the kernel may not have
// applied all loans, and no borrower ever loses a reserved CPU.
func TestBorrowersYield(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := place.New(two().facts(t))
		may := map[string]cpuset.Set{} // CPUs that each container may use
		own := map[string]cpuset.Set{} // CPUs reserved for it
		take := func(all []place.Desired) {
			for _, d := range all {
				may[d.ContainerID] = d.CPUs
			}
		}
		for i := range rapid.IntRange(1, 14).Draw(r, "steps") {
			uid := fmt.Sprintf("p%d", i)
			switch rapid.SampledFrom([]string{"burst", "pinned", "lend", "lend", "apply"}).Draw(r, "step") {
			case "lend":
				var loans []lending.Loan
				for _, b := range n.Borrowers() {
					loans = append(loans, lending.Loan{PodUID: b.PodUID, Container: b.Container, Width: rapid.IntRange(1, 9).Draw(r, "width")})
				}
				n.Lend(loans, idle(unit.CPUs(rapid.IntRange(0, 15).Draw(r, "busy")), 0.9))
				for _, d := range n.Desired() { // systemd is asked later, so both lists are possible
					may[d.ContainerID] = may[d.ContainerID].Union(d.CPUs)
				}
			case "apply":
				take(n.Desired())
				for _, d := range n.Desired() {
					n.Pods.Observe(observed.Container{ID: d.ContainerID, PodUID: d.PodUID, Name: d.Container, Phase: observed.Running, CPUs: d.CPUs, Given: d.CPUs, Pinned: d.Pinned})
				}
			case "pinned":
				n.Pods.Put(pod(uid, i, app("app", rapid.Int64Range(1, 3).Draw(r, "limit"))))
				take(start(t, n, uid, "app").Others)
			case "burst":
				n.Pods.Put(static(pod(uid, i, app("app", rapid.Int64Range(1, 3).Draw(r, "limit")))))
				take(start(t, n, uid, "app").Others)
			}
			remembers(r, n)
			for _, d := range n.Desired() {
				if _, known := may[d.ContainerID]; !known {
					may[d.ContainerID] = d.CPUs
				}
				if d.Pinned && own[d.ContainerID].IsEmpty() {
					own[d.ContainerID] = reserved(d)
				}
				if d.Pinned && !own[d.ContainerID].IsSubsetOf(reserved(d)) {
					r.Fatalf("%s had %s reserved, and has %s", d.ContainerID, own[d.ContainerID], reserved(d))
				}
			}
			for a, cpus := range own {
				for b, others := range may {
					if a != b && cpus.Intersects(others) {
						r.Fatalf("%s may be on %s, which are reserved for %s", b, cpus.Intersect(others), a)
					}
				}
			}
		}
	})
}

// bursts reports whether the pod asks for static-burst.
func (w *world) bursts(uid string) bool {
	return w.pods[uid].Annotations[v1alpha1.AnnotationCPUPolicy] == v1alpha1.CPUPolicyStaticBurst
}

// lend lets the borrowers of the world borrow.
func (w *world) lend(r *rapid.T) {
	var loans []lending.Loan
	for _, b := range w.node.Borrowers() {
		loans = append(loans, lending.Loan{
			PodUID: b.PodUID, Container: b.Container, Width: rapid.IntRange(0, 14).Draw(r, "width"),
			Used: unit.CPUs(rapid.Float64Range(0, 4).Draw(r, "used")),
		})
	}
	var use []unit.CPUs
	if rapid.Bool().Draw(r, "choose") {
		use = idle(unit.CPUs(rapid.IntRange(0, 15).Draw(r, "cpu")), 0.7)
	}
	w.node.Lend(loans, use)
	for _, one := range w.all() {
		for _, l := range loans {
			if own := reserved(one).Size(); l.PodUID == one.PodUID && l.Container == one.Container && one.CPUs.Size() > max(own, l.Width) {
				r.Fatalf("%+v for a width of %d", one, l.Width)
			}
		}
	}
}

// borrowed checks that only pods with static-burst borrow, and only from whole cores of the shared pool in the NUMA
// nodes of their reserved CPUs.
func (w *world) borrowed(r *rapid.T, desired map[string]place.Desired) {
	pool := w.node.Pool()
	for _, one := range desired {
		if one.Borrowed.IsEmpty() {
			continue
		}
		if !one.Pinned || one.NoQuota || !w.bursts(one.PodUID) {
			r.Fatalf("%+v borrows", one)
		}
		var whole, node cpuset.Set
		for _, core := range w.facts.Machine.Topology().Cores {
			if core.CPUs.Intersects(one.Borrowed) {
				whole = whole.Union(core.CPUs)
			}
		}
		for _, n := range w.facts.Machine.Topology().Nodes {
			if n.CPUs.Intersects(reserved(one)) {
				node = node.Union(n.CPUs)
			}
		}
		if !whole.IsSubsetOf(pool) || !whole.IsSubsetOf(node) || !one.Borrowed.IsSubsetOf(one.CPUs) {
			r.Fatalf("%s", fmt.Sprintf("%+v borrows of cores %s, the pool has %s, its nodes %s", one, whole, pool, node))
		}
	}
}
