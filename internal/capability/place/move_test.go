package place_test

import (
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/observed"
)

// moves returns the pod with a requested move.
func moves(p workload.Pod, m v1alpha1.Move) workload.Pod {
	m.V = v1alpha1.MoveVersion
	return with(with(p, v1alpha1.AnnotationMovable, v1alpha1.Movable), v1alpha1.AnnotationMove, m.Encode())
}

// answers returns the answers to moves: "done", or the reason of a refusal.
func answers(n *place.Node) string {
	text := ""
	for _, e := range n.Events() {
		switch {
		case e.Refused != nil:
			text += e.PodUID + ": " + e.Refused.Refused + ";"
		case e.Answered:
			text += e.PodUID + ": done;"
		}
	}
	return text
}

// sees makes the Node see a container on CPUs.
func sees(t *testing.T, n *place.Node, uid, name, cpus string) {
	t.Helper()
	n.Pods.Observe(observed.Container{ID: uid + "/" + name, PodUID: uid, Name: name, Phase: observed.Running, CPUs: set(t, cpus), Given: set(t, cpus), Pinned: true})
}

// A move gives a running pod other CPUs. Until the container was seen there, no other pod gets the old or the new CPUs.
// The move is answered once the API server shows the placement.
func TestMove(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(plain("web", 0, app("web", 0)))
	start(t, n, "web", "web")
	a := placed(pod("a", 1, app("app", 2)), "app", "1,9", "0")
	n.Pods.Put(a)
	start(t, n, "a", "app")
	equal(t, "before", has(n), "a/app 1,9!; web/web 0,2-8,10-15")
	n.Events()

	a = moves(a, v1alpha1.Move{From: "1,9", To: "6,14"})
	n.Pods.Put(a)
	equal(t, "it moves, and the pool has neither", has(n), "a/app 6,14!; web/web 0,2-5,7-8,10-13,15")
	equal(t, "its placement", events(n), "a  [app 6,14 on 0-1]")
	n.Pods.Put(pod("b", 2, app("app", 10)))
	if b := create(t, n, "b", "app"); b.Own[0].CPUs.Intersects(set(t, "1,9,6,14")) {
		t.Errorf("CPUs of a move are given to another pod: %s", show(b.Own))
	}
	n.Pods.Remove("b/app")
	n.Pods.Drop("b")

	sees(t, n, "a", "app", "6,14")
	equal(t, "it has left", has(n), "a/app 6,14!; web/web 0-5,7-13,15")
	equal(t, "not before the API server knows", answers(n), "")
	n.Pods.Put(placed(a, "app", "6,14", "0-1"))
	equal(t, "done", answers(n), "a: done;")
	n.Pods.Put(placed(a, "app", "6,14", "0-1"))
	equal(t, "once", answers(n), "")
	delete(a.Annotations, v1alpha1.AnnotationMove)
	n.Pods.Put(placed(a, "app", "6,14", "0-1"))
	equal(t, "there it stays", has(n), "a/app 6,14!; web/web 0-5,7-13,15")
	n.Pods.Put(placed(moves(a, v1alpha1.Move{From: "6,14", To: "1,9"}), "app", "6,14", "0-1"))
	holds(t, "and back", has(n), "a/app 1,9!")
}

