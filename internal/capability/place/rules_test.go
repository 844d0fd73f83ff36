package place_test

import (
	"errors"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/observed"
)

func TestPlacementIsFollowed(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(plain("web", 1, app("nginx", 1)))
	equal(t, "nothing pinned", show(start(t, n, "web", "nginx").Own), "")
	n.Pods.Put(placed(pod("redis", 2, app("redis", 2)), "redis", "1,9", "0"))
	a := create(t, n, "redis", "redis")
	equal(t, "own", show(a.Own), "redis/redis 1,9!")
	equal(t, "others", show(a.Others), "web/nginx 0,2-8,10-15")
	if d := a.Own[0]; d.Mems.String() != "0" || !d.NoQuota || d.Serves != "ns/redis" {
		t.Errorf("own %+v", d)
	}
	if d := a.Others[0]; !d.Mems.IsEmpty() || d.NoQuota || d.Serves != "ns/redis" {
		t.Errorf("the other's %+v", d)
	}
	equal(t, "not reported before it is seen", events(n), "")
	n.Pods.Observe(observed.Container{ID: "redis/redis", PodUID: "redis", Name: "redis", Phase: observed.Running, CPUs: set(t, "1,9")})
	equal(t, "events", events(n), "redis CPUPinned: redis 1,9; memory of NUMA nodes 0 (by its placement)")
	equal(t, "once", events(n), "")
	if groups := n.DesiredPods(); len(groups) != 1 || groups[0].PodUID != "redis" || !groups[0].NoQuota {
		t.Errorf("groups %+v", groups)
	}
}

func TestPoolComesBack(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(plain("web", 1, app("nginx", 1)))
	start(t, n, "web", "nginx")
	redis := placed(pod("redis", 2, app("redis", 2)), "redis", "1,9", "0")
	n.Pods.Put(redis)
	start(t, n, "redis", "redis")
	equal(t, "pinned", has(n), "redis/redis 1,9!; web/nginx 0,2-8,10-15")
	n.Pods.Observe(observed.Container{ID: "redis/redis", PodUID: "redis", Name: "redis", Phase: observed.Stopped})
	equal(t, "crashed: held", has(n), "web/nginx 0,2-8,10-15")
	n.Pods.Remove("redis/redis")
	equal(t, "no container: held", has(n), "web/nginx 0,2-8,10-15")
	equal(t, "pool", n.Pool().String(), "0,2-8,10-15")
	start(t, n, "redis", "redis")
	redis.Ended = true
	n.Pods.Put(redis)
	equal(t, "complete, still running: held", has(n), "redis/redis 1,9!; web/nginx 0,2-8,10-15")
	n.Pods.Observe(observed.Container{ID: "redis/redis", PodUID: "redis", Name: "redis", Phase: observed.Stopped})
	equal(t, "complete", has(n), "")
	equal(t, "pool", n.Pool().String(), "0-15")
}

func TestForceDeletedPodHolds(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("redis", 2, app("redis", 2)), "redis", "1,9", "0"))
	start(t, n, "redis", "redis")
	n.Pods.Drop("redis")
	equal(t, "gone from the API", has(n), "redis/redis 1,9!")
	n.Pods.Put(placed(pod("next", 1, app("app", 2)), "app", "1,9", "0"))
	if a := create(t, n, "next", "app"); a.Own[0].CPUs.Intersects(set(t, "1,9")) {
		t.Errorf("next has %s", a.Own[0].CPUs)
	}
	n.Pods.RemovePod("redis")
	n.Pods.Drop("next")
	n.Pods.RemovePod("next")
	equal(t, "all gone", n.Pool().String(), "0-15")
}

