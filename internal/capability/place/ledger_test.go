package place_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Pods of one node are resized and moved at random, also both at once, while a scheduler fills the node. The agent
// restarts now and then, also between two writes. No CPU ever belongs to two pods, and bound pods have their CPUs,
// although scheduler and agent learn of changes late. Each check of a property makes twenty resizes. The default is 100
// checks; -rapid.checks=5000 makes 100,000 resizes.
func TestResizesAgainstTheLedger(t *testing.T) {
	checks, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	if err != nil {
		t.Fatal(err)
	}
	var sum ledgerCounts
	for seed := 0; sum.resizes < 20*checks; seed++ {
		l := newLedger(t, uint64(seed))
		for range 400 {
			l.step()
			l.check()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		l.quiet()
		if t.Failed() {
			t.Fatalf("seed %d, at its end", seed)
		}
		sum.add(l.counts)
	}
	t.Logf("%+v", sum)
	if sum.bound == 0 || sum.grown == 0 || sum.shrunk == 0 || sum.putOff == 0 || sum.later == 0 || sum.closed == 0 || sum.lost == 0 ||
		sum.away*20 < sum.asked || sum.refused == 0 || sum.withdrawn == 0 || sum.flipped == 0 || sum.halfway == 0 {
		t.Errorf("the histories say little: %+v", sum)
	}
	if sum.unplaced*1000 > sum.bound {
		t.Errorf("%d of %d bound pods found no room", sum.unplaced, sum.bound)
	}
}

// ledgerCounts counts the events of all histories. later: deferred resizes that found room. closed: times that the node
// took no pod during a resize. lost: bindings given up. moved: pods to which the agent gave other CPUs. unplaced: pods
// without room, because a resize between reservation and binding took it. asked: requested moves. away: moves carried
// out. refused and withdrawn: requests that ended otherwise. flipped: changes of a pod's movable annotation. halfway:
// agents that ended between two writes.
type ledgerCounts struct {
	bound, resizes, grown, shrunk, putOff, later, closed, lost, moved, unplaced int
	asked, away, refused, withdrawn, flipped, halfway                           int
}

func (c *ledgerCounts) add(o ledgerCounts) {
	c.bound, c.resizes, c.grown, c.shrunk = c.bound+o.bound, c.resizes+o.resizes, c.grown+o.grown, c.shrunk+o.shrunk
	c.putOff, c.later, c.closed, c.lost = c.putOff+o.putOff, c.later+o.later, c.closed+o.closed, c.lost+o.lost
	c.moved, c.unplaced = c.moved+o.moved, c.unplaced+o.unplaced
	c.asked, c.away, c.refused = c.asked+o.asked, c.away+o.away, c.refused+o.refused
	c.withdrawn, c.flipped, c.halfway = c.withdrawn+o.withdrawn, c.flipped+o.flipped, c.halfway+o.halfway
}

// ledger is a node with its API server, scheduler, kubelet and agent.
type ledger struct {
	t      *testing.T
	random *rand.Rand
	facts  place.Facts
	agent  *place.Node
	// api has the pods of the API server, which the scheduler also sees.
	api map[string]workload.Pod
	// watch has the changes that the agent has not seen, in order. A nil pod is a deletion.
	watch []change
	// seen has the pods that the agent knows, boxes the running containers.
	seen  map[string]workload.Pod
	boxes map[string]observed.Container
	// writes has annotations on their way to the API server.
	writes []change
	// flying has pods that are reserved but not bound.
	flying []flying
	ids    int
	counts ledgerCounts
}

type change struct {
	uid string
	pod *workload.Pod
	// key and text are an annotation to write. An empty text removes it.
	key, text string
}

type flying struct {
	pod  workload.Pod
	held placement.Held
}

func newLedger(t *testing.T, seed uint64) *ledger {
	l := &ledger{
		t: t, random: rand.New(rand.NewPCG(seed, 11)), facts: two().facts(t),
		api: map[string]workload.Pod{}, seen: map[string]workload.Pod{}, boxes: map[string]observed.Container{},
	}
	l.agent = place.New(l.facts)
	return l
}

func (l *ledger) step() {
	switch n := l.random.IntN(112); {
	case n >= 100:
		l.repack()
	case n < 14:
		l.reserve()
	case n < 28:
		l.bind()
	case n < 46:
		l.resize()
	case n < 66:
		l.kubelet()
	case n < 76:
		l.write()
	case n < 92:
		l.deliver()
	case n < 98:
		l.remove()
	default:
		l.restart()
	}
}

// pick returns a random pod of the API server for which passes is true.
func (l *ledger) pick(passes func(workload.Pod) bool) (workload.Pod, bool) {
	var all []string
	for _, uid := range slices.Sorted(maps.Keys(l.api)) {
		if passes(l.api[uid]) {
			all = append(all, uid)
		}
	}
	if len(all) == 0 {
		return workload.Pod{}, false
	}
	return l.api[all[l.random.IntN(len(all))]], true
}

// store changes a pod at the API server.
func (l *ledger) store(p workload.Pod) {
	l.api[p.UID] = p
	l.watch = append(l.watch, change{uid: p.UID, pod: &p})
}

// occupy returns the scheduler's view of the node.
func (l *ledger) occupy() (placement.Node, placement.Occupancy) {
	n := placement.Node{Machine: l.facts.Machine, AllocatableMilli: l.facts.AllocatableMilli}
	var o placement.Occupancy
	for _, uid := range slices.Sorted(maps.Keys(l.api)) {
		p := l.api[uid]
		pin, _ := workload.PinningOf(p)
		held := placement.Counted(l.facts.Machine, pin, placement.Believed(p.Annotations[v1alpha1.AnnotationPlacement]))
		o.Add(l.facts.Machine, &held)
		n.RequestedMilli += p.Scheduled
	}
	for i := range l.flying {
		o.Add(l.facts.Machine, &l.flying[i].held)
		n.RequestedMilli += l.flying[i].pod.Scheduled
	}
	return n, o
}

func (l *ledger) reserve() {
	l.ids++
	uid := fmt.Sprintf("p%03d", l.ids)
	p := pod(uid, l.ids, app("app", int64(1+l.random.IntN(4))))
	p.Scheduled, p.Containers[0].CPURequest = 500, 500
	pin, _ := workload.PinningOf(p)
	ask := placement.AskOf(pin)
	n, o := l.occupy()
	d, refusal := placement.Decide(new(alloc.Scratch), n, &o, &ask)
	switch {
	case refusal.Code == placement.Resizing:
		l.counts.closed++
	case refusal.OK():
		if d.Answer.CPUs.Intersects(o.Taken.CPUs()) {
			l.t.Errorf("pod %s is given CPUs %s of %s", uid, d.Answer.CPUs, o.Taken.CPUs())
		}
		placed := d.Annotation(&ask, l.facts.Hash)
		l.flying = append(l.flying, flying{with(p, v1alpha1.AnnotationPlacement, placed.Encode()), d.Held(&ask)})
	}
}

func (l *ledger) bind() {
	if len(l.flying) == 0 {
		return
	}
	i := l.random.IntN(len(l.flying))
	f := l.flying[i]
	l.flying = slices.Delete(l.flying, i, i+1)
	_, o := l.occupy()
	o.Overlaps = cpuset.Set{}
	if o.Add(l.facts.Machine, &f.held); !o.Sound(l.facts.Machine) {
		l.counts.lost++
		return
	}
	l.counts.bound++
	l.outOfMoves(f.pod)
	l.store(f.pod)
}

// outOfMoves checks that the scheduler binds no pod to the CPUs of a running move. A move of a pod that was resized on
// the way ends once its placement has another number of CPUs.
func (l *ledger) outOfMoves(bound workload.Pod) {
	cpus := set(l.t, placement.Believed(bound.Annotations[v1alpha1.AnnotationPlacement]).Containers["app"].CPUs)
	for _, d := range l.agent.Desired() {
		m, _ := v1alpha1.DecodeMove(l.api[d.PodUID].Annotations[v1alpha1.AnnotationMove])
		if m.V == 0 || m.Refused != "" {
			continue
		}
		from, to := set(l.t, m.From), set(l.t, m.To)
		placed := set(l.t, placement.Believed(l.api[d.PodUID].Annotations[v1alpha1.AnnotationPlacement]).Containers["app"].CPUs)
		if from.Size() != to.Size() || d.CPUs != from && d.CPUs != to || placed.Size() != to.Size() {
			continue // no move, or the pod was resized
		}
		if has := d.CPUs.Union(l.boxes[d.ContainerID].CPUs); has.Intersects(cpus) {
			l.t.Errorf("pod %s is bound to %s while %s moves from %s to %s", bound.UID, cpus, d.PodUID, m.From, m.To)
		}
	}
}

// resize requests a resize as a client does, after the annotation of the last resize is written.
func (l *ledger) resize() {
	p, found := l.pick(func(p workload.Pod) bool {
		return !p.Resizing && !l.writing(p)
	})
	if !found {
		return
	}
	l.counts.resizes++
	c := p.Containers[0]
	stands := cmp.Or(c.CPUStands, c.CPULimit)
	p.Changed, p.Resizing, p.Infeasible = true, true, false
	c.CPULimit = 1000 * int64(1+l.random.IntN(7))
	if l.random.IntN(40) == 0 {
		c.CPULimit = 20_000 // more than the node has
	}
	c.CPUHeld, c.CPUStands = 0, stands
	if c.CPULimit == stands {
		c.CPUStands = 0
	}
	p.Containers, p.Labels = []workload.Container{c}, nil
	l.store(p)
}

// writing reports whether an annotation of the pod is on its way.
func (l *ledger) writing(p workload.Pod) bool {
	return slices.ContainsFunc(l.writes, func(w change) bool { return w.uid == p.UID })
}

// repack requests a move of a pod, to CPUs that are free for the scheduler or to any CPUs. For a pod with a move it may
// withdraw the move, flip whether the pod is movable, or remove an answer.
func (l *ledger) repack() {
	p, found := l.pick(func(p workload.Pod) bool { return !l.writing(p) })
	if !found {
		return
	}
	if text := p.Annotations[v1alpha1.AnnotationMove]; text != "" {
		m, _ := v1alpha1.DecodeMove(text)
		switch {
		case m.Refused != "":
			l.counts.refused++
			l.store(without(p, v1alpha1.AnnotationMove))
		case l.random.IntN(4) == 0:
			l.counts.flipped++
			flip := map[string]string{v1alpha1.Movable: v1alpha1.NotMovable, v1alpha1.NotMovable: v1alpha1.Movable}
			l.store(with(p, v1alpha1.AnnotationMovable, flip[p.Annotations[v1alpha1.AnnotationMovable]]))
		case l.random.IntN(3) == 0 && !m.Withdrawn:
			l.counts.withdrawn++
			m.Withdrawn = true
			l.store(with(p, v1alpha1.AnnotationMove, m.Encode()))
		}
		return
	}
	has := set(l.t, placement.Believed(p.Annotations[v1alpha1.AnnotationPlacement]).Containers["app"].CPUs)
	_, o := l.occupy()
	from := l.facts.Machine.Topology().Online.Difference(o.Taken.CPUs())
	if l.random.IntN(4) == 0 {
		from = l.facts.Machine.Topology().Online
	}
	first := l.random.IntN(8) // cores of two threads, n and n+8
	var to cpuset.Set
	for i := range 8 {
		for _, cpu := range [2]int{(first + i) % 8, (first+i)%8 + 8} {
			if from.Contains(cpu) && to.Size() < has.Size() {
				to = to.Add(cpu)
			}
		}
	}
	if to.IsEmpty() {
		return
	}
	l.counts.asked++
	l.store(moves(p, v1alpha1.Move{From: has.String(), To: to.String()}))
}

// without returns the pod without an annotation.
func without(p workload.Pod, key string) workload.Pod {
	p.Annotations = maps.Clone(p.Annotations)
	delete(p.Annotations, key)
	return p
}

// kubelet continues a resize: it defers the resize, carries it out, or reports it done.
func (l *ledger) kubelet() {
	p, found := l.pick(func(p workload.Pod) bool { return p.Resizing || p.Held() })
	if !found {
		return
	}
	p.Containers = slices.Clone(p.Containers)
	c := &p.Containers[0]
	switch n := l.random.IntN(10); {
	case n < 2 && p.Resizing && p.Labels == nil:
		p.Resizing, p.Infeasible, c.CPUHeld = false, n == 0, c.CPUStands
		l.store(p)
	case p.Infeasible:
	case p.Labels == nil:
		l.ask(p.CarriedOut())
	default:
		p.Resizing, c.CPUHeld, c.CPUStands, p.Labels = false, 0, 0, nil
		l.store(p)
	}
}

// ask is the runtime's question about a resize. The agent first waits until it knows the new limits.
func (l *ledger) ask(p workload.Pod) {
	for {
		known, found := l.seen[p.UID]
		if found && known.Containers[0].CPULimit == p.Containers[0].CPULimit {
			break
		}
		if len(l.watch) == 0 {
			l.t.Fatalf("pod %s never comes", p.UID)
		}
		l.deliver()
	}
	if _, runs := l.boxes[p.UID]; !runs {
		return
	}
	p.Resizing, p.Labels = true, map[string]string{"runtime": "asked"}
	was, before := l.boxes[p.UID].CPUs, l.desired(p.UID)
	l.agent.Pods.Put(p)
	a, err := l.agent.Resize(p.UID)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, one := range slices.Concat(a.Others, a.Own) {
		l.move(one)
	}
	switch now := l.boxes[p.UID].CPUs; {
	case now.Size() > was.Size():
		l.counts.grown++
	case now.Size() < was.Size():
		l.counts.shrunk++
	case int64(now.Size())*1000 != p.Containers[0].CPULimit:
		l.counts.putOff++
	}
	if now := l.boxes[p.UID].CPUs; !before.IsSubsetOf(now) && !now.IsSubsetOf(before) {
		l.t.Errorf("pod %s is resized from %s to %s", p.UID, before, now)
	}
	l.report()
	l.api[p.UID] = p // the kubelet's own record, without an event
}

// desired returns the CPUs that the agent has decided for a container. During a move the container may not be there
// yet.
func (l *ledger) desired(id string) cpuset.Set {
	for _, d := range l.agent.Desired() {
		if d.ContainerID == id {
			return d.CPUs
		}
	}
	return cpuset.Set{}
}

// move applies the desired CPUs of a container, and checks that no other pinned container is on them.
func (l *ledger) move(d place.Desired) {
	c := l.boxes[d.ContainerID]
	c.CPUs, c.Given, c.Pinned = d.CPUs, d.CPUs, d.Pinned
	for _, other := range l.boxes {
		if other.ID != c.ID && c.Pinned && other.Pinned && other.CPUs.Intersects(c.CPUs) {
			l.t.Errorf("container %s comes to %s while %s is on %s", c.ID, c.CPUs, other.ID, other.CPUs)
		}
	}
	l.boxes[c.ID] = c
	l.agent.Pods.Observe(c)
}

// apply applies all desired CPUs, narrowing first as the agent does. The agent may end in between.
func (l *ledger) apply() {
	all := l.agent.Desired()
	for _, narrow := range []bool{true, false} {
		for _, d := range all {
			if was := l.boxes[d.ContainerID].CPUs; d.CPUs.IsSubsetOf(was) == narrow && d.CPUs != was {
				if l.random.IntN(20) == 0 {
					l.counts.halfway++
					l.restart()
					return
				}
				if !was.IsSubsetOf(d.CPUs) && !narrow {
					l.counts.away++
				}
				if d.CPUs.Size() > was.Size() && was.IsSubsetOf(d.CPUs) {
					l.counts.later++
				}
				l.move(d)
			}
		}
	}
	l.report()
}

// report collects the annotations that the agent writes.
func (l *ledger) report() {
	for _, e := range l.agent.Events() {
		if e.Annotation != nil {
			l.writes = append(l.writes, change{uid: e.PodUID, key: v1alpha1.AnnotationPlacement, text: e.Annotation.Encode()})
		}
		if e.Answered {
			answer := change{uid: e.PodUID, key: v1alpha1.AnnotationMove}
			if e.Refused != nil {
				answer.text = e.Refused.Encode()
			}
			l.writes = append(l.writes, answer)
		}
	}
}

func (l *ledger) write() {
	if len(l.writes) == 0 {
		return
	}
	w := l.writes[0]
	l.writes = l.writes[1:]
	p, found := l.api[w.uid]
	switch {
	case found && w.text == "":
		l.store(without(p, w.key))
	case found:
		l.store(with(p, w.key, w.text))
	}
}

// deliver shows the agent the next change, and starts the container of a new pod.
func (l *ledger) deliver() {
	if len(l.watch) == 0 {
		return
	}
	c := l.watch[0]
	l.watch = l.watch[1:]
	if c.pod == nil {
		delete(l.seen, c.uid)
		delete(l.boxes, c.uid)
		l.agent.Pods.Drop(c.uid)
		l.agent.Pods.RemovePod(c.uid)
		l.apply()
		return
	}
	p := *c.pod
	l.seen[p.UID] = p
	l.agent.Pods.Put(p)
	if _, runs := l.boxes[p.UID]; !runs {
		l.start(p)
	}
	l.apply()
}

func (l *ledger) start(p workload.Pod) {
	if _, there := l.api[p.UID]; !there {
		return // the kubelet starts no pod that is deleted
	}
	a, err := l.agent.Create(p.UID, "app", p.UID)
	if err != nil {
		l.t.Fatal(err)
	}
	if len(a.Own) != 1 || !a.Own[0].Pinned { // the pod's owner deletes it
		l.counts.unplaced++
		delete(l.api, p.UID)
		l.agent.Pods.Remove(p.UID)
		l.watch = append(l.watch, change{uid: p.UID})
		return
	}
	for _, one := range a.Others {
		l.move(one)
	}
	l.boxes[p.UID] = observed.Container{ID: p.UID, PodUID: p.UID, Name: "app", Phase: observed.Running}
	l.move(a.Own[0])
	placed := placement.Believed(p.Annotations[v1alpha1.AnnotationPlacement])
	if a.Own[0].CPUs != set(l.t, placed.Containers["app"].CPUs) {
		l.counts.moved++
	}
}

// remove ends a pod. The API server deletes the pod after the kubelet has stopped it, and the agent learns of it at
// once.
func (l *ledger) remove() {
	if p, found := l.pick(func(workload.Pod) bool { return true }); found {
		delete(l.api, p.UID)
		l.watch = append(l.watch, change{uid: p.UID})
		for len(l.watch) > 0 {
			l.deliver()
		}
	}
}

// restart starts a new agent, which sees the running containers and the pods delivered so far.
func (l *ledger) restart() {
	l.agent = place.New(l.facts)
	l.agent.Pods.Set(slices.Collect(maps.Values(l.seen)))
	l.agent.Pods.SetContainers(slices.Collect(maps.Values(l.boxes)))
	l.apply()
}

// check checks that no CPU belongs to two pods, as desired and as applied.
func (l *ledger) check() {
	var used cpuset.Set
	for _, d := range l.agent.Desired() {
		if d.Pinned && d.CPUs.Intersects(used) {
			l.t.Errorf("CPUs %s are given twice", d.CPUs.Intersect(used))
		}
		if d.Pinned {
			used = used.Union(d.CPUs)
		}
	}
	var runs cpuset.Set
	for _, c := range l.boxes {
		if c.CPUs.Intersects(runs) {
			l.t.Errorf("two containers run on CPUs %s", c.CPUs.Intersect(runs))
		}
		runs = runs.Union(c.CPUs)
	}
}

// quiet finishes all pending work, and checks that annotations and CPUs agree.
func (l *ledger) quiet() {
	for len(l.watch)+len(l.writes) > 0 {
		for len(l.watch) > 0 {
			l.deliver()
		}
		l.write()
	}
	var used cpuset.Set
	for uid, p := range l.api {
		placed := placement.Believed(p.Annotations[v1alpha1.AnnotationPlacement])
		cpus := set(l.t, placed.Containers["app"].CPUs)
		if cpus != l.boxes[uid].CPUs || cpus.Intersects(used) {
			l.t.Errorf("pod %s has %s by its annotation, and %s", uid, cpus, l.boxes[uid].CPUs)
		}
		if m, _ := v1alpha1.DecodeMove(p.Annotations[v1alpha1.AnnotationMove]); m.V != 0 && m.Refused == "" && !p.Resizing {
			l.t.Errorf("pod %s: the move %s has no answer", uid, m.Encode())
		}
		used = used.Union(cpus)
	}
}