// When the Node refuses a move, the move gives the reason, and the pod keeps its CPUs.
func TestMoveRefused(t *testing.T) {
	two2 := func() workload.Pod { return placed(pod("a", 1, app("app", 2)), "app", "1,9", "0") }
	tests := []struct {
		name string
		pod  func(workload.Pod) workload.Pod
		move v1alpha1.Move
		want string
	}{
		{"not movable", func(p workload.Pod) workload.Pod { return with(p, v1alpha1.AnnotationMovable, "false") }, v1alpha1.Move{From: "1,9", To: "6,14"}, "not movable"},
		{"claims", func(p workload.Pod) workload.Pod { p.Claims = true; return p }, v1alpha1.Move{From: "1,9", To: "6,14"}, "not movable"},
		{"no exclusive CPUs", func(p workload.Pod) workload.Pod { p.Excluded.Why = "x"; return p }, v1alpha1.Move{From: "1,9", To: "6,14"}, "no exclusive CPUs"},
		{"other CPUs by now", nil, v1alpha1.Move{From: "2,10", To: "6,14"}, "the pod has CPUs 1,9, not 2,10"},
		{"more than it has", nil, v1alpha1.Move{From: "1,9", To: "6-7,14"}, "CPUs 6-7,14 are not as many as 1,9"},
		{"another pod's", nil, v1alpha1.Move{From: "1,9", To: "4,12"}, "CPUs 4,12 belong to another pod"},
		{"not there", nil, v1alpha1.Move{From: "1,9", To: "16-17"}, "CPUs"},
		{"worse off", nil, v1alpha1.Move{From: "1,9", To: "2-3"}, "it would be worse off than on CPUs 1,9"},
		{"two NUMA nodes", nil, v1alpha1.Move{From: "1,9", To: "3,6"}, "worse off"},
		{"resized", func(p workload.Pod) workload.Pod { return resized(p, app("app", 4)) }, v1alpha1.Move{From: "1,9", To: "6,14"}, "being resized"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := place.New(two().facts(t))
			n.Pods.Put(placed(pod("b", 0, app("app", 4)), "app", "4-5,12-13", "1"))
			start(t, n, "b", "app")
			n.Pods.Put(two2())
			start(t, n, "a", "app")
			before := has(n)
			n.Events()
			p := moves(two2(), test.move)
			if test.pod != nil {
				p = test.pod(p)
			}
			n.Pods.Put(p)
			holds(t, "answer", answers(n), "a: ", test.want)
			equal(t, "desired", has(n), before)
			n.Pods.Put(p)
			equal(t, "once", answers(n), "")
		})
	}
}

// The shared pool keeps a whole core even while a moving pod has its old and its new CPUs.
func TestMoveLeavesACore(t *testing.T) {
	for to, want := range map[string]string{"7,15": "a: no whole core would be left for the shared pool while it has CPUs 6-7,14-15;", "": ""} {
		n := place.New(two().facts(t))
		n.Pods.Put(placed(pod("b", 0, app("app", 12)), "app", "0-5,8-13", "0-1"))
		start(t, n, "b", "app")
		a := placed(pod("a", 1, app("app", 2)), "app", "6,14", "1")
		n.Pods.Put(a)
		start(t, n, "a", "app")
		if n.Events(); to != "" {
			n.Pods.Put(moves(a, v1alpha1.Move{From: "6,14", To: to}))
		}
		equal(t, "answer", answers(n), want)
		holds(t, "desired", has(n), "a/app 6,14!")
	}
}

// The Node makes one move at a time. A move that is withdrawn before its start never starts; one that has started
// finishes.
func TestMovesOneAtATime(t *testing.T) {
	n := place.New(two().facts(t))
	a, b := placed(pod("a", 1, app("app", 2)), "app", "1,9", "0"), placed(pod("b", 2, app("app", 2)), "app", "2,10", "0")
	for _, p := range []workload.Pod{a, b} {
		n.Pods.Put(p)
		start(t, n, p.UID, "app")
	}
	n.Events()
	first, second := v1alpha1.Move{From: "1,9", To: "6,14"}, v1alpha1.Move{From: "2,10", To: "7,15"}
	n.Pods.Put(moves(b, second))
	equal(t, "the first that is asked for", has(n), "a/app 1,9!; b/app 7,15!")
	n.Pods.Put(moves(a, first))
	sees(t, n, "b", "app", "7,15")
	equal(t, "the other one waits", has(n), "a/app 1,9!; b/app 7,15!")
	first.Withdrawn, second.Withdrawn = true, true
	n.Pods.Put(moves(a, first))
	n.Pods.Put(placed(moves(b, second), "app", "7,15", "0-1"))
	equal(t, "answers", answers(n), "a: done;b: done;")
	equal(t, "what began is brought to its end", has(n), "a/app 1,9!; b/app 7,15!")
}