func TestOverlap(t *testing.T) {
	type run struct{ uid, name string }
	a := placed(pod("a", 1, app("app", 2)), "app", "1,9", "0")
	b := placed(pod("b", 2, app("app", 2)), "app", "1,9", "0")
	twin := placed(pod("twin", 1, app("app", 2)), "app", "1,9", "0")
	tests := []struct {
		name    string
		pods    []workload.Pod
		running []run
		want    map[string]string // CPUs by pod
	}{
		{"earlier", []workload.Pod{a, b}, nil, map[string]string{"a": "1,9", "b": "0,8"}},
		{"lower UID", []workload.Pod{twin, a}, nil, map[string]string{"a": "1,9", "twin": "0,8"}},
		{"running", []workload.Pod{a, b}, []run{{"b", "app"}}, map[string]string{"b": "1,9", "a": "0,8"}},
		{"both running", []workload.Pod{b, a}, []run{{"b", "app"}, {"a", "app"}}, map[string]string{"a": "1,9", "b": "0,8"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := place.New(two().facts(t))
			for _, r := range test.running {
				n.Pods.Observe(observed.Container{ID: r.uid + "/" + r.name, PodUID: r.uid, Name: r.name, Phase: observed.Running, CPUs: set(t, "1,9")})
			}
			n.Pods.Set(test.pods)
			text := events(n)
			for _, p := range test.pods {
				own := create(t, n, p.UID, "app").Own
				if len(own) != 1 || own[0].CPUs.String() != test.want[p.UID] || !own[0].Pinned {
					t.Errorf("pod %s has %s, want %s", p.UID, show(own), test.want[p.UID])
				}
			}
			holds(t, "events", text, "PlacementRefused [app 0,8 on 0]", "CPUs 1,9 belong to ns/")
		})
	}
}

// No pod may have these placements, whoever wrote them.
func TestUnbelievable(t *testing.T) {
	base := pod("a", 1, app("app", 2))
	tests := []struct {
		name string
		pod  workload.Pod
		says string
	}{
		{"absent CPUs", placed(base, "app", "14-15,99", "0-1"), "no pod may have CPUs 99"},
		{"reserved CPUs", placed(base, "app", "0,8", "0"), "no pod may have CPUs 0,8"},
		{"too many", placed(base, "app", "1-3", "0"), "3 CPUs for a limit of 2"},
		{"too few", placed(base, "app", "1", "0"), "1 CPUs for a limit of 2"},
		{"other node", placed(base, "app", "1,9", "1"), "in NUMA nodes 0, not in 1"},
		{"no memory there", placed(base, "app", "1,4", "0"), "in NUMA nodes 0-1, not in 0"},
		{"other container", placed(base, "sidecar", "1,9", "0"), "lacks container app"},
		{"broken", with(base, v1alpha1.AnnotationPlacement, `{"v":1`), "cannot be read"},
		{"future", with(base, v1alpha1.AnnotationPlacement, `{"v":9,"topology":"`+hash+`","containers":{"app":{"cpus":"1,9","mems":"0","policy":"exclusive"}}}`), "cannot be read"},
		{"twice", placed(pod("a", 1, app("app", 2), app("more", 1)), "app", "1,9", "0", "more", "9", "0"), "another container's"},
		{
			"static-burst", with(base, v1alpha1.AnnotationPlacement, `{"v":1,"topology":"`+hash+`","containers":{"app":{"cpus":"1,9","mems":"0","policy":"static-burst","domain":"numa:0"}}}`),
			"policy static-burst, which the pod does not ask for",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := two()
			s.reserved = "0,8"
			n := place.New(s.facts(t))
			n.Pods.Put(test.pod)
			own := create(t, n, "a", "app").Own
			if len(own) != 1 || !own[0].Pinned || own[0].CPUs.Size() != 2 || own[0].CPUs.Intersects(set(t, "0,8")) {
				t.Errorf("own: %s", show(own))
			}
			holds(t, "events", events(n), "a PlacementRefused [app ", test.says)
		})
	}
}

