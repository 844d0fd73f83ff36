package place_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// world is the real node: pods of the API, and containers with the CPUs that the kernel lets them use. It knows the
// rules only by their outcome.
type world struct {
	t      *testing.T
	shape  shape
	facts  place.Facts
	node   *place.Node
	pods   map[string]workload.Pod
	gone   map[string]bool
	boxes  map[string]observed.Container // by ID, running and stopped
	ids    int
	clock  int                      // seconds
	before map[string]place.Desired // desired before the step, by container
	// moved is true when the step may move running containers, fresh when another Node decides since.
	moved, fresh bool
	// loose has pods whose CPUs may differ from their limits until they match. again has the pods that the Node
	// considers again in this step.
	loose, again map[string]bool
	// resized has pods that were resized. A resize without room may be carried out later.
	resized map[string]bool
	// early has pods that only the runtime has reported. known has pods that became known in this step, and guessed all
	// pods that were ever early.
	early   map[string]workload.Pod
	known   map[string]bool
	guessed map[string]bool
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, shape: two(), pods: map[string]workload.Pod{}, gone: map[string]bool{},
		boxes: map[string]observed.Container{}, loose: map[string]bool{}, again: map[string]bool{}, resized: map[string]bool{},
		early: map[string]workload.Pod{}, known: map[string]bool{}, guessed: map[string]bool{},
	}
	w.facts = w.shape.facts(t)
	w.node = place.New(w.facts)
	w.node.Now(0)
	return w
}

func (w *world) online() cpuset.Set { return w.facts.Machine.Topology().Online }

// all returns everything that is desired, by container ID.
func (w *world) all() map[string]place.Desired {
	desired := map[string]place.Desired{}
	for _, one := range w.node.Desired() {
		desired[one.ContainerID] = one
	}
	return desired
}

func (w *world) observe(c observed.Container) {
	w.boxes[c.ID] = c
	w.node.Pods.Observe(c)
}

// some picks a key of a map, "" where it is empty.
func some[V any](r *rapid.T, m map[string]V, what string) string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return ""
	}
	slices.Sort(keys)
	return rapid.SampledFrom(keys).Draw(r, what)
}

// draw returns up to n CPUs of a set.
func draw(r *rapid.T, from cpuset.Set, n int) cpuset.Set {
	var cpus cpuset.Set
	for n > 0 && !from.IsEmpty() {
		list := slices.Collect(from.All())
		cpu := rapid.SampledFrom(list).Draw(r, "cpu")
		cpus, from, n = cpus.Add(cpu), from.Remove(cpu), n-1
	}
	return cpus
}