// A move may keep some of a pod's CPUs. Each container keeps its CPUs among these, so that no container comes to CPUs
// on which another still runs.
func TestMoveOfContainers(t *testing.T) {
	for _, c := range []struct{ to, want string }{
		{"6-7,14-15", "a/x 6,14!; a/y 7,15!"},
		{"1-2,9-10", "a/x 2,10!; a/y 1,9!"},
	} {
		n := place.New(two().facts(t))
		a := placed(pod("a", 1, app("x", 2), app("y", 2)), "x", "0,8", "0", "y", "1,9", "0")
		n.Pods.Put(a)
		start(t, n, "a", "x")
		start(t, n, "a", "y")
		n.Pods.Put(moves(a, v1alpha1.Move{From: "0-1,8-9", To: c.to}))
		equal(t, "to "+c.to, has(n), c.want)
	}
}

// An agent may end in a move, with some containers moved and others not. The next agent finishes the move from the
// observed CPUs and the request.
func TestMoveAfterRestart(t *testing.T) {
	a := placed(pod("a", 1, app("x", 2), app("y", 2)), "x", "0,8", "0", "y", "1,9", "0")
	asked := moves(a, v1alpha1.Move{From: "0-1,8-9", To: "6-7,14-15"})
	for _, c := range []struct{ name, x, y, pool string }{
		{"before it began", "0,8", "1,9", "2-5,10-13"},
		{"between two containers", "6,14", "1,9", "0,2-5,8,10-13"},
		{"after both", "6,14", "7,15", "0-5,8-13"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := place.New(two().facts(t))
			n.Pods.Set([]workload.Pod{asked})
			found := func(name, cpus string) observed.Container {
				return observed.Container{ID: "a/" + name, PodUID: "a", Name: name, Phase: observed.Running, CPUs: set(t, cpus), Given: set(t, cpus), Pinned: true}
			}
			n.Pods.SetContainers([]observed.Container{found("x", c.x), found("y", c.y)})
			equal(t, "desired", has(n), "a/x 6,14!; a/y 7,15!")
			equal(t, "pool", n.Pool().String(), c.pool)
			sees(t, n, "a", "x", "6,14")
			sees(t, n, "a", "y", "7,15")
			n.Pods.Put(placed(asked, "x", "6,14", "0-1", "y", "7,15", "0-1"))
			equal(t, "answer", answers(n), "a: done;")
			equal(t, "pool at the end", n.Pool().String(), "0-5,8-13")
		})
	}
}

// Pages do not move with the CPUs. A pod that moves to another NUMA node keeps its old memory nodes in addition.
func TestMoveKeepsMemory(t *testing.T) {
	for _, c := range []struct{ mems, to, want string }{{"0", "6,14", "0-1"}, {"0", "2,10", "0"}, {"0-1", "6,14", "0-1"}} {
		n := place.New(two().facts(t))
		a := placed(pod("a", 1, app("app", 2)), "app", "1,9", c.mems)
		n.Pods.Put(a)
		start(t, n, "a", "app")
		n.Pods.Put(moves(a, v1alpha1.Move{From: "1,9", To: c.to}))
		if d := n.Desired(); len(d) != 1 || d[0].CPUs != set(t, c.to) || d[0].Mems != set(t, c.want) {
			t.Errorf("from NUMA nodes %s to CPUs %s: %+v, want NUMA nodes %s", c.mems, c.to, d, c.want)
		}
	}
}