func TestHashAloneRefusesNothing(t *testing.T) {
	f := two().facts(t)
	f.Hash = "ffffffffffffffff"
	n := place.New(f)
	n.Pods.Put(placed(pod("a", 1, app("app", 2)), "app", "3,11", "0"))
	equal(t, "own", show(create(t, n, "a", "app").Own), "a/app 3,11!")
	equal(t, "events", events(n), "")
}

func TestPlacedHere(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(pod("a", 1, app("app", 2), app("web", 1)))
	equal(t, "own", show(create(t, n, "a", "app").Own), "a/app 0,8!")
	equal(t, "events", events(n), "a  [app 0,8 on 0, web 1 on 0]")
	equal(t, "own", show(create(t, n, "a", "web").Own), "a/web 1!")
}

// full returns a node on which 13 of 16 CPUs are exclusive.
func full(t *testing.T) *place.Node {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("old", 1, app("x", 7), app("y", 6)), "x", "0-3,8-10", "0", "y", "4-6,12-14", "1"))
	start(t, n, "old", "x")
	start(t, n, "old", "y")
	n.Events()
	return n
}

func TestNoRoom(t *testing.T) {
	const spec, numa = v1alpha1.AnnotationResourceSpec, v1alpha1.AnnotationNUMATopologySpec
	base := pod("a", 2, app("app", 2))
	tests := []struct {
		name     string
		pod      workload.Pod
		required bool
	}{
		{"plain", base, false},
		{"preferred", with(base, spec, `{"preferredCPUBindPolicy":"FullPCPUs","preferredCPUExclusivePolicy":"PCPULevel"}`), false},
		{"best effort", with(base, numa, `{"numaTopologyPolicy":"BestEffort"}`), false},
		{"preferred node", with(base, numa, `{"singleNUMANodeExclusive":"Preferred"}`), false},
		{"bind", with(base, spec, `{"requiredCPUBindPolicy":"FullPCPUs"}`), true},
		{"exclusive", with(base, spec, `{"requiredCPUExclusivePolicy":"PCPULevel"}`), true},
		{"none required", with(base, spec, `{"requiredCPUExclusivePolicy":"None"}`), false},
		{"restricted", with(base, numa, `{"numaTopologyPolicy":"Restricted"}`), true},
		{"single", with(base, numa, `{"numaTopologyPolicy":"SingleNUMANode"}`), true},
		{"node alone", with(base, numa, `{"singleNUMANodeExclusive":"Required"}`), true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := full(t)
			n.Pods.Put(test.pod)
			a, err := n.Create("a", "app", "a/app")
			if test.required != errors.Is(err, place.ErrRefused) {
				t.Fatalf("error %v", err)
			}
			if !test.required {
				equal(t, "own", show(a.Own), "a/app 7,11,15")
				holds(t, "events", events(n), "a PlacementRefused: ", "; it runs in the shared pool")
			} else {
				holds(t, "error", err.Error(), "ns/a", ": placement refused: ")
				holds(t, "events", events(n), "a PlacementRefused: ", "; its containers wait, as it requires them")
			}
			holds(t, "old keeps", has(n), "old/x 0-3,8-10!; old/y 4-6,12-14!")
		})
	}
}

func TestRefusedIsAskedAgain(t *testing.T) {
	n := full(t)
	n.Pods.Put(with(pod("a", 2, app("app", 2)), v1alpha1.AnnotationNUMATopologySpec, `{"numaTopologyPolicy":"SingleNUMANode"}`))
	if _, err := n.Create("a", "app", "1"); !errors.Is(err, place.ErrRefused) {
		t.Fatal(err)
	}
	n.Pods.Drop("old")
	n.Pods.RemovePod("old")
	a, err := n.Create("a", "app", "2")
	if err != nil || !a.Own[0].Pinned {
		t.Errorf("%s, %v", show(a.Own), err)
	}
}

func TestUnknownPod(t *testing.T) {
	n := place.New(two().facts(t))
	if _, err := n.Create("a", "app", "1"); !errors.Is(err, place.ErrUnknownPod) {
		t.Error(err)
	}
	if _, err := n.Resize("a"); !errors.Is(err, place.ErrUnknownPod) {
		t.Error(err)
	}
}

