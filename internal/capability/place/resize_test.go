package place_test

import (
	"strconv"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/observed"
)

// resize puts a pod with other limits, and makes the runtime ask about them.
func resize(t *testing.T, n *place.Node, p workload.Pod, containers ...workload.Container) place.Answer {
	t.Helper()
	n.Pods.Put(resized(p, containers...))
	a, err := n.Resize(p.UID)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// lastWritten returns the annotation that the Node last wrote for a pod, "" for none.
func lastWritten(n *place.Node, uid string) string {
	last := ""
	for _, one := range n.Events() {
		if one.PodUID == uid && one.Annotation != nil {
			last = one.Annotation.Encode()
		}
	}
	return last
}

// A container that grew and shrinks again keeps its first CPUs, even where the agent knows them only from the
// annotation.
func TestResizeKeepsTheFirst(t *testing.T) {
	tests := []struct {
		name, has, first, terms string
		to                      int64
		want, left              string
	}{
		{"to as many", "0-1,8-9", "1,9", "", 2, "1,9", ""},
		{"to more", "0-2,8-10", "1,9", "", 4, "0-1,8-9", "1,9"},
		{"to fewer", "0-1,8-9", "1,9", "", 1, "1", ""},
		{"core of a thread", "0-1,8-9", "1", "", 2, "1,9", "1"},
		{"on more cores", "0-1,8-9", "1", `{"requiredCPUBindPolicy":"SpreadByPCPUs"}`, 2, "0-1", "1"},
		{"siblings empty", "0-3", "2", `{"requiredCPUExclusivePolicy":"PCPULevel"}`, 2, "0,2", "2"},
		{"first of all", "0-1,8-9", "", "", 2, "0,8", ""},
		{"forged", "0-1,8-9", "2-3", "", 2, "0,8", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, restarted := range []bool{false, true} {
				before := pod("a", 1, app("app", int64(set(t, test.has).Size())))
				if test.terms != "" {
					before = with(before, v1alpha1.AnnotationResourceSpec, test.terms)
				}
				before = placed(before, "app", test.has, "0-1")
				one, _ := v1alpha1.DecodePlacement(before.Annotations[v1alpha1.AnnotationPlacement])
				part := one.Containers["app"]
				part.First = test.first
				one.Containers["app"] = part
				before = with(before, v1alpha1.AnnotationPlacement, one.Encode())
				n := place.New(two().facts(t))
				n.Pods.Put(before)
				if restarted { // an agent finds it running
					n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, test.has)})
				} else {
					start(t, n, "a", "app")
				}
				n.Events()
				resize(t, n, before, app("app", test.to))
				equal(t, "desired", has(n), "a/app "+test.want+"!")
				now, _ := v1alpha1.DecodePlacement(lastWritten(n, "a"))
				equal(t, "first", now.Containers["app"].First, test.left)
			}
		})
	}
}

// A container that grows and shrinks repeatedly ends where it began.
func TestResizeThereAndBack(t *testing.T) {
	n := place.New(two().facts(t))
	p := placed(pod("a", 1, app("app", 2)), "app", "1,9", "0")
	n.Pods.Put(p)
	start(t, n, "a", "app")
	for _, to := range []struct {
		limit int64
		want  string
	}{{4, "0-1,8-9"}, {6, "0-2,8-10"}, {4, "0-1,8-9"}, {2, "1,9"}, {3, "0-1,9"}, {2, "1,9"}, {1, "1"}, {2, "1,9"}, {1, "1"}} {
		resize(t, n, p, app("app", to.limit))
		equal(t, "desired", has(n), "a/app "+to.want+"!")
	}
}

// A growing container's answer narrows the pool first. CPUs of a shrinking container return to the pool only after it
// has left them.
func TestResizeNarrowsThePoolFirst(t *testing.T) {
	n := place.New(two().facts(t))
	p := placed(pod("a", 1, app("app", 2)), "app", "1,9", "0")
	n.Pods.Put(p)
	n.Pods.Put(plain("web", 1, app("web", 0)))
	start(t, n, "a", "app")
	start(t, n, "web", "web")
	grow := resize(t, n, p, app("app", 4))
	equal(t, "narrowed first", show(grow.Others), "web/web 2-7,10-15")
	equal(t, "grown", show(grow.Own), "a/app 0-1,8-9!")
	shrink := resize(t, n, p, app("app", 2))
	equal(t, "nothing widens before it is left", show(shrink.Others), "")
	equal(t, "shrunk", show(shrink.Own), "a/app 1,9!")
	equal(t, "widened later", has(n), "a/app 1,9!; web/web 0,2-8,10-15")
}

// crowded returns a node with a pod of 10 CPUs and a pod of 2, after a resize of the small pod without room.
func crowded(t *testing.T, limit int64) (*place.Node, workload.Pod) {
	t.Helper()
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("b", 0, app("app", 10)), "app", "0,2-4,6,8,10-12,14", "0-1"))
	start(t, n, "b", "app")
	p := placed(pod("a", 1, app("app", 2)), "app", "1,9", "0")
	n.Pods.Put(p)
	start(t, n, "a", "app")
	n.Events()
	resize(t, n, p, app("app", limit))
	return n, p
}