// inMove returns a Node with a pod that is moving from CPUs 1,9 to 6,14, and the pod.
func inMove(t *testing.T) (*place.Node, workload.Pod) {
	t.Helper()
	n := place.New(two().facts(t))
	a := placed(pod("a", 1, app("app", 2)), "app", "1,9", "0")
	n.Pods.Put(a)
	start(t, n, "a", "app")
	a = moves(a, v1alpha1.Move{From: "1,9", To: "6,14"})
	n.Pods.Put(a)
	equal(t, "under way", has(n), "a/app 6,14!")
	n.Events()
	return n, a
}

// withdraw returns the pod with a withdrawn move.
func withdraw(p workload.Pod) workload.Pod {
	m, _ := v1alpha1.DecodeMove(p.Annotations[v1alpha1.AnnotationMove])
	m.Withdrawn = true
	return with(p, v1alpha1.AnnotationMove, m.Encode())
}

// A new agent finishes a half-done move even if it was withdrawn or the pod is no longer movable. Where another pod has
// the new CPUs, the containers return.
func TestMoveIsMended(t *testing.T) {
	asked := moves(placed(pod("a", 1, app("x", 2), app("y", 2)), "x", "0,8", "0", "y", "1,9", "0"),
		v1alpha1.Move{From: "0-1,8-9", To: "6-7,14-15"})
	other := placed(pod("b", 0, app("app", 2)), "app", "7,15", "1")
	for _, c := range []struct {
		name  string
		pod   workload.Pod
		other bool
		want  string
	}{
		{"withdrawn", withdraw(asked), false, "a/x 6,14!; a/y 7,15!"},
		{"not movable any more", with(asked, v1alpha1.AnnotationMovable, "false"), false, "a/x 6,14!; a/y 7,15!"},
		{"the new CPUs are another pod's", withdraw(asked), true, "a/x 0,8!; a/y 1,9!; b/app 7,15!"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := place.New(two().facts(t))
			n.Pods.Put(c.pod)
			sees(t, n, "a", "x", "6,14")
			sees(t, n, "a", "y", "1,9")
			if c.other {
				n.Pods.Put(other)
				sees(t, n, "b", "app", "7,15")
			}
			equal(t, "desired", has(n), c.want)
			equal(t, "not over", answers(n), "")
			x, y := "6,14", "7,15"
			if c.other {
				x, y = "0,8", "1,9"
			}
			sees(t, n, "a", "x", x)
			sees(t, n, "a", "y", y)
			if !c.other { // else the API server shows it already
				equal(t, "nor before the API server knows", answers(n), "")
				n.Pods.Put(placed(c.pod, "x", x, "0-1", "y", y, "0-1"))
			}
			equal(t, "over", answers(n), "a: done;")
			equal(t, "there it stays", has(n), c.want)
		})
	}
	t.Run("neither way", func(t *testing.T) {
		n := place.New(two().facts(t))
		n.Pods.Put(asked)
		sees(t, n, "a", "x", "6,14")
		sees(t, n, "a", "y", "1,9")
		n.Pods.Put(other)
		sees(t, n, "b", "app", "7,15")
		n.Pods.Put(placed(pod("c", 0, app("app", 2)), "app", "0,8", "0"))
		sees(t, n, "c", "app", "0,8")
		n.Events()
		n.Pods.Put(placed(asked, "x", "6,14", "0-1", "y", "1,9", "0"))
		holds(t, "answer", answers(n), "a: CPUs 7,15 belong to another pod: the pod has CPUs 1,6,9,14")
	})
}

// A withdrawn move turns back when no container was seen on the new CPUs yet.
func TestMoveTurnsBack(t *testing.T) {
	n, a := inMove(t)
	for range 3 {
		sees(t, n, "a", "app", "1,9")
		equal(t, "it goes on", has(n), "a/app 6,14!")
	}
	a = withdraw(a)
	n.Pods.Put(a)
	equal(t, "back", has(n), "a/app 1,9!")
	equal(t, "both are still its own", n.Exclusive().String(), "1,6,9,14")
	equal(t, "not over", answers(n), "")
	sees(t, n, "a", "app", "1,9")
	equal(t, "only those from before", n.Exclusive().String(), "1,9")
	equal(t, "over", answers(n), "a: done;")

	n, a = inMove(t)
	sees(t, n, "a", "app", "6,14")
	n.Pods.Put(withdraw(a))
	equal(t, "it has arrived", has(n), "a/app 6,14!")
}

