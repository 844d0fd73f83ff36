package trial

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/test/chance"
)

// quickStorm is a storm without an API server for pods and without waits: each event is one call into the real
// scheduler's parts. The test itself stores the pods, carries out bindings, and shows the changes to the scheduler.
type quickStorm struct {
	*storm
	b     *byHand
	board *board
	// pods are the stored pods. The board may show an earlier state of each.
	pods    []*entry
	byName  map[string]*entry
	flying  []*flyer
	version int
	full    map[string][]v1alpha1.NUMANode
	// specs are the topologies of the nodes as they are published now.
	specs map[string]v1alpha1.NodeTopologySpec
	// touched is the node whose pods changed in the last event.
	touched string
	bound   int
	// refused counts the reservations that Bind refused because it had no room for them.
	refused int
	// rivals counts the pods that the rival bound, and resizes the resizes for which the agent chose CPUs.
	rivals, resizes int
	// foreign has, of each node, the version of the latest change of its pods that the scheduler did not make.
	foreign map[string]int
	// landing is the pod that is being bound.
	landing *flyer
}

// entry is one pod: as it is stored, and as the scheduler saw it last.
type entry struct {
	stored, shown *v1.Pod
	// taken reports that the scheduler does not try the pod: it reserved CPUs for the pod, or has bound it.
	taken bool
	// resizing is the resize of the bound pod that is under way, or nil.
	resizing *resizing
	// resized reports that the pod's limits have changed: from then on its generation counts.
	resized bool
	// tries are the nodes on which it has a reservation, or a binding that may have gone through.
	tries []string
}

// flyer is a pod between Reserve and Bind.
type flyer struct {
	*entry
	assumed *v1.Pod
	state   fwk.CycleState
	// since is the storm's version at Reserve.
	since int
}

// TestQuickStorm applies many more random events than TestStorm (BERTH_QUICK_EVENTS, 100,000; make verify-storm:
// 1,000,000), one after the other, with the scheduler's real cache: AssumePod, Reserve, Bind, and ForgetPod if the
// binding failed. Several pods are between Reserve and Bind at a time. Bindings are refused, lost, or carried out
// without an answer; the scheduler sees pods late; nodes publish less memory and more again. Pods are resized in place,
// before and after they are bound. A rival binds pods that the plugin did not decide. After every event the auditor checks
// the node that changed. BERTH_SEED repeats the events.
//
// Bind has room for what Reserve found room for; crowded has the exceptions.
func TestQuickStorm(t *testing.T) {
	events := setting("BERTH_QUICK_EVENTS", 100_000)
	if testing.Short() {
		events /= 20
	}
	seed := chance.Seed()
	t.Logf("BERTH_SEED=%d", seed)
	q := newQuickStorm(t, seed)
	for i := range events {
		q.touched = ""
		q.event()
		if err := q.nodes.checkNode(q.touched, q.on(q.touched)); err != nil {
			t.Fatalf("after event %d of seed %d: node %s: %v", i, seed, q.touched, err)
		}
	}
	t.Logf("events: %v; %d pods bound, %d by the rival, %d resized, %d refused by Bind, bound memory audited %d times",
		q.done, q.bound, q.rivals, q.resizes, q.refused, q.nodes.bindings)
	if q.bound < events/20 || q.rivals < events/500 || q.resizes < events/1000 || q.nodes.bindings < events/10 {
		t.Fatal("too few pods were bound to prove anything")
	}
}

func newQuickStorm(t *testing.T, seed uint64) *quickStorm {
	t.Helper()
	q := &quickStorm{
		storm: &storm{cluster: newCluster(t), rand: rand.New(rand.NewPCG(seed, 6)), done: map[string]int{}},
		board: newBoard(), byName: map[string]*entry{}, full: map[string][]v1alpha1.NUMANode{}, specs: map[string]v1alpha1.NodeTopologySpec{}, foreign: map[string]int{},
	}
	for i, one := range tights() {
		name := fmt.Sprintf("n%d", i)
		q.addMachine(name, one)
		q.specs[name] = one.spec(t)
		q.full[name] = q.specs[name].NUMANodes
	}
	noAnswer := apierrors.NewServiceUnavailable("nobody answers here")
	cfg := configFrom(t, "testdata/without-leases.yaml")
	s := q.buildOn(t.Context(), cfg, registry(), func(client kubernetes.Interface) (kubernetes.Interface, informers.SharedInformerFactory) {
		store := podStore{Interface: client, bind: q.carryOut, get: noAnswer}
		factory := informers.NewSharedInformerFactory(store, 0)
		factory.InformerFor(&v1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return q.board })
		return store, factory
	})
	q.b = &byHand{Scheduler: s, f: s.Profiles[schedulerName], t: t}
	q.b.known()
	q.nodes = q.auditor()
	return q
}

// event applies one random event.
func (q *quickStorm) event() {
	q.apply([]chanceOf{
		{300, "create", q.come},
		{250, "schedule", q.schedule},
		{250, "bind", q.land},
		{120, "show", q.showOne},
		{120, "delete", func() { q.one(q.delete) }},
		{60, "complete", q.complete},
		{10, "terminate", q.terminate},
		{2, "shrink", q.shrink},
		{20, "rival", q.rival},
		{60, "resize", q.resize},
	})
}

