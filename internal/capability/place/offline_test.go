package place_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// batch is an offline pod of one container.
func batch(uid string, since int) workload.Pod {
	p := plain(uid, since, app("app", 2))
	p.Offline = true
	return p
}

// cores returns the cores of a two in the order in which offline work takes them.
func cores(t testing.TB, size, low int, first ...string) capability.Offline {
	o := capability.Offline{Size: size, Low: low, Why: "as online use fell"}
	for _, list := range append(first, "7,15", "6,14", "5,13", "4,12", "3,11", "2,10", "1,9", "0,8") {
		o.Cores = append(o.Cores, set(t, list))
	}
	return o
}

// With a reserve, offline containers avoid the reserve from their creation on. Other containers have no desired CPUs,
// and run everywhere. The reserve moves no container to an offline side.
func TestReserve(t *testing.T) {
	n := place.New(two().facts(t))
	reserve := capability.Offline{Reserve: set(t, "0,8,4,12"), Why: "which stay free"}
	n.SetOffline(reserve)
	n.Pods.Put(plain("web", 0, app("app", 20)))
	n.Pods.Put(batch("batch", 1))
	n.Pods.Observe(observed.Container{ID: "web-app", PodUID: "web", Name: "app", Phase: observed.Running, CPUs: set(t, "0-15")})
	equal(t, "without an offline container", has(n), "")
	a := create(t, n, "batch", "app")
	equal(t, "the first offline container", show(a.Own), "batch/app 1-3,5-7,9-11,13-15")
	equal(t, "others in the same answer", show(a.Others), "")
	equal(t, "desired", has(n), "batch/app 1-3,5-7,9-11,13-15")
	d := n.Desired()[0]
	if s := d.Settings(); len(s) != 1 || s[0].Owner != plan.OwnerIsolate || s[0].Workload != "ns/batch" || d.Bound {
		t.Errorf("settings %+v, bound %v", s, d.Bound)
	}
	equal(t, "why", d.Why, "the shared pool but for CPUs 0,4,8,12, which stay free")
	s := n.Snapshot()
	equal(t, "sides", s.Shared.String()+" "+s.Offline.String(), "0-15 ")
	if s.Overcommitted {
		t.Error("a reserve overcommits the pool: " + s.OvercommittedText)
	}
	if n.SetOffline(reserve) {
		t.Error("the same reserve is another one")
	}
	n.Pods.Put(placed(pod("db", 2, app("app", 2)), "app", "7,15", "1"))
	a = create(t, n, "db", "app")
	equal(t, "the pinned pod", show(a.Own), "db/app 7,15!")
	equal(t, "others beside it", show(a.Others), "batch/app 1-3,5-6,9-11,13-14; web-app 0-6,8-14")
	n.Pods.Drop("db")
	n.Pods.RemovePod("db")
	equal(t, "without the pinned pod", has(n), "batch/app 1-3,5-7,9-11,13-15")
	n.SetOffline(capability.Offline{})
	equal(t, "without a reserve", has(n), "")
	n.SetOffline(reserve)
	n.Pods.Drop("batch")
	n.Pods.RemovePod("batch")
	equal(t, "without offline work", has(n), "")
}