// These pods run in the shared pool however much room there is.
func TestNotPinned(t *testing.T) {
	base := pod("a", 2, app("app", 2))
	kata := base
	kata.Excluded.Why = "runtime handler kata runs a virtual machine"
	tests := []struct {
		name string
		pod  workload.Pod
		want string
	}{
		{"virtual machine", kata, "a PlacementRefused: runtime handler kata runs a virtual machine"},
		{"invalid", with(base, "cpu-policy", "burst"), `a InvalidPolicy: no CPUs are pinned for this pod: field metadata.annotations[cpu-policy]: value "burst": allowed: only static-burst`},
		{
			"hand-written", placed(plain("a", 2, app("app", 2)), "app", "2-3", "0"),
			"a PlacementRefused: the pod has a placement and does not ask for exclusive CPUs\na [removed]",
		},
		{"not asking", plain("a", 2, app("app", 2)), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := place.New(two().facts(t))
			n.Pods.Put(placed(pod("b", 3, app("app", 1)), "app", "15", "1"))
			n.Pods.Put(test.pod)
			equal(t, "own", show(create(t, n, "a", "app").Own), "a/app 0-14")
			equal(t, "events", events(n), test.want)
		})
	}
}

func TestNotPinnable(t *testing.T) {
	f := two().facts(t)
	n := place.New(f)
	n.Pods.Put(placed(pod("a", 1, app("app", 2)), "app", "1,9", "0"))
	n.Pods.Put(plain("web", 1, app("nginx", 1)))
	start(t, n, "a", "app")
	start(t, n, "web", "nginx")
	n.Events()
	closed := f
	closed.Pinnable, closed.Reason = false, "KubeletCPUManager"
	n.SetFacts(closed)
	equal(t, "nothing desired", has(n), "")
	if groups := n.DesiredPods(); len(groups) > 0 {
		t.Errorf("groups %+v", groups)
	}
	n.Pods.Put(with(pod("b", 2, app("app", 2)), v1alpha1.AnnotationNUMATopologySpec, `{"numaTopologyPolicy":"SingleNUMANode"}`))
	equal(t, "own", show(create(t, n, "b", "app").Own), "")
	equal(t, "events", events(n), "b PlacementRefused: node not pinnable (KubeletCPUManager)")
	n.SetFacts(f)
	equal(t, "again", has(n), "a/app 1,9!; b/app 0,8!; web/nginx 2-7,10-15")
}

// An event says whether the node or the pod is the cause, because only the node's cause can pass.
func TestUnpinnableIsOfTheNode(t *testing.T) {
	closed := two().facts(t)
	closed.Pinnable, closed.Reason = false, "KubeletCPUManager"
	n := place.New(closed)
	n.Pods.Put(pod("node", 1, app("app", 2)))
	kata := pod("pod", 2, app("app", 2))
	kata.Excluded.Why = "runtime handler kata runs a virtual machine"
	n.Pods.Put(kata)
	for _, e := range n.Events() {
		if e.Reason != v1alpha1.EventPlacementRefused || e.Unpinnable != (e.PodUID == "node") {
			t.Errorf("event %+v", e)
		}
	}
}

func TestKindsOfContainers(t *testing.T) {
	proxy := app("proxy", 1)
	proxy.Sidecar = true
	p := pod("a", 1, app("app", 2), app("half", 0), proxy)
	p.Init = []workload.Container{app("init", 1)}
	p.Containers[1].CPULimit = 500
	n := place.New(two().facts(t))
	n.Pods.Put(placed(p, "app", "1,9", "0", "proxy", "2", "0"))
	for _, name := range []string{"init", "proxy", "app", "half", "debug"} {
		create(t, n, "a", name)
	}
	n.Pods.Observe(observed.Container{ID: "pause", PodUID: "a", Sandbox: true, Phase: observed.Running})
	equal(t, "desired", has(n), "a/app 1,9!; a/debug 0,3-8,10-15; a/half 0,3-8,10-15; a/init 1,9!; a/proxy 2!; pause 0,3-8,10-15")
	for _, d := range n.Desired() {
		if want := d.Container == "app" || d.Container == "proxy"; d.NoQuota != want {
			t.Errorf("%s: no quota: %v", d.Container, d.NoQuota)
		}
	}
}