// schedule adds a pod with a placement that fits, with an arbitrary one, or without.
func (w *world) schedule(r *rapid.T) {
	uid := fmt.Sprintf("p%d", w.ids)
	w.ids++
	limit := rapid.Int64Range(1, 6).Draw(r, "limit")
	p := pod(uid, rapid.IntRange(0, 20).Draw(r, "since"), app("app", limit))
	kind := rapid.SampledFrom([]string{"fits", "forged", "unplaced", "plain", "required", "two", "per pod", "alone", "burst", "burst placed"}).Draw(r, "kind")
	var want cpuset.Set
	switch kind {
	case "plain":
		p = plain(uid, rapid.IntRange(0, 20).Draw(r, "since"), app("app", 0))
	case "two":
		more := app("more", rapid.Int64Range(1, 3).Draw(r, "more"))
		more.Sidecar = rapid.Bool().Draw(r, "sidecar")
		p = pod(uid, rapid.IntRange(0, 20).Draw(r, "since"), app("app", limit), more)
		p.Init = []workload.Container{app("init", 1)}
		if rapid.Bool().Draw(r, "forged") {
			p = placed(p, "app", draw(r, set(w.t, "0-15"), int(limit)).String(), "0-1", "more", draw(r, set(w.t, "0-15"), int(more.CPULimit/1000)).String(), "0-1")
		}
	case "per pod":
		p = pod(uid, rapid.IntRange(0, 20).Draw(r, "since"), workload.Container{Name: "app"}, workload.Container{Name: "more"})
		p.CPULimit, p.CPURequest, p.Scheduled = limit*1000, limit*1000, limit*1000
	case "alone":
		key := rapid.SampledFrom([]string{"preferred", "required"}).Draw(r, "strength")
		p = with(p, v1alpha1.AnnotationResourceSpec, `{"`+key+`CPUExclusivePolicy":"PCPULevel"}`)
	case "burst", "burst placed":
		p = with(p, v1alpha1.AnnotationCPUPolicy, v1alpha1.CPUPolicyStaticBurst)
		if limit > 4 || kind == "burst" {
			break
		}
		if cpus := draw(r, set(w.t, rapid.SampledFrom([]string{"0-3,8-11", "4-7,12-15"}).Draw(r, "node")).Intersect(w.node.Snapshot().Free), int(limit)); cpus.Size() == int(limit) {
			want = cpus
			p = bursting(p, "app", cpus.String(), "0-1")
		}
	case "required":
		p = with(p, v1alpha1.AnnotationNUMATopologySpec, `{"numaTopologyPolicy":"SingleNUMANode"}`)
	case "forged":
		p = placed(p, "app", draw(r, set(w.t, "0-17"), int(limit)).String(), rapid.SampledFrom([]string{"0", "1", "0-1"}).Draw(r, "mems"))
	case "fits":
		free := w.node.Snapshot().Free
		cpus := draw(r, free, int(limit))
		if cpus.Size() == int(limit) {
			want = cpus
			p = placed(p, "app", cpus.String(), "0-1")
		}
	}
	w.pods[uid] = p
	if rapid.Bool().Draw(r, "early") {
		w.early[uid], w.guessed[uid] = early(p, w.promised(p)...), true
	} else {
		w.node.Pods.Put(p)
	}
	if !want.IsEmpty() {
		if got := w.create(r, uid, "app"); got != want {
			r.Fatalf("pod %s was placed on %s, where there is room, and has %s", uid, want, got)
		}
	}
}

func (w *world) hasCore(cpus cpuset.Set) bool {
	return slices.ContainsFunc(w.facts.Machine.Topology().Cores, func(c topology.Core) bool { return c.CPUs.IsSubsetOf(cpus) })
}

// create starts one container, and checks that it shares no exclusive CPUs with another one.
func (w *world) create(r *rapid.T, uid, name string) cpuset.Set {
	w.ids++
	id := fmt.Sprintf("c%d", w.ids)
	w.again[uid] = true
	w.meet(uid, name)
	a, err := w.node.Create(uid, name, id)
	if errors.Is(err, place.ErrRefused) && w.leaving() {
		w.clock += 30
		w.node.Now(time.Duration(w.clock) * time.Second)
		a, err = w.node.Create(uid, name, id)
	}
	if errors.Is(err, place.ErrRefused) {
		if all := w.pods[uid].Annotations; all[v1alpha1.AnnotationNUMATopologySpec] == "" && !strings.Contains(all[v1alpha1.AnnotationResourceSpec], "required") {
			r.Fatalf("pod %s requires nothing: %v", uid, err)
		}
		return cpuset.Set{}
	}
	if err != nil {
		r.Fatal(err)
	}
	for _, other := range a.Others {
		c := w.boxes[other.ContainerID]
		c.CPUs, c.Given, c.Pinned = other.CPUs, other.CPUs, other.Pinned
		w.boxes[c.ID] = c
	}
	c := observed.Container{ID: id, PodUID: uid, Name: name, Phase: observed.Running, CPUs: w.online()}
	own := place.Desired{}
	if len(a.Own) > 0 {
		own = a.Own[0]
		c.CPUs, c.Given, c.Pinned = own.CPUs, own.CPUs, own.Pinned
	}
	desired := w.all()
	for _, other := range w.boxes {
		one := desired[other.ID]
		if other.Phase == observed.Stopped || other.PodUID == uid && one.Pinned {
			continue
		}
		if own.Pinned && other.CPUs.Intersects(reserved(own)) {
			r.Fatalf("container %s of pod %s starts on its own CPUs %s while %s of %s runs on %s", id, uid, c.CPUs, other.ID, other.PodUID, other.CPUs)
		}
		if one.Pinned && other.CPUs == one.CPUs && c.CPUs.Intersects(reserved(one)) {
			r.Fatalf("container %s of pod %s starts on %s, of which %s are pod %s's", id, uid, c.CPUs, other.CPUs, other.PodUID)
		}
	}
	w.boxes[id] = c
	if rapid.Bool().Draw(r, "seen at once") {
		w.node.Pods.Observe(c)
	}
	return own.CPUs
}