// The boundary exists from the creation of the first offline container until after the last one.
func TestBoundary(t *testing.T) {
	n := place.New(two().facts(t))
	n.SetOffline(cores(t, 2, 1))
	n.Pods.Put(plain("web", 0, app("app", 1)))
	n.Pods.Put(batch("batch", 1))
	n.Pods.Observe(observed.Container{ID: "web-app", PodUID: "web", Name: "app", Phase: observed.Running, CPUs: set(t, "0-15")})
	equal(t, "without an offline container", has(n), "")
	if n.HasOffline() {
		t.Error("a pod of which nothing was made is offline work")
	}
	a := create(t, n, "batch", "app")
	equal(t, "the first offline container", show(a.Own), "batch/app 6-7,14-15")
	equal(t, "others in the same answer", show(a.Others), "web-app 0-5,8-13")
	if !n.HasOffline() {
		t.Error("no offline work")
	}
	for _, d := range n.Desired() {
		want := plan.OwnerPool
		if d.PodUID == "batch" {
			want = plan.OwnerIsolate
		}
		if s := d.Settings(); len(s) != 1 || s[0].Owner != want || s[0].Workload != "ns/batch" {
			t.Errorf("settings %+v, want owner %s for ns/batch", s, want)
		}
	}
	s := n.Snapshot()
	equal(t, "sides", s.Shared.String()+" "+s.Offline.String(), "0-5,8-13 6-7,14-15")
	// A pinned pod takes cores of either side at once. Offline work keeps its other cores.
	n.Pods.Put(placed(pod("db", 2, app("app", 2)), "app", "7,15", "1"))
	a = create(t, n, "db", "app")
	equal(t, "the pinned pod", show(a.Own), "db/app 7,15!")
	equal(t, "offline work beside it", show(a.Others), "batch/app 6,14")
	// Offline work takes other cores when it would have less than its guarantee, but never in an answer.
	n.Pods.Put(placed(pod("db2", 3, app("app", 2)), "app", "6,14", "1"))
	create(t, n, "db2", "app")
	equal(t, "offline work with its guarantee", n.Offline().String(), "5,13")
	n.Pods.Drop("batch")
	n.Pods.RemovePod("batch")
	equal(t, "without offline work", n.Offline().String(), "")
}

// In an answer, the container that leaves a core comes before the container that takes it, in any order of the pods.
func TestBoundaryInOneAnswer(t *testing.T) {
	n := place.New(two().facts(t))
	n.SetOffline(cores(t, 1, 1))
	n.Pods.Put(batch("batch", 0))
	n.Pods.Put(plain("web", 1, app("app", 1)))
	n.Pods.Observe(observed.Container{ID: "web-app", PodUID: "web", Name: "app", Phase: observed.Running, CPUs: set(t, "0-6,8-14")})
	n.Pods.Observe(observed.Container{ID: "batch-app", PodUID: "batch", Name: "app", Phase: observed.Running, CPUs: set(t, "7,15")})
	n.Pods.Put(placed(pod("db", 2, app("app", 2)), "app", "7,15", "1"))
	a := create(t, n, "db", "app")
	equal(t, "the first", show(a.Others[:1]), "web-app 0-5,8-13")
	equal(t, "the second", show(a.Others[1:]), "batch-app 6,14")
	equal(t, "the pinned pod", show(a.Own), "db/app 7,15!")
}

// The boundary stays while a pod is between two starts of its container, and ends with the pod.
func TestBoundaryStaysWhileThePodIsThere(t *testing.T) {
	n := place.New(two().facts(t))
	n.SetOffline(cores(t, 1, 1))
	p := batch("batch", 0)
	n.Pods.Put(p)
	n.Pods.Observe(observed.Container{ID: "box", PodUID: "batch", Sandbox: true, Phase: observed.Running, CPUs: set(t, "0-15")})
	equal(t, "with the sandbox", n.Offline().String(), "7,15")
	n.Pods.Observe(observed.Container{ID: "batch-app", PodUID: "batch", Name: "app", Phase: observed.Stopped})
	equal(t, "between two starts", n.Offline().String(), "7,15")
	n.Pods.Remove("box")
	p.Ended = true
	n.Pods.Put(p)
	equal(t, "at its end", n.Offline().String(), "")
}

// Offline work shares the pool where fewer than two of its cores are free. Where another program owns CPU sets, nothing
// is desired.
func TestNoBoundary(t *testing.T) {
	n := place.New(two().facts(t))
	n.SetOffline(capability.Offline{Cores: []cpuset.Set{set(t, "7,15"), set(t, "6,14")}, Size: 1, Low: 1})
	n.Pods.Put(batch("batch", 0))
	n.Pods.Observe(observed.Container{ID: "batch-app", PodUID: "batch", Name: "app", Phase: observed.Running, CPUs: set(t, "0-15")})
	equal(t, "two cores", n.Offline().String(), "7,15")
	n.Pods.Put(placed(pod("db", 2, app("app", 1)), "app", "6", "1"))
	start(t, n, "db", "app")
	equal(t, "one core", n.Offline().String(), "")
	equal(t, "it shares the pool", has(n), "batch-app 0-5,7-15; db/app 6!")
	f := two().facts(t)
	f.Pinnable, f.Reason = false, "the kubelet sets CPU sets"
	n.SetFacts(f)
	equal(t, "another owner", has(n), "")
}