func TestOnlySidecarsPinned(t *testing.T) {
	proxy, half := app("proxy", 1), app("half", 0)
	proxy.Sidecar, half.CPULimit = true, 500
	p := pod("a", 1, half, proxy)
	p.Init = []workload.Container{app("init", 1)}
	n := place.New(two().facts(t))
	n.Pods.Put(placed(p, "proxy", "2", "0"))
	equal(t, "init beside a sidecar", show(create(t, n, "a", "init").Own), "a/init 0-1,3-15")
}

func TestPodLevelLimit(t *testing.T) {
	p := pod("a", 1, workload.Container{Name: "x"}, workload.Container{Name: "y"})
	p.CPULimit, p.CPURequest, p.Scheduled = 4000, 4000, 4000
	p.Init = []workload.Container{{Name: "init"}}
	n := place.New(two().facts(t))
	n.Pods.Put(p)
	for _, name := range []string{"init", "x", "y"} {
		create(t, n, "a", name)
	}
	equal(t, "one set", has(n), "a/init 0-1,8-9!; a/x 0-1,8-9!; a/y 0-1,8-9!")
	equal(t, "events", events(n), "a  [x 0-1,8-9 on 0-1, y 0-1,8-9 on 0-1]")
}

func TestSystemAndReserved(t *testing.T) {
	s := two()
	s.reserved, s.isolated = "0,8", "7,15"
	n := place.New(s.facts(t))
	n.Pods.Put(placed(pod("a", 1, app("app", 2)), "app", "1,9", "0"))
	system := plain("sys", 1, app("sys", 1))
	system.Labels[v1alpha1.LabelQoSClass] = "SYSTEM"
	n.Pods.Put(system)
	n.Pods.Put(plain("web", 1, app("web", 1)))
	for _, uid := range []string{"a", "sys", "web"} {
		name := map[string]string{"a": "app", "sys": "sys", "web": "web"}[uid]
		create(t, n, uid, name)
	}
	equal(t, "desired", has(n), "a/app 1,9!; sys/sys 0,2-6,8,10-14; web/web 2-6,10-14")
}

func TestMembersOfThePool(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Observe(observed.Container{ID: "system.slice/x", Name: "system.slice/x", Phase: observed.Running, Bound: set(t, "0-3")})
	n.Pods.Observe(observed.Container{ID: "system.slice/y", Name: "system.slice/y", Phase: observed.Running, Bound: set(t, "9")})
	equal(t, "nothing pinned", has(n), "")
	redis := pod("redis", 1, app("redis", 2))
	redis.Namespace = ""
	n.Pods.Put(placed(redis, "redis", "1,9", "0"))
	equal(t, "desired", has(n), "system.slice/x 0,2-3; system.slice/y 0,2-8,10-15")
	equal(t, "serves", n.Desired()[0].Serves, "redis")
}

func TestOvercommitted(t *testing.T) {
	f := two().facts(t)
	n := place.New(f)
	n.Pods.Put(plain("web", 1, app("nginx", 13)))
	equal(t, "nothing pinned", events(n), "")
	n.Pods.Put(placed(pod("a", 2, app("app", 4)), "app", "0-1,8-9", "0"))
	const says = " SharedPoolOvercommitted: containers without exclusive CPUs request 13 CPUs, and the shared pool has CPUs 2-7,10-15"
	equal(t, "events", events(n), says)
	n.Pods.Put(plain("web", 1, app("nginx", 13)))
	equal(t, "once", events(n), "")
	if s := n.Snapshot(); !s.Overcommitted || s.OvercommittedText != says[26:] {
		t.Errorf("snapshot %+v", s)
	}
	n.Pods.Put(plain("web", 1, app("nginx", 12)))
	n.Pool()
	n.Pods.Put(plain("web", 1, app("nginx", 13)))
	equal(t, "again", events(n), says)
}