// leaving reports whether a container of an ended or deleted pod still runs.
func (w *world) leaving() bool {
	for _, c := range w.live() {
		if w.gone[c.PodUID] || w.pods[c.PodUID].Ended {
			return true
		}
	}
	return false
}

// apply applies the desired CPUs to all containers.
func (w *world) apply() {
	desired := w.all()
	for _, c := range w.boxes {
		one, found := desired[c.ID]
		switch {
		case c.Phase == observed.Stopped:
			continue
		case found:
			c.CPUs, c.Given, c.Pinned = one.CPUs, one.CPUs, one.Pinned
		default:
			c.CPUs, c.Given, c.Pinned = w.online(), cpuset.Set{}, false
		}
		w.observe(c)
	}
	maps.DeleteFunc(w.loose, func(uid string, _ bool) bool { return !w.gone[uid] && w.full(uid, desired) })
}

// full reports whether every container of the pod with a limit has as many exclusive CPUs as its limit.
func (w *world) full(uid string, desired map[string]place.Desired) bool {
	p, has := w.pods[uid], map[string]bool{}
	for _, one := range desired {
		if own := int64(reserved(one).Size()) * 1000; one.PodUID == uid && one.Pinned && own == w.limit(one) {
			has[one.Container] = true
		}
	}
	for _, c := range p.Containers {
		if (c.CPULimit > 0 || p.CPULimit > 0) && !has[c.Name] {
			return false
		}
	}
	return true
}

// restart returns a new Node that sees the same world in any order.
func (w *world) restart(r *rapid.T) *place.Node {
	n := place.New(w.facts)
	n.Now(time.Duration(w.clock) * time.Second)
	var calls []func()
	for uid, p := range w.pods {
		if !w.gone[uid] {
			calls = append(calls, func() { n.Pods.Put(p) })
		}
	}
	for _, c := range w.boxes {
		calls = append(calls, func() { n.Pods.Observe(c) })
	}
	for i := range calls { // maps have no order: rapid shuffles
		at := rapid.IntRange(i, len(calls)-1).Draw(r, "order")
		calls[i], calls[at] = calls[at], calls[i]
	}
	for _, call := range calls {
		call()
	}
	return n
}

// write writes the annotations that the Node reports.
func (w *world) write() {
	for _, one := range w.node.Events() {
		if _, found := w.early[one.PodUID]; found {
			w.t.Fatalf("events about a guess: %+v", one)
		}
		if p, found := w.pods[one.PodUID]; found && one.Answered {
			w.pods[one.PodUID] = without(p, v1alpha1.AnnotationMove)
			if !w.gone[one.PodUID] {
				w.node.Pods.Put(w.pods[one.PodUID])
			}
		}
		if p, found := w.pods[one.PodUID]; found && one.Annotation != nil {
			p = with(p, v1alpha1.AnnotationPlacement, one.Annotation.Encode())
			w.pods[one.PodUID] = p
			if !w.gone[one.PodUID] {
				w.node.Pods.Put(p)
			}
		}
	}
}

// remembers checks that a remembered snapshot is what would be made again.
func remembers(r *rapid.T, n *place.Node) {
	if anew, remembered := place.SnapshotAnew(n), n.Snapshot(); !reflect.DeepEqual(anew, remembered) {
		r.Fatalf("the remembered snapshot is %+v, made anew %+v", remembered, anew)
	}
}