// The last CPUs of an online container that an administrator bound stay online.
func TestBoundOnlineContainersAreNotStranded(t *testing.T) {
	n := place.New(two().facts(t))
	n.SetOffline(cores(t, 2, 1))
	n.Pods.Put(batch("batch", 0))
	n.Pods.Put(plain("bound", 0, app("app", 1)))
	n.Pods.Observe(observed.Container{ID: "batch-app", PodUID: "batch", Name: "app", Phase: observed.Running, CPUs: set(t, "0-15")})
	n.Pods.Observe(observed.Container{ID: "bound-app", PodUID: "bound", Name: "app", Phase: observed.Running, CPUs: set(t, "7,15"), Bound: set(t, "7,15")})
	equal(t, "a bound container", has(n), "batch-app 5-6,13-14; bound-app 7,15")
	n.Pods.Observe(observed.Container{ID: "bound-app", PodUID: "bound", Name: "app", Phase: observed.Running, CPUs: set(t, "6-7"), Bound: set(t, "6-7")})
	equal(t, "one of two cores", has(n), "batch-app 5,7,13,15; bound-app 6")
}

// An offline container that an administrator bound to online cores stays there, and its row gives the reason.
func TestBoundOfflineContainerStays(t *testing.T) {
	n := place.New(two().facts(t))
	n.SetOffline(cores(t, 1, 1))
	n.Pods.Put(batch("batch", 0))
	for name, bound := range map[string]string{"bound": "3,11", "partly": "3,7,11", "free": "0-15"} {
		n.Pods.Put(batch(name, 1))
		n.Pods.Observe(observed.Container{ID: name, PodUID: name, Name: "app", Phase: observed.Running, CPUs: set(t, bound), Bound: set(t, bound)})
	}
	equal(t, "offline containers", has(n), "bound 3,11; free 7,15; partly 7")
	for _, row := range n.Snapshot().Rows {
		if row.Bound != (row.PodUID == "bound") || row.Bound && row.Why != "it is bound to CPUs 3,11, outside the CPUs that offline work has: Berth never widens a bound container" {
			t.Errorf("%s: %v, %q", row.PodUID, row.Bound, row.Why)
		}
	}
}

// With a reserve, offline work has no cores of its own. The reason of a container bound to the reserve must not mention
// such cores.
func TestBoundBesideAReserve(t *testing.T) {
	n := place.New(two().facts(t))
	n.SetOffline(capability.Offline{Reserve: set(t, "0,8"), Why: "which stay free"})
	n.Pods.Put(batch("bound", 1))
	n.Pods.Observe(observed.Container{ID: "bound", PodUID: "bound", Name: "app", Phase: observed.Running, CPUs: set(t, "0,8"), Bound: set(t, "0,8")})
	d := n.Desired()[0]
	equal(t, "why", d.Why, "it is bound to CPUs 0,8, outside the CPUs that offline work has: Berth never widens a bound container")
	if !d.Bound {
		t.Error("it is not shown as bound")
	}
}

// Overcommitment compares the requests with the CPUs that online work has while offline work has its guarantee.
func TestOvercommittedBesideOfflineWork(t *testing.T) {
	for _, test := range []struct {
		low, requests int64
		want          bool
	}{{1, 14, false}, {1, 15, true}, {3, 10, false}, {3, 11, true}} {
		n := place.New(two().facts(t))
		n.SetOffline(cores(t, 5, int(test.low)))
		n.Pods.Put(plain("web", 0, app("app", test.requests)))
		n.Pods.Put(batch("batch", 0))
		start(t, n, "web", "app")
		start(t, n, "batch", "app")
		if s := n.Snapshot(); s.Overcommitted != test.want {
			t.Errorf("low %d, requests %d: %q", test.low, test.requests, s.OvercommittedText)
		}
	}
}