func TestLateKeys(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("a", 1, app("app", 2)), "app", "1,9", "0"))
	start(t, n, "a", "app")
	n.Events()
	late := placed(pod("a", 1, app("app", 2)), "app", "1,9", "0")
	delete(late.Annotations, "cpuset-scheduler")
	n.Pods.Put(late)
	equal(t, "keeps", has(n), "a/app 1,9!")
	equal(t, "events", events(n), "a InvalidPolicy: cpuset-scheduler: changed after the pod was created, which has no effect: only allowed when the pod is created")
	n.Pods.Put(plain("b", 1, app("app", 2)))
	n.Pool()
	n.Pods.Put(pod("b", 1, app("app", 2)))
	equal(t, "own", show(create(t, n, "b", "app").Own), "b/app 0,2-8,10-15")
	holds(t, "events", events(n), "b InvalidPolicy: cpuset-scheduler: changed")
}

func TestPlacementChangedLater(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("a", 1, app("app", 2)), "app", "1,9", "0"))
	start(t, n, "a", "app")
	n.Events()
	forged := placed(pod("a", 1, app("app", 2)), "app", "2,10", "0")
	n.Pods.Put(forged)
	equal(t, "keeps", has(n), "a/app 1,9!")
	equal(t, "events", events(n), "a PlacementRefused [app 1,9 on 0]: the placement was changed, which has no effect: the pod has app 1,9")
	n.Pods.Put(placed(pod("a", 1, app("app", 2)), "app", "1,9", "0"))
	equal(t, "put right", events(n), "")
	n.Pods.Put(forged)
	equal(t, "another writer set it twice", events(n), "")
}

func TestPoolKeepsACore(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("a", 1, app("app", 8)), "app", "0-3,8-11", "0"))
	n.Pods.Put(placed(pod("b", 2, app("app", 7)), "app", "4-7,12-14", "1"))
	create(t, n, "a", "app")
	equal(t, "own", show(create(t, n, "b", "app").Own), "b/app 4-7,12-15")
	holds(t, "events", events(n), "b PlacementRefused: the placement cannot be followed: no whole core would be left to the shared pool; no others: ")
}

// One container of a pod runs, and the other was placed on a CPU of another running pod. Only the second gets a
// different CPU.
func TestHalfRunning(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("a", 1, app("app", 2), app("more", 1)), "app", "1,9", "0", "more", "2", "0"))
	n.Pods.Put(placed(pod("b", 2, app("app", 1)), "app", "2", "0"))
	n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "1,9")})
	n.Pods.Observe(observed.Container{ID: "b/app", PodUID: "b", Name: "app", Phase: observed.Running, CPUs: set(t, "2")})
	create(t, n, "a", "more")
	equal(t, "desired", has(n), "a/app 1,9!; a/more 10!; b/app 2!")
	holds(t, "events", events(n), "a PlacementRefused [app 1,9 on 0, more 10 on 0]: the placement cannot be followed: CPUs 2 belong to ns/b")
}

// A pod must not learn the name of a pod in another namespace.
func TestOtherNamespaceIsNotNamed(t *testing.T) {
	n := place.New(two().facts(t))
	b := placed(pod("b", 2, app("app", 1)), "app", "2", "0")
	b.Namespace = "other"
	n.Pods.Put(placed(pod("a", 1, app("app", 2), app("more", 1)), "app", "1,9", "0", "more", "2", "0"))
	n.Pods.Put(b)
	n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "1,9")})
	n.Pods.Observe(observed.Container{ID: "b/app", PodUID: "b", Name: "app", Phase: observed.Running, CPUs: set(t, "2")})
	create(t, n, "a", "more")
	holds(t, "events", events(n), "a PlacementRefused [app 1,9 on 0, more 10 on 0]: the placement cannot be followed: CPUs 2 belong to another pod")
}