// check checks the invariants after every step.
func (w *world) check(r *rapid.T) {
	desired := w.all()
	owner, pinned := map[int]string{}, cpuset.Set{}
	for _, one := range desired {
		if !one.Pinned {
			continue
		}
		own := reserved(one)
		pinned = pinned.Union(own)
		_, guess := w.early[one.PodUID]
		quota := one.Container == "init" || w.bursts(one.PodUID)
		if !own.IsSubsetOf(w.facts.Machine.Pinnable()) || own.IsEmpty() || !guess && !w.gone[one.PodUID] && !w.pods[one.PodUID].Ended && one.NoQuota == quota {
			r.Fatalf("desired %+v", one)
		}
		for cpu := range own.All() {
			if other := owner[cpu]; other != "" && other != one.PodUID {
				r.Fatalf("CPU %d is pod %s's and pod %s's", cpu, other, one.PodUID)
			}
			owner[cpu] = one.PodUID
		}
		partly := one.Container == "init" && w.guessed[one.PodUID] // there may be no room for all that it ends before
		if has, want := int64(own.Size())*1000, w.limit(one); !guess && !w.loose[one.PodUID] && (has > want || has < want && !partly) {
			r.Fatalf("container %s of pod %s has CPUs %s for a limit of %d", one.Container, one.PodUID, one.CPUs, want)
		}
	}
	w.mates(r, desired)
	w.borrowed(r, desired)
	remembers(r, w.node)
	pool, s := w.node.Pool(), w.node.Snapshot()
	if pool.Intersects(pinned) || !w.hasCore(pool) || pool.Union(s.Exclusive) != w.facts.Machine.Pinnable() || pool.Intersects(s.Exclusive) {
		r.Fatalf("pool %s, pinned %s, exclusive %s", pool, pinned, s.Exclusive)
	}
	most := 0 // of any CPUs that leave a whole core
	for _, core := range w.facts.Machine.Topology().Cores {
		if core.CPUs.IsSubsetOf(pool) {
			most = max(most, pool.Size()-core.CPUs.Size())
		}
	}
	if s.Free.Size() != most || !s.Free.IsSubsetOf(pool) {
		r.Fatalf("free %s of the pool %s, which could give %d CPUs", s.Free, pool, most)
	}
	for _, c := range w.boxes {
		one, found := desired[c.ID]
		if found != (c.Phase != observed.Stopped && !s.Exclusive.IsEmpty()) {
			r.Fatalf("container %s: desired %v %+v", c.ID, found, one)
		}
		if found && !one.Pinned && one.CPUs != pool {
			r.Fatalf("container %s has %s of the pool %s", c.ID, one.CPUs, pool)
		}
	}
	for id, was := range w.before {
		if now, found := desired[id]; was.Pinned && found && !w.moved && reserved(now) != reserved(was) {
			was.CPUs, now.CPUs = reserved(was), reserved(now)
			if w.between(was.PodUID, now.CPUs) {
				continue // it moves
			}
			if w.gone[was.PodUID] && w.bursts(was.PodUID) {
				continue // after a restart its borrowed CPUs are unknown
			}
			if w.known[was.PodUID] && was.Container == "init" {
				continue // it was taken for an app container
			}
			if len(w.known) > 0 && w.loose[was.PodUID] {
				continue // lacks CPUs, no core is left, and a pod that became known may precede it
			}
			if w.resized[was.PodUID] && was.CPUs.IsSubsetOf(now.CPUs) && int64(now.CPUs.Size())*1000 == w.limit(was) {
				continue // a deferred resize has room now
			}
			if w.loose[was.PodUID] && (w.again[was.PodUID] || w.fresh || w.moving(was.PodUID)) && (was.CPUs.IsSubsetOf(now.CPUs) || was.Container == "init" || int64(was.CPUs.Size())*1000 < w.limit(was)) {
				continue // it lacks CPUs and cannot grow: it is placed again
			}
			r.Fatalf("container %s of pod %s moved from %s to %s", id, was.PodUID, was.CPUs, now.CPUs)
		}
	}
	w.before, w.moved, w.fresh = desired, false, false
	clear(w.known)
	clear(w.again)
}