// A container that was not seen yet runs where the answer put it, even after a move begins. An earlier pod cannot claim
// these CPUs by its placement.
func TestMoveBeforeTheFirstLook(t *testing.T) {
	n := place.New(two().facts(t))
	a := placed(pod("a", 1, app("app", 3)), "app", "0-2", "0")
	n.Pods.Put(a)
	create(t, n, "a", "app")
	n.Pods.Put(moves(a, v1alpha1.Move{From: "0-2", To: "0-1,3"}))
	equal(t, "under way", has(n), "a/app 0-1,3!")
	n.Pods.Put(placed(pod("b", 0, app("app", 1)), "app", "0", "0"))
	equal(t, "beside another", has(n), "a/app 0-1,3!")

	n = place.New(two().facts(t))
	a.Init = []workload.Container{app("init", 1)}
	n.Pods.Put(a)
	create(t, n, "a", "init")
	n.Pods.Put(moves(a, v1alpha1.Move{From: "0-2", To: "0-1,3"}))
	equal(t, "an init container", has(n), "a/init 0-1,3!")
	n.Pods.Put(placed(pod("b", 0, app("app", 1)), "app", "0", "0"))
	equal(t, "beside another", has(n), "a/init 0-1,3!")
}

// CPUs that go offline during a move belong to no pod, neither the old nor the new ones.
func TestMoveWhileCPUsGo(t *testing.T) {
	n, _ := inMove(t)
	n.SetFacts(shut(t, "9"))
	equal(t, "one from before", has(n)+" of "+n.Exclusive().String(), "a/app 6,14! of 1,6,14")
	sees(t, n, "a", "app", "6,14")
	equal(t, "it has left", n.Exclusive().String(), "6,14")

	n, _ = inMove(t)
	n.SetFacts(shut(t, "1,9"))
	equal(t, "all from before", has(n)+" of "+n.Exclusive().String(), "a/app 6,14! of 6,14")

	n, _ = inMove(t)
	n.SetFacts(shut(t, "14"))
	sees(t, n, "a", "app", "1,9")
	equal(t, "a new one", n.Exclusive().Intersect(set(t, "1,6,9,14")).String(), "1,6,9")
}

// A pod that loses CPUs during its move gets no replacement that would leave the shared pool without a whole core while
// the old CPUs are in use. Otherwise the pod that was scheduled last would lose all its CPUs.
func TestMoveWhileCPUsGoLeavesACore(t *testing.T) {
	for _, test := range []struct{ name, off, own, pool string }{
		{"one of its own", "13", "0,5", "7,15"},
		{"all of its own", "5,13", "0,8", "7,15"},
		{"one of both", "8,13", "0,5", "7,15"},
		{"all that it is on", "0,8,13", "7,15", "5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := place.New(two().facts(t))
			a := placed(pod("a", 1, app("app", 2)), "app", "0,8", "0")
			n.Pods.Put(a)
			n.Pods.Put(placed(pod("c", 2, app("app", 6)), "app", "1-3,9-11", "0"))
			n.Pods.Put(placed(pod("d", 3, app("app", 4)), "app", "4,6,12,14", "1"))
			for _, uid := range []string{"a", "c", "d"} {
				start(t, n, uid, "app")
			}
			n.Pods.Put(moves(a, v1alpha1.Move{From: "0,8", To: "5,13"}))
			equal(t, "under way", has(n), "a/app 5,13!; c/app 1-3,9-11!; d/app 4,6,12,14!")
			n.SetFacts(shut(t, test.off))
			for i, when := range []string{"at once", "while it is on its way"} {
				n.Pods.Put(plain("later", 4+i, app("app", 0)))
				equal(t, when, has(n)+" of "+n.Pool().String(), "a/app "+test.own+"!; c/app 1-3,9-11!; d/app 4,6,12,14! of "+test.pool)
			}
		})
	}
}