// After any sequence of changes, no core has online and offline containers, no container is without CPUs, and offline
// work has its guarantee. An answer takes from a container only CPUs that it must not have.
func TestBoundaryUnderAnything(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := place.New(two().facts(t))
		now := map[string]cpuset.Set{} // CPUs of the containers
		for i := range rapid.IntRange(1, 25).Draw(r, "steps") {
			uid := fmt.Sprintf("p%d", rapid.IntRange(0, 5).Draw(r, "pod"))
			written := false // now includes all changes
			switch rapid.IntRange(0, 4).Draw(r, "step") {
			case 0:
				o := cores(t, rapid.IntRange(0, 8).Draw(r, "size"), rapid.IntRange(0, 8).Draw(r, "low"))
				o.Cores = o.Cores[rapid.IntRange(0, 8).Draw(r, "unmovable"):]
				o.Reserve = rapid.SampledFrom([]cpuset.Set{{}, set(t, "0,8"), set(t, "0,4,8,12")}).Draw(r, "reserve")
				n.SetOffline(o)
			case 1:
				n.Pods.Put(rapid.SampledFrom([]workload.Pod{batch(uid, i), plain(uid, i, app("app", 1)), pod(uid, i, app("app", 3))}).Draw(r, "kind"))
			case 2:
				a, err := n.Create(uid, "app", uid)
				if err != nil {
					continue
				}
				delete(now, uid)
				for _, d := range append(a.Others, a.Own...) {
					checkFree(r, n, now, d)
					now[d.ContainerID] = d.CPUs
				}
				if written = true; now[uid].IsEmpty() {
					now[uid] = set(t, "0-15")
				}
				n.Pods.Observe(observed.Container{ID: uid, PodUID: uid, Name: "app", Phase: observed.Running, CPUs: now[uid]})
			case 3:
				n.Pods.Drop(uid)
				n.Pods.RemovePod(uid)
				delete(now, uid)
			case 4: // a round of the agent
				written = true
				for _, d := range n.Desired() {
					now[d.ContainerID] = d.CPUs
					n.Pods.Observe(observed.Container{ID: d.ContainerID, PodUID: d.PodUID, Name: d.Container, Phase: observed.Running, CPUs: d.CPUs})
				}
			}
			checkSides(r, n, now, written)
			if len(n.Desired()) == 0 { // the agent first restores all lists
				for id := range now {
					now[id] = set(t, "0-15")
				}
			}
		}
	})
}

// checkFree checks that a container about to be written takes no core that the other side still has. When two pods
// exchange their cores, one of them must be first.
func checkFree(r *rapid.T, n *place.Node, now map[string]cpuset.Set, d place.Desired) {
	had := now[d.ContainerID]
	taken := d.CPUs.Difference(had)
	for _, other := range n.Desired() {
		has, known := now[other.ContainerID]
		exchange := other.CPUs.Difference(has).Intersects(had)
		if known && !exchange && other.Offline != d.Offline && taken.Intersects(has) && !taken.Intersects(other.CPUs) {
			r.Fatalf("%s takes %s, and %s has %s still", d.ContainerID, taken, other.ContainerID, has)
		}
	}
}

// checkSides checks the desired CPUs, and once they are written also the CPUs of the containers.
func checkSides(r *rapid.T, n *place.Node, now map[string]cpuset.Set, written bool) {
	var online, offline cpuset.Set // cores, by their first CPU
	for _, d := range n.Desired() {
		for cpu := range d.CPUs.All() {
			if d.Offline {
				offline = offline.Add(cpu % 8)
			} else {
				online = online.Add(cpu % 8)
			}
		}
		if d.CPUs.IsEmpty() || written && (now[d.ContainerID].IsEmpty() || !now[d.ContainerID].IsSubsetOf(d.CPUs)) {
			r.Fatalf("%s shall have %s and has %s", d.ContainerID, d.CPUs, now[d.ContainerID])
		}
	}
	s := n.Snapshot()
	if !s.Offline.IsEmpty() && online.Intersects(offline) {
		r.Fatalf("cores %s have online and offline containers: %s", online.Intersect(offline), show(n.Desired()))
	}
	if s.Offline.Intersects(s.Shared) || s.Offline.Intersects(s.Exclusive) || s.Shared.IsEmpty() {
		r.Fatalf("shared %s, offline %s, exclusive %s", s.Shared, s.Offline, s.Exclusive)
	}
}