// move requests a move of a pod to free CPUs or to any CPUs. Some requests are already withdrawn.
func (w *world) move(r *rapid.T) {
	uid := some(r, w.present(), "pod")
	if _, guess := w.early[uid]; guess || uid == "" || w.moving(uid) {
		return
	}
	var has cpuset.Set
	for _, one := range w.all() {
		if one.Pinned && one.PodUID == uid {
			has = has.Union(reserved(one))
		}
	}
	from := w.online()
	if rapid.Bool().Draw(r, "free") {
		from = w.node.Snapshot().Free.Union(has)
	}
	if to := draw(r, from, has.Size()); !has.IsEmpty() && !to.IsEmpty() {
		w.put(moves(w.pods[uid], v1alpha1.Move{From: has.String(), To: to.String(), Withdrawn: rapid.IntRange(0, 9).Draw(r, "withdrawn") == 0}))
	}
}

// moving reports whether a move of the pod is requested.
func (w *world) moving(uid string) bool {
	return w.pods[uid].Annotations[v1alpha1.AnnotationMove] != ""
}

// between reports whether the pod may have these CPUs during its move.
func (w *world) between(uid string, cpus cpuset.Set) bool {
	m, _ := v1alpha1.DecodeMove(w.pods[uid].Annotations[v1alpha1.AnnotationMove])
	return w.moving(uid) && cpus.IsSubsetOf(set(w.t, m.From).Union(set(w.t, m.To)))
}

// limit returns the CPUs that a pinned container is entitled to, in thousandths.
func (w *world) limit(one place.Desired) int64 {
	p, sum := w.pods[one.PodUID], int64(0)
	for _, c := range p.Containers {
		if c.Name == one.Container && c.CPULimit > 0 {
			return c.CPULimit
		}
		if !c.Sidecar {
			sum += c.CPULimit
		}
	}
	return max(p.CPULimit, sum)
}

// mates checks that containers of one pod share CPUs only where they may.
func (w *world) mates(r *rapid.T, desired map[string]place.Desired) {
	for _, a := range desired {
		for _, b := range desired {
			if _, guess := w.early[a.PodUID]; guess || a.PodUID != b.PodUID || a.Container == b.Container || !a.Pinned || !b.Pinned {
				continue
			}
			apart := w.pods[a.PodUID].CPULimit == 0 && (a.Container != "init" || b.Container == "more" && sidecar(w.pods[a.PodUID])) &&
				(b.Container != "init" || a.Container == "more" && sidecar(w.pods[a.PodUID]))
			if apart == reserved(a).Intersects(reserved(b)) {
				r.Fatalf("pod %s: %s has %s and %s has %s", a.PodUID, a.Container, a.CPUs, b.Container, b.CPUs)
			}
		}
	}
}

func sidecar(p workload.Pod) bool {
	return slices.ContainsFunc(p.Containers, func(c workload.Container) bool { return c.Name == "more" && c.Sidecar })
}

// live returns the running containers.
func (w *world) live() map[string]observed.Container {
	live := map[string]observed.Container{}
	for id, c := range w.boxes {
		if c.Phase != observed.Stopped {
			live[id] = c
		}
	}
	return live
}

func (w *world) present() map[string]workload.Pod {
	present := map[string]workload.Pod{}
	for uid, p := range w.pods {
		if !w.gone[uid] {
			present[uid] = p
		}
	}
	return present
}