// A pod that lacked room for a replacement during its move is considered again after it has arrived, because its old
// CPUs are then free.
func TestMoveWhileCPUsGoAsksAgain(t *testing.T) {
	n := place.New(two().facts(t))
	a := with(placed(pod("a", 1, app("app", 2)), "app", "0-1", "0"), v1alpha1.AnnotationNUMATopologySpec, `{"numaTopologyPolicy":"SingleNUMANode"}`)
	n.Pods.Put(a)
	n.Pods.Put(placed(pod("c", 2, app("app", 5)), "app", "2-3,9-11", "0"))
	n.Pods.Put(placed(pod("d", 3, app("app", 4)), "app", "4,12-13,15", "1"))
	for _, uid := range []string{"a", "c", "d"} {
		start(t, n, uid, "app")
	}
	n.Pods.Put(moves(a, v1alpha1.Move{From: "0-1", To: "5,7"}))
	equal(t, "under way", has(n), "a/app 5,7!; c/app 2-3,9-11!; d/app 4,12-13,15!")
	n.SetFacts(shut(t, "1,7-8"))
	equal(t, "on its way", has(n), "a/app 5!; c/app 2-3,9-11!; d/app 4,12-13,15!")
	sees(t, n, "a", "app", "5")
	equal(t, "arrived", has(n), "a/app 5-6!; c/app 2-3,9-11!; d/app 4,12-13,15!")
}

// An init container on the old CPUs holds the new CPUs for its pod, as an app container does.
func TestMoveWithAnInitContainer(t *testing.T) {
	n := place.New(two().facts(t))
	a := placed(pod("a", 2, app("app", 2)), "app", "0,8", "0")
	a.Init = []workload.Container{app("init", 0)}
	n.Pods.Put(a)
	start(t, n, "a", "init")
	n.Pods.Put(moves(a, v1alpha1.Move{From: "0,8", To: "5,13"}))
	equal(t, "under way", has(n), "a/init 5,13!")
	n.Pods.Put(placed(pod("b", 1, app("app", 2)), "app", "5,13", "1"))
	equal(t, "claimed by a pod scheduled earlier", has(n), "a/init 5,13!")
}

// A withdrawn move turns back on the last observation, which may be old. No other pod gets the new CPUs before the
// container was seen again.
func TestMoveTurnsBackByWhatIsSeen(t *testing.T) {
	n, a := inMove(t)
	sees(t, n, "a", "app", "1,9")
	n.Pods.Put(withdraw(a))
	equal(t, "back", has(n), "a/app 1,9!")
	sees(t, n, "a", "app", "6,14")
	equal(t, "it came there meanwhile", n.Exclusive().String(), "1,6,9,14")
	sees(t, n, "a", "app", "1,9")
	equal(t, "it left", n.Exclusive().String(), "1,9")
}

// An answer to the runtime never begins a move.
func TestAnswersBeginNoMove(t *testing.T) {
	n := place.New(two().facts(t))
	a, b := placed(pod("a", 1, app("app", 2)), "app", "1,9", "0"), placed(pod("b", 2, app("app", 2)), "app", "2,10", "0")
	n.Pods.Put(a)
	start(t, n, "a", "app")
	n.Events()
	n.Pods.Put(moves(a, v1alpha1.Move{From: "1,9", To: "6,14"}))
	n.Pods.Put(b)
	create(t, n, "b", "app")
	if d, found := n.DesiredFor("a/app"); !found || d.CPUs != set(t, "1,9") {
		t.Errorf("in an answer: %+v, %v", d, found)
	}
	holds(t, "after it", has(n), "a/app 6,14!")
}