// come creates a pod, or deletes one if there are many.
func (q *quickStorm) come() {
	if len(q.pods) >= mostQuick {
		q.one(q.delete)
		return
	}
	p := q.any()
	p.UID, p.Generation = types.UID(p.Name), 1
	q.add(p)
}

// add stores a new pod, which the scheduler sees at once.
func (q *quickStorm) add(p *v1.Pod) {
	e := &entry{}
	q.pods, q.byName[p.Name] = append(q.pods, e), e
	q.store(e, p)
	q.show(e)
}

// mostQuick is the maximum number of pods: more than fit.
const mostQuick = 40

// store stores the next state of a pod.
func (q *quickStorm) store(e *entry, p *v1.Pod) {
	p.ResourceVersion = strconv.Itoa(q.next())
	e.stored = p
	if p.Spec.NodeName != "" {
		q.touched = p.Spec.NodeName
		q.outgrown(q.touched)
	}
}

// next returns the next version.
func (q *quickStorm) next() int {
	q.version++
	return q.version
}

// show shows the scheduler the stored state of a pod, if it is new.
func (q *quickStorm) show(e *entry) {
	if e.shown == e.stored {
		return
	}
	if err := q.board.show(e.shown, e.stored); err != nil {
		q.Fatal(err)
	}
	e.shown = e.stored
	if e.stored == nil {
		return
	}
	if e.resizing != nil {
		e.resizing.unseen = false
	}
	if e.resized {
		q.foreign[e.stored.Spec.NodeName] = q.next()
	}
}

// showOne shows the scheduler one pod whose state it has not seen.
func (q *quickStorm) showOne() {
	late := slices.DeleteFunc(slices.Clone(q.pods), func(e *entry) bool { return e.shown == e.stored })
	if len(late) > 0 {
		q.show(late[q.rand.IntN(len(late))])
	}
}

// on returns the stored pods of a node.
func (q *quickStorm) on(node string) []*v1.Pod {
	var pods []*v1.Pod
	for _, e := range q.pods {
		if node != "" && e.stored.Spec.NodeName == node {
			pods = append(pods, e.stored)
		}
	}
	return pods
}

// one calls run with a random pod, if there is one.
func (q *quickStorm) one(run func(*entry)) {
	if len(q.pods) > 0 {
		run(q.pods[q.rand.IntN(len(q.pods))])
	}
}

// delete deletes a pod, which the scheduler sees at once.
func (q *quickStorm) delete(e *entry) {
	q.touched = e.stored.Spec.NodeName
	q.pods = slices.DeleteFunc(q.pods, func(other *entry) bool { return other == e })
	delete(q.byName, e.stored.Name)
	e.stored = nil
	q.show(e)
}

func (q *quickStorm) complete() {
	q.one(func(e *entry) {
		if e.stored.Spec.NodeName != "" && e.stored.Status.Phase != v1.PodSucceeded {
			p := e.stored.DeepCopy()
			p.Status.Phase = []v1.PodPhase{v1.PodSucceeded, v1.PodRunning}[q.rand.IntN(2)]
			q.store(e, p)
		}
	})
}

func (q *quickStorm) terminate() {
	q.one(func(e *entry) {
		p, now := e.stored.DeepCopy(), metav1.Now()
		if p.DeletionTimestamp == nil {
			p.Generation++
		}
		p.DeletionTimestamp = &now
		q.store(e, p)
	})
}

// shrink makes a node publish less memory or fewer huge pages, or all it has. The pods bound there keep what they have:
// the auditor judges the later ones by what is left.
func (q *quickStorm) shrink() {
	node := fmt.Sprintf("n%d", q.rand.IntN(len(q.full)))
	now := q.full[node]
	if q.rand.IntN(3) > 0 {
		now = shrunk(q.rand, now)
	}
	q.b.republish(q.cluster, node, now)
	q.nodes.republished(node, now, q.on(node))
	spec := q.specs[node]
	spec.NUMANodes = now
	q.specs[node] = spec
	q.touched = node
}

// schedule starts the cycle of a random pod that the scheduler sees unbound, and reserves CPUs on one of the nodes that
// Filter allows.
func (q *quickStorm) schedule() {
	waiting := slices.DeleteFunc(slices.Clone(q.pods), func(e *entry) bool {
		return e.taken || e.shown.Spec.NodeName != "" || e.shown.DeletionTimestamp != nil
	})
	if len(waiting) == 0 {
		return
	}
	e := waiting[q.rand.IntN(len(waiting))]
	nodes := q.b.snapshot()
	state, status := q.b.cycle(e.shown)
	var fits []string
	for _, n := range nodes {
		if status.IsSuccess() && q.b.f.RunFilterPlugins(q.Context(), state, e.shown, n).IsSuccess() {
			fits = append(fits, n.Node().Name)
		}
	}
	if len(fits) == 0 {
		return
	}
	f := &flyer{entry: e, assumed: e.shown.DeepCopy(), state: state, since: q.version}
	f.assumed.Spec.NodeName = fits[q.rand.IntN(len(fits))]
	if err := q.b.Cache.AssumePod(klog.Background(), f.assumed); err != nil {
		q.Fatal(err)
	}
	if status := q.b.f.RunReservePluginsReserve(q.Context(), state, f.assumed, f.assumed.Spec.NodeName); !status.IsSuccess() {
		q.Fatalf("%s on %s: Filter lets it pass, Reserve says %v", e.shown.Name, f.assumed.Spec.NodeName, status)
	}
	e.taken, e.tries = true, append(e.tries, f.assumed.Spec.NodeName)
	q.flying = append(q.flying, f)
}

