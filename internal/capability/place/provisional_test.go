package place_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/observed"
)

// early returns the pod as the runtime reports it, with these containers.
func early(p workload.Pod, containers ...workload.Container) workload.Pod {
	p.Containers, p.Init, p.CPULimit, p.Scheduled = containers, nil, 0, 0
	p.Bound, p.Provisional = at(0).AddDate(-30, 0, 0), true
	return p
}

// A provisional pod gets the CPUs of its placement as soon as it is known. Before that, the Node reports and writes
// nothing.
func TestProvisionalPodBecomesKnown(t *testing.T) {
	n := place.New(two().facts(t))
	whole := placed(pod("a", 2, app("main", 2), app("side", 2)), "main", "2-3", "0", "side", "4-5", "1")
	n.Pods.Put(early(whole, app("main", 2)))
	start(t, n, "a", "main")
	equal(t, "guessed", has(n), "a/main 2-3!")
	equal(t, "events of a guess", events(n), "")
	n.Pods.Put(whole)
	start(t, n, "a", "side")
	equal(t, "known", has(n), "a/main 2-3!; a/side 4-5!")
	equal(t, "events", events(n), "a CPUPinned: main 2-3, side 4-5; memory of NUMA nodes 0-1 (by its placement)")
}

// The Node took an init container for an app container. Once the pod is known, its containers have the CPUs of the
// placement.
func TestProvisionalGuessWasWrong(t *testing.T) {
	n := place.New(two().facts(t))
	whole := placed(pod("a", 2, app("main", 2)), "main", "2-3", "0")
	whole.Init = []workload.Container{app("init", 1)}
	n.Pods.Put(early(whole, app("init", 1)))
	start(t, n, "a", "init")
	n.Desired()
	n.Pods.Put(whole)
	equal(t, "known", has(n), "a/init 2-3!")
	start(t, n, "a", "main")
	equal(t, "started", has(n), "a/init 2-3!; a/main 2-3!")
	equal(t, "events", events(n), "a CPUPinned: main 2-3; memory of NUMA nodes 0 (by its placement)")
}

// A pod that becomes known keeps the CPUs on which its container runs. The Node writes the placement that it chose.
func TestProvisionalKeepsWhatRuns(t *testing.T) {
	for _, annotated := range []bool{false, true} {
		n := place.New(two().facts(t))
		whole := pod("a", 2, app("main", 2), app("side", 2))
		n.Pods.Put(early(whole, app("main", 2)))
		start(t, n, "a", "main")
		equal(t, "guessed", has(n), "a/main 0,8!")
		equal(t, "events of a guess", events(n), "")
		if annotated {
			whole = placed(whole, "main", "2-3", "0", "side", "4-5", "1")
		}
		n.Pods.Put(whole)
		start(t, n, "a", "side")
		side, mems, who := "1,9", "0", "chosen by the agent of this node"
		if annotated {
			side, mems, who = "4-5", "1", "found running on them"
		}
		equal(t, "known", has(n), "a/main 0,8!; a/side "+side+"!")
		first := events(n)
		holds(t, "events", first, "main 0,8", "side "+side+" on "+mems, who)
	}
}

// A pod that only the runtime has reported takes no CPUs of another pod's placement, because its scheduling time is
// unknown.
func TestProvisionalComesLast(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("b", 5, app("app", 2)), "app", "2-3", "0"))
	n.Pods.Put(early(placed(pod("a", 9, app("app", 2)), "app", "2-3", "0"), app("app", 2)))
	start(t, n, "a", "app")
	start(t, n, "b", "app")
	equal(t, "desired", has(n), "a/app 0,8!; b/app 2-3!")
}

// The runtime creates a container of a pod that was deleted earlier. The provisional pod must not replace the known
// pod.
func TestProvisionalNeverReplaces(t *testing.T) {
	n := place.New(two().facts(t))
	whole := placed(pod("a", 1, app("main", 2), app("side", 2)), "main", "2-3", "0", "side", "4-5", "1")
	whole.Init = []workload.Container{app("init", 1)}
	n.Pods.Put(whole)
	start(t, n, "a", "main")
	n.Pods.Drop("a")
	n.Pods.Put(early(whole, app("init", 1)))
	start(t, n, "a", "init")
	equal(t, "desired", has(n), "a/init 2-5!; a/main 2-3!")
}

// A pod has ended when it becomes known, and two of its containers still run. They keep CPUs until they end.
func TestProvisionalEnded(t *testing.T) {
	n := place.New(two().facts(t))
	whole := pod("a", 1, app("main", 2))
	whole.Init = []workload.Container{app("init", 1)}
	n.Pods.Put(early(whole, app("init", 1)))
	start(t, n, "a", "init")
	n.Pods.Put(early(whole, app("init", 1), app("main", 2)))
	start(t, n, "a", "main")
	equal(t, "guessed", has(n), "a/init 0!; a/main 1,9!")
	whole.Ended = true
	n.Pods.Put(whole)
	equal(t, "known", has(n), "a/init 1,9!; a/main 1,9!")
	equal(t, "pool", n.Pool().String(), "0,2-8,10-15")
}