func TestDebugInAWaitingPod(t *testing.T) {
	n := full(t)
	p := with(pod("a", 2, app("app", 2)), v1alpha1.AnnotationNUMATopologySpec, `{"numaTopologyPolicy":"SingleNUMANode"}`)
	p.Init = []workload.Container{app("init", 1)}
	n.Pods.Put(p)
	for name, want := range map[string]error{"init": place.ErrRefused, "app": place.ErrRefused, "debug": nil} {
		if _, err := n.Create("a", name, name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhoOvercommits(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("a", 2, app("app", 4)), "app", "0-1,8-9", "0"))
	for uid, change := range map[string]func(*workload.Pod){
		"sys":   func(p *workload.Pod) { p.Labels[v1alpha1.LabelQoSClass] = "SYSTEM" },
		"ended": func(p *workload.Pod) { p.Ended = true },
		"gone":  func(*workload.Pod) {},
	} {
		p := plain(uid, 1, app("app", 13))
		change(&p)
		n.Pods.Put(p)
		n.Pods.Observe(observed.Container{ID: uid, PodUID: uid, Name: "app", Phase: observed.Running})
	}
	n.Pods.Drop("gone")
	if s := n.Snapshot(); s.Overcommitted {
		t.Error(s.OvercommittedText)
	}
}

func TestPinnedIsToldWhenSeen(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("a", 1, app("app", 2)), "app", "1,9", "0"))
	create(t, n, "a", "app")
	n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running})
	equal(t, "not observed", events(n), "")
	n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "0-15")})
	equal(t, "elsewhere", events(n), "")
	n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Running, CPUs: set(t, "1,9")})
	holds(t, "there", events(n), "a CPUPinned")
}

func TestPoolKeepsACoreOfEarlierGrants(t *testing.T) {
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("a", 1, app("app", 8)), "app", "0-3,8-11", "0"))
	n.Pool()
	n.Pods.Put(placed(pod("b", 0, app("app", 7)), "app", "4-7,12-14", "1"))
	equal(t, "pool", n.Pool().String(), "0-3,8-11,15")
	holds(t, "events", events(n), "a PlacementRefused: the placement cannot be followed: no whole core would be left to the shared pool; no others: ")
}

// After a restart, one of two containers that share a set is found on fewer CPUs than the placement says. Both get
// these CPUs, and the replacements.
func TestSharedSetFoundSmaller(t *testing.T) {
	p := pod("a", 1, workload.Container{Name: "app"}, workload.Container{Name: "more"})
	p.CPULimit, p.CPURequest, p.Scheduled = 4000, 4000, 4000
	p = placed(p, "app", "2-3,10-11", "0", "more", "2-3,10-11", "0")
	n := place.New(two().facts(t))
	n.Pods.Put(placed(pod("b", 2, app("app", 1)), "app", "10", "0"))
	n.Pods.Put(p)
	n.Pods.Observe(observed.Container{ID: "b1", PodUID: "b", Name: "app", Phase: observed.Running, CPUs: set(t, "10"), Given: set(t, "10"), Pinned: true})
	n.Pods.Observe(observed.Container{ID: "a1", PodUID: "a", Name: "more", Phase: observed.Running, CPUs: set(t, "3"), Given: set(t, "3"), Pinned: true})
	start(t, n, "a", "app")
	equal(t, "what both have", has(n), "a/app 0,3,8,11!; a1 0,3,8,11!; b1 10!")
	equal(t, "exclusive", n.Exclusive().String(), "0,3,8,10-11")
}