// land ends the cycle of a random pod between Reserve and Bind.
func (q *quickStorm) land() {
	if len(q.flying) == 0 {
		return
	}
	i := q.rand.IntN(len(q.flying))
	f := q.flying[i]
	q.flying = slices.Delete(q.flying, i, i+1)
	node := f.assumed.Spec.NodeName
	q.landing = f
	status := q.b.f.RunBindPlugins(q.Context(), f.state, f.assumed, node)
	if status.IsSuccess() {
		q.b.f.RunPostBindPlugins(q.Context(), f.state, f.assumed, node)
		return
	}
	noRoom := strings.Contains(status.Message(), textNoRoom)
	if noRoom {
		q.refused++
		if !q.crowded(f) {
			q.Fatalf("%s on %s: nothing changed since Reserve, and Bind says %v", f.assumed.Name, node, status)
		}
	}
	if noRoom || apierrors.IsForbidden(status.AsError()) {
		f.tries = f.tries[:len(f.tries)-1]
	}
	f.taken = false
	q.b.f.RunReservePluginsUnreserve(q.Context(), f.state, f.assumed, node)
	if err := q.b.Cache.ForgetPod(klog.Background(), f.assumed); err != nil && f.shown != nil && f.shown.Spec.NodeName == "" {
		q.Fatal(err)
	}
}

// textNoRoom is part of what Bind says if it has no room for a reservation.
const textNoRoom = "node(s) had the CPUs or their memory given to another pod meanwhile"

// crowded reports whether Bind may have no room for a reservation. The scheduler may have forgotten the pod, because it
// saw the pod bound by an earlier try, or its end. Since Reserve, the rival may have bound a pod, or the scheduler may have
// seen a change of a resized pod. Or another pod may have reserved CPUs after it tried the same node with other CPUs: it
// counts with both, until it is seen bound.
func (q *quickStorm) crowded(f *flyer) bool {
	if f.shown == nil || f.shown.DeletionTimestamp != nil || f.shown.Spec.NodeName != "" ||
		q.foreign[f.assumed.Spec.NodeName] > f.since {
		return true
	}
	return slices.ContainsFunc(q.pods, func(e *entry) bool {
		here := slices.DeleteFunc(slices.Clone(e.tries), func(node string) bool { return node != f.assumed.Spec.NodeName })
		return e != f.entry && e.shown.Spec.NodeName == "" && len(here) > 1
	})
}

var errLost = errors.New("the connection is lost")

// carryOut stores a binding as an API server would, and sometimes fails instead or afterwards.
func (q *quickStorm) carryOut(b *v1.Binding) error {
	pods := schema.GroupResource{Resource: "pods"}
	e := q.byName[b.Name]
	luck := q.rand.IntN(20)
	switch {
	case e == nil:
		return apierrors.NewNotFound(pods, b.Name)
	case luck == 0:
		return apierrors.NewForbidden(pods, b.Name, errLost)
	case luck == 1:
		return errLost
	case e.stored.Spec.NodeName != "" || e.stored.DeletionTimestamp != nil:
		return apierrors.NewConflict(pods, b.Name, errLost)
	}
	p := e.stored.DeepCopy()
	p.Spec.NodeName = b.Target.Name
	for key, value := range b.Annotations {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
	}
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}}
	q.nodes.sized[p.Name] = sizes(q.landing.assumed)
	if p.Generation > q.landing.assumed.Generation {
		e.resizing = &resizing{before: q.landing.assumed, early: true, unseen: true}
	}
	q.store(e, p)
	q.bound++
	if q.rand.IntN(2) == 0 {
		q.show(e)
	}
	if luck == 2 {
		return errLost
	}
	return nil
}

// shrunk returns the NUMA nodes with less memory or fewer huge pages in some of them, or unchanged. Pages that leave a
// pool are ordinary memory again.
func shrunk(random *rand.Rand, nodes []v1alpha1.NUMANode) []v1alpha1.NUMANode {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		n := &nodes[i]
		switch random.IntN(3) {
		case 0:
			n.MemoryBytes -= []int64{1, 3, 4}[random.IntN(3)] * gi
		case 1:
			n.HugePages = slices.Clone(n.HugePages)
			last := &n.HugePages[len(n.HugePages)-1]
			last.Pages--
			n.HugePageBytes -= last.PageKiB << 10
		}
	}
	return nodes
}