// An init container runs on some CPUs of its pod's placement. A container of a later pod that runs on the other CPUs is
// not moved away.
func TestInitHoldsWhatItRunsOn(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("b", 2, app("app", 1)), "app", "0", "0"))
	start(t, n, "b", "app")
	whole := placed(pod("a", 1, app("main", 2)), "main", "0,8", "0")
	whole.Init = []workload.Container{app("init", 1)}
	n.Pods.Put(early(whole, app("init", 1)))
	start(t, n, "a", "init")
	equal(t, "guessed", has(n), "a/init 8!; b/app 0!")
	n.Pods.Put(whole)
	equal(t, "known", has(n), "a/init 1,9!; b/app 0!")
}

// A container lost its CPUs to an offline change and runs in the pool. The pool's CPUs do not count as assigned to it.
func TestProvisionalInThePool(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("big", 1, app("app", 13)), "app", "0-5,8-13,15", "0-1"))
	start(t, n, "big", "app")
	whole := pod("a", 2, app("main", 1))
	n.Pods.Put(early(whole, app("main", 1)))
	sees(t, n, "a", "main", "7")
	equal(t, "found", has(n), "a/main 7!; big/app 0-5,8-13,15!")
	n.SetFacts(shut(t, "7"))
	equal(t, "no room", has(n), "a/main 6,14; big/app 0-5,8-13,15!")
	n.Pods.Observe(observed.Container{ID: "a/main", PodUID: "a", Name: "main", Phase: observed.Running, CPUs: set(t, "6,14")})
	n.Pods.RemovePod("big")
	n.Pods.Drop("big")
	whole.Ended = true
	n.Pods.Put(whole)
	equal(t, "known", has(n), "")
}

// A pod that should have no exclusive CPUs loses them, with its placement, once it is known.
func TestProvisionalIsTakenAway(t *testing.T) {
	n := place.New(two().facts(t))
	whole := placed(pod("a", 1, app("main", 2)), "main", "2-3", "0")
	n.Pods.Put(early(whole, app("main", 2)))
	start(t, n, "a", "main")
	whole.Excluded.Why = "it is a virtual machine"
	n.Pods.Put(whole)
	equal(t, "desired", has(n), "")
	equal(t, "events", events(n), "a PlacementRefused: it is a virtual machine\na [removed]")
}

// A placed pod that has not started loses its claim when it is excluded.
func TestExcludedLate(t *testing.T) {
	n := place.New(two().facts(t))
	p := placed(pod("a", 1, app("main", 2)), "main", "2-3", "0")
	n.Pods.Put(p)
	equal(t, "pool", n.Pool().String(), "0-1,4-15")
	p.Excluded.Why = "it is a virtual machine"
	n.Pods.Put(p)
	if a := create(t, n, "a", "main"); len(a.Own) > 0 {
		t.Errorf("it has %s", show(a.Own))
	}
	equal(t, "pool", n.Pool().String(), "0-15")
}

// A pod excluded from more than it has keeps its CPUs, even while none of its containers runs. It gets no additional
// CPUs.
func TestExcludedKeepsItsOwn(t *testing.T) {
	n := place.New(two().facts(t))
	p := placed(pod("a", 1, app("main", 2)), "main", "2-3", "0")
	n.Pods.Put(p)
	start(t, n, "a", "main")
	p.Excluded = workload.Exclusion{Why: "a cap", KeepsOwn: true}
	n.Pods.Put(p)
	n.Pods.Remove("a/main")
	equal(t, "pool between two containers", n.Pool().String(), "0-1,4-15")
	equal(t, "own", show(start(t, n, "a", "main").Own), "a/main 2-3!")
	p.Containers = []workload.Container{app("main", 4)}
	n.Pods.Put(p)
	if _, err := n.Resize("a"); err != nil {
		t.Error(err)
	}
	equal(t, "resized", has(n), "a/main 2-3!")
	n.Pods.Drop("a")
	n.Pods.Remove("a/main")
	equal(t, "pool in the end", n.Pool().String(), "0-15")
	later := placed(pod("b", 2, app("main", 2)), "main", "4-5", "0")
	later.Excluded = p.Excluded
	n.Pods.Put(later)
	equal(t, "one that has nothing", show(create(t, n, "b", "main").Own), "")
}

// promised returns the containers of a pod's placement, with the placement's CPUs as limits.
func (w *world) promised(p workload.Pod) []workload.Container {
	var all []workload.Container
	written, _ := v1alpha1.DecodePlacement(p.Annotations[v1alpha1.AnnotationPlacement])
	for _, name := range slices.Sorted(maps.Keys(written.Containers)) {
		all = append(all, app(name, int64(set(w.t, written.Containers[name].CPUs).Size())))
	}
	return all
}

// meet makes the runtime report a container of an early pod: with its limit, without its kind.
func (w *world) meet(uid, name string) {
	guess, found := w.early[uid]
	if !found {
		return
	}
	c := workload.Container{Name: name}
	for _, one := range slices.Concat(w.pods[uid].Init, w.pods[uid].Containers) {
		if one.Name == name {
			c.CPULimit = one.CPULimit
		}
	}
	containers := slices.DeleteFunc(slices.Clone(guess.Containers), func(o workload.Container) bool { return o.Name == name })
	guess.Containers = append(containers, c)
	w.early[uid] = guess
	w.node.Pods.Put(guess)
}

// put shows the Node a pod as it is.
func (w *world) put(p workload.Pod) {
	if _, found := w.early[p.UID]; found {
		delete(w.early, p.UID)
		w.known[p.UID] = true
		// There may be no room in addition to the CPUs that it was found on.
		w.loose[p.UID] = w.loose[p.UID] || p.Ended || len(p.Containers) > 1
	}
	w.pods[p.UID] = p
	w.node.Pods.Put(p)
}