func TestStateMachine(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		r.Repeat(map[string]func(*rapid.T){
			"schedule": w.schedule,
			"create": func(r *rapid.T) {
				if uid := some(r, w.present(), "pod"); uid != "" && !w.pods[uid].Ended {
					w.create(r, uid, rapid.SampledFrom([]string{"app", "more", "init"}).Draw(r, "name"))
				}
			},
			"debug": func(r *rapid.T) {
				if uid := some(r, w.present(), "pod"); uid != "" {
					w.create(r, uid, "debug")
				}
			},
			"apply": func(*rapid.T) { w.apply() },
			"write": func(*rapid.T) { w.write() },
			"lend":  w.lend,
			"move":  w.move,
			"crash": func(r *rapid.T) {
				if id := some(r, w.live(), "container"); id != "" {
					c := w.boxes[id]
					c.Phase = observed.Stopped
					w.observe(c)
				}
			},
			"remove": func(r *rapid.T) {
				if id := some(r, w.boxes, "container"); id != "" {
					delete(w.boxes, id)
					w.node.Pods.Remove(id)
				}
			},
			"end": func(r *rapid.T) {
				if uid := some(r, w.present(), "pod"); uid != "" {
					p := w.pods[uid]
					p.Ended = true
					w.put(p)
				}
			},
			"known": func(r *rapid.T) {
				if uid := some(r, w.early, "pod"); uid != "" && !w.gone[uid] {
					w.put(w.pods[uid])
				}
			},
			"drop": func(r *rapid.T) {
				if uid := some(r, w.present(), "pod"); uid != "" {
					w.gone[uid] = true
					w.node.Pods.Drop(uid)
				}
			},
			"offline": func(r *rapid.T) {
				w.shape.switched = draw(r, set(t, "0-15"), rapid.IntRange(0, 3).Draw(r, "cpus")).String()
				w.facts = w.shape.facts(t)
				w.node.SetFacts(w.facts)
				for _, c := range w.boxes {
					if c.CPUs = c.CPUs.Intersect(w.online()); c.CPUs.IsEmpty() {
						c.CPUs = w.online()
					}
					w.observe(c)
				}
				for uid := range w.pods {
					w.loose[uid] = true
				}
				w.moved = true
			},
			"resize": func(r *rapid.T) {
				uid := some(r, w.present(), "pod")
				if uid == "" || w.pods[uid].Ended || w.moving(uid) {
					return
				}
				if _, guess := w.early[uid]; guess || len(w.pods[uid].Containers) > 1 {
					return
				}
				p := resized(w.pods[uid], app("app", rapid.Int64Range(1, 6).Draw(r, "limit")))
				p.Resizing = rapid.Bool().Draw(r, "asked")
				had := w.before
				w.pods[uid] = p
				w.node.Pods.Put(p)
				if p.Resizing { // else the kubelet applied it, and the runtime did not ask
					a, err := w.node.Resize(uid)
					if err != nil {
						r.Fatal(err)
					}
					for _, one := range slices.Concat(a.Own, a.Others) {
						c := w.boxes[one.ContainerID]
						c.CPUs, c.Given, c.Pinned = one.CPUs, one.CPUs, one.Pinned
						w.boxes[c.ID] = c
					}
				}
				for id, now := range w.all() {
					was, found := had[id]
					if !found || now.PodUID != uid || !was.Pinned || !now.Pinned {
						continue
					}
					if was, now := reserved(was), reserved(now); !now.IsSubsetOf(was) && !was.IsSubsetOf(now) {
						r.Fatalf("resized from %s to %s", was, now)
					}
				}
				w.loose[uid], w.resized[uid] = true, true
				for id, one := range w.before {
					if one.PodUID == uid {
						delete(w.before, id)
					}
				}
			},
			"restart": func(r *rapid.T) {
				w.apply()
				w.write()
				w.apply()
				w.before = w.all()
				for uid := range w.early {
					w.known[uid] = true
				}
				maps.DeleteFunc(w.early, func(uid string, _ workload.Pod) bool { return !w.gone[uid] })
				one, other := w.restart(r), w.restart(r)
				if first, second := has(one), has(other); first != second {
					r.Fatalf("the order of calls counts:\n%s\n%s", first, second)
				}
				w.node, w.fresh = one, true
				for uid := range w.gone {
					if w.gone[uid] {
						w.loose[uid] = true
					}
				}
			},
			"": func(r *rapid.T) { w.check(r) },
		})
	})
}