// A resize without room is Deferred, and carried out once there is room, as by the kubelet.
func TestResizeDeferred(t *testing.T) {
	leaves := func(t *testing.T, n *place.Node) {
		t.Helper()
		n.Pods.Drop("b")
		n.Pods.RemovePod("b")
	}
	t.Run("until another pod ends", func(t *testing.T) {
		n, _ := crowded(t, 6)
		holds(t, "events", events(n), "a CPUPinFailed: Pod resize Deferred: no whole core left for the shared pool", "; it keeps app 1,9")
		holds(t, "why", n.Desired()[1].Why, "exclusive CPUs, by its placement; Pod resize Deferred: ")
		leaves(t, n)
		equal(t, "room", has(n), "a/app 0-2,8-10!")
		equal(t, "events", events(n), "a  [app 0-2,8-10 on 0]")
		equal(t, "why", n.Desired()[0].Why, "exclusive CPUs, chosen by the agent of this node")
	})
	t.Run("until another pod shrinks", func(t *testing.T) {
		n, _ := crowded(t, 6)
		b := placed(pod("b", 0, app("app", 10)), "app", "0,2-4,6,8,10-12,14", "0-1")
		resize(t, n, b, app("app", 4))
		equal(t, "room", has(n), "a/app 0-2,8-10!; b/app 4,6,12,14!")
	})
	t.Run("taken back", func(t *testing.T) {
		n, p := crowded(t, 6)
		resize(t, n, p, app("app", 2))
		leaves(t, n)
		equal(t, "desired", has(n), "a/app 1,9!")
	})
	t.Run("requests", func(t *testing.T) {
		n := place.New(two().facts(t))
		p := placed(pod("a", 1, app("app", 2)), "app", "1,9", "0")
		n.Pods.Put(p)
		start(t, n, "a", "app")
		n.Pods.Put(plain("web", 1, app("web", 12)))
		n.Events()
		resize(t, n, p, app("app", 6))
		holds(t, "events", events(n), "a CPUPinFailed: Pod resize Deferred: CPUs promised to pinned containers")
		n.Pods.Put(plain("web", 1, app("web", 2)))
		equal(t, "room", has(n), "a/app 0-2,8-10!")
	})
	t.Run("after a restart", func(t *testing.T) {
		_, p := crowded(t, 6)
		n := place.New(two().facts(t))
		n.Pods.Put(placed(pod("b", 0, app("app", 10)), "app", "0,2-4,6,8,10-12,14", "0-1"))
		p = resized(p, app("app", 6))
		p.Resizing = false // the kubelet has finished it
		n.Pods.Put(p)
		start(t, n, "b", "app")
		start(t, n, "a", "app")
		holds(t, "events", events(n), "a CPUPinFailed: Pod resize Deferred: ")
		leaves(t, n)
		equal(t, "room", has(n), "a/app 0-2,8-10!")
	})
}

// A resize that even the empty node could not follow is Infeasible, and is not tried again.
func TestResizeInfeasible(t *testing.T) {
	n, _ := crowded(t, 15)
	holds(t, "events", events(n), "a CPUPinFailed: Pod resize Infeasible: no whole core left for the shared pool", "; it keeps app 1,9")
	n.Pods.Drop("b")
	n.Pods.RemovePod("b")
	equal(t, "desired", has(n), "a/app 1,9!")
	equal(t, "events", events(n), "")
}

// An agent that starts during a resize leaves the pod its CPUs until the kubelet has asked or finished. The kubelet may
// still find the resize infeasible.
func TestResizeUnderWayAtTheStart(t *testing.T) {
	for _, limit := range []int64{2, 6} {
		p := resized(placed(pod("a", 1, app("app", 4)), "app", "0-1,8-9", "0"), app("app", limit))
		n := place.New(two().facts(t))
		n.Pods.Put(p)
		n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "0-1,8-9")})
		equal(t, "found", has(n), "a/app 0-1,8-9!")
		asked := p
		asked.Resizing = false
		n.Pods.Put(asked)
		equal(t, "through", strconv.Itoa(n.Exclusive().Size()), strconv.FormatInt(limit, 10))
	}
}

// Limits that the kubelet has applied take effect without a question of the runtime. The agent may have been away, or
// may have learned the limits after the question.
func TestResizeThatTheKubeletCarriedOut(t *testing.T) {
	n := place.New(two().facts(t))
	p := placed(pod("a", 1, app("app", 2)), "app", "1,9", "0")
	n.Pods.Put(p)
	start(t, n, "a", "app")
	if _, err := n.Resize("a"); err != nil { // before the agent knows the limits
		t.Fatal(err)
	}
	p = resized(p, app("app", 4))
	n.Pods.Put(p)
	equal(t, "while it is carried out", has(n), "a/app 1,9!")
	p.Resizing = false
	n.Pods.Put(p)
	equal(t, "carried out", has(n), "a/app 0-1,8-9!")
}

// A pod's first CPUs are forgotten when they go offline. After they return, a shrinking pod keeps some of its present
// CPUs.
func TestResizeAfterCPUsWent(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("b", 1, app("app", 7)), "app", "1-2,4-6,13-14", "0-1"))
	start(t, n, "b", "app")
	p := placed(pod("a", 2, app("app", 6)), "app", "0,3,8-11", "0")
	n.Pods.Put(p)
	start(t, n, "a", "app")
	for _, step := range []struct{ off, want string }{{"0", "3,8-12"}, {"0,3", "8-12"}, {"", "8-12"}} {
		s := two()
		s.switched = step.off
		n.SetFacts(s.facts(t))
		equal(t, "CPUs "+step.off+" offline", has(n), "a/app "+step.want+"!; b/app 1-2,4-6,13-14!")
		n.Pods.Put(plain("promised", 3, app("app", 4))) // from now on there is no room for replacements
	}
	p = resized(p, app("app", 2))
	p.Resizing = false
	n.Pods.Put(p)
	if has := n.Desired()[1].CPUs; has.Size() != 2 || !has.IsSubsetOf(set(t, "8-12")) {
		t.Errorf("of CPUs 8-12 it keeps %s", has)
	}
}