// A pod that is resized during its move keeps the old CPUs until it was seen on the new ones. Then the agent writes the
// placement, and after that the answer with the present CPUs.
func TestMoveResizedOnTheWay(t *testing.T) {
	n, a := inMove(t)
	a = resized(a, app("app", 4))
	resize(t, n, a, app("app", 4))
	now := has(n)
	equal(t, "nothing is written before it has left", events(n), "")
	a = placed(a, "app", "6,14", "0-1")
	n.Pods.Put(a)
	equal(t, "nor when the API server shows the move", events(n), "")
	d, _ := n.DesiredFor("a/app")
	if d.CPUs.Size() != 4 || d.CPUs.Intersects(set(t, "1,9")) {
		t.Fatalf("resized: %s", now)
	}
	sees(t, n, "a", "app", d.CPUs.String())
	var text string
	for _, e := range n.Events() {
		if e.Annotation != nil {
			text = e.Annotation.Encode()
		}
		if e.Answered {
			t.Errorf("answered before the API server shows the placement: %+v", e)
		}
	}
	written, _ := v1alpha1.DecodePlacement(text)
	equal(t, "written", written.Containers["app"].CPUs, d.CPUs.String())
	n.Pods.Put(with(a, v1alpha1.AnnotationPlacement, text))
	equal(t, "answer", answers(n), "a: the pod has CPUs "+d.CPUs.String()+", not 1,9;")
}

// A refusal waits until the API server shows the placement that the pod got in the same round.
func TestRefusalWaitsForPlacement(t *testing.T) {
	for name, change := range map[string]func(workload.Pod) workload.Pod{"refused": func(p workload.Pod) workload.Pod { return p }, "withdrawn": withdraw} {
		t.Run(name, func(t *testing.T) {
			n := place.New(two().facts(t))
			a := change(moves(placed(pod("a", 1, app("app", 2)), "app", "6,14", "0-1"), v1alpha1.Move{From: "1,9", To: "6,14"}))
			n.Pods.Put(with(a, v1alpha1.AnnotationMovable, "false"))
			sees(t, n, "a", "app", "1,9") // the previous agent had not written this
			n.Pods.SetContainers([]observed.Container{{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "1,9"), Given: set(t, "1,9"), Pinned: true}})
			answered := func() (text string, answer bool) {
				for _, e := range n.Events() {
					answer = answer || e.Answered
					if e.Annotation != nil {
						text = e.Annotation.Encode()
					}
				}
				return text, answer
			}
			text, early := answered()
			if text == "" || early {
				t.Fatalf("placement %q, answered %v", text, early)
			}
			n.Pods.Put(with(with(a, v1alpha1.AnnotationMovable, "false"), v1alpha1.AnnotationPlacement, text))
			if _, late := answered(); !late {
				t.Error("not answered")
			}
		})
	}
}

// A move puts no pod onto memory that the kubelet gave to others.
func TestMoveBesideMemoryOfTheKubelet(t *testing.T) {
	for _, c := range []struct{ name, of, answer, has string }{
		{"to nobody", "", "", "a/app 6,14!"},
		{"to an ordinary pod", "ns/web", "a: it would be worse off than on CPUs 1,9;", "a/app 1,9!"},
		{"to the pod itself", "ns/a", "", "a/app 6,14!"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := two().facts(t)
			f.Given = map[string]placement.Given{
				c.of: placement.GivenBy(f.Machine.Topology(), []v1alpha1.KubeletMemory{{NUMANodes: "1", Bytes: 50 * gi}}),
			}
			n := place.New(f)
			n.Pods.Put(plain("web", 0, app("web", 1)))
			a := placed(pod("a", 1, app("app", 2)), "app", "1,9", "0")
			a.Containers[0].MemoryLimit = 20 * gi
			n.Pods.Put(a)
			start(t, n, "a", "app")
			n.Events()
			n.Pods.Put(moves(a, v1alpha1.Move{From: "1,9", To: "6,14"}))
			equal(t, "answer", answers(n), c.answer)
			holds(t, "desired", has(n), c.has)
		})
	}
}
