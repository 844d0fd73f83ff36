package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
)

// lookEvery is how often the witness looks whether a CPU is shared.
const lookEvery = 25 * time.Millisecond

// confirmAfter is how much later it looks again before it says so: two files cannot be read at
// the same moment.
const confirmAfter = 3 * time.Millisecond

// witness looks at the node from outside.
type witness struct {
	pods    listers.PodLister
	mu      sync.Mutex
	bundles map[group]bundle   // Also of containers that ended.
	known   map[string]*v1.Pod // By UID, those that the API server forgot, too.
	// unasked holds containers that were made, or changed, without NRI's answer.
	unasked map[string]bool
	// agentless says that there may be no agent now, and that what starts meanwhile is put right
	// when there is one.
	agentless bool
	// isolated says that no core may run an online and an offline container.
	isolated bool
	sharing  map[string]time.Time // Since when, by who with whom.
	found    []string
	excused  time.Duration // The longest that a CPU was shared while there was no agent.
	looks    int
}

// newWitness looks until the test ends.
func newWitness(t *testing.T, client kubernetes.Interface) *witness {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	factory := informers.NewSharedInformerFactory(client, 0)
	w := &witness{
		pods: factory.Core().V1().Pods().Lister(), bundles: map[group]bundle{}, known: map[string]*v1.Pod{},
		unasked: map[string]bool{}, sharing: map[string]time.Time{},
	}
	informer := factory.Core().V1().Pods().Informer()
	factory.Start(ctx.Done())
	var wait sync.WaitGroup
	wait.Go(func() {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for ctx.Err() == nil {
			if informer.HasSynced() {
				w.look()
			}
			<-ticker.C
		}
	})
	t.Cleanup(func() {
		cancel()
		wait.Wait()
		factory.Shutdown()
	})
	return w
}

// resident is one container as the witness sees it.
type resident struct {
	group
	bundle
	pod   *v1.Pod
	claim claim // What its annotation says, empty if nothing.
}

// claim is what a placement says of one container. One that bursts keeps its quota, and may run
// on other CPUs, too.
type claim struct {
	cpus, mems list
	bursts     bool
}

func (r *resident) String() string {
	who := r.group.pod
	if r.pod != nil {
		who = r.pod.Name
	}
	return who + "/" + cmp.Or(r.name, "sandbox")
}

// residents brings groups, pods and bundles together.
func (w *witness) residents() []*resident {
	now, err := w.pods.List(labels.Everything())
	if err != nil {
		return nil
	}
	w.mu.Lock()
	for _, p := range now {
		w.known[string(p.UID)] = p
		if hash := p.Annotations["kubernetes.io/config.hash"]; hash != "" {
			w.known[hash] = p // The kubelet knows a static pod by that.
		}
	}
	byUID := maps.Clone(w.known)
	w.mu.Unlock()
	var all []*resident
	for _, g := range groups() {
		b, ok := w.bundle(g)
		if !ok {
			continue
		}
		r := &resident{group: g, bundle: b, pod: byUID[g.pod]}
		r.claim = r.claimed()
		all = append(all, r)
	}
	return all
}

func (w *witness) bundle(g group) (bundle, bool) {
	w.mu.Lock()
	b, ok := w.bundles[g]
	w.mu.Unlock()
	if ok {
		return b, true
	}
	b, ok = readBundle(g.id)
	if ok {
		w.mu.Lock()
		w.bundles[g] = b
		w.mu.Unlock()
	}
	return b, ok
}

// claimed is what the pod's placement says of the container: of an ordinary init container, what
// it says of all others together.
func (r *resident) claimed() claim {
	if r.pod == nil || r.sandbox {
		return claim{}
	}
	var p struct {
		Containers map[string]struct{ CPUs, Mems, Policy string }
	}
	if json.Unmarshal([]byte(r.pod.Annotations[placementKey]), &p) != nil {
		return claim{}
	}
	if one, ok := p.Containers[r.name]; ok {
		return claim{parseList(one.CPUs), parseList(one.Mems), one.Policy == staticBurst}
	}
	var c claim
	for _, init := range r.pod.Spec.InitContainers {
		if init.Name != r.name || init.RestartPolicy != nil {
			continue
		}
		c = claim{cpus: list{}, mems: list{}}
		for _, one := range p.Containers {
			c.cpus, c.mems = c.cpus.with(parseList(one.CPUs)), c.mems.with(parseList(one.Mems))
		}
	}
	return c
}

// groupsOf are the groups of pods of a namespace, with or without containers.
func (w *witness) groupsOf(namespace string) (all []string) {
	w.residents()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pod := range podGroups() {
		if p := w.known[strings.TrimPrefix(filepath.Base(pod), "pod")]; p != nil && p.Namespace == namespace {
			all = append(all, p.Name)
		}
	}
	return all
}

// look notes CPUs that are shared now and those that are not any more.
func (w *witness) look() {
	pairs := w.shared()
	if len(pairs) > 0 {
		time.Sleep(confirmAfter)
		again := w.shared()
		for pair := range pairs {
			if !again[pair] {
				delete(pairs, pair)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	now := time.Now()
	for pair := range pairs {
		if _, ok := w.sharing[pair]; !ok {
			w.sharing[pair] = now
		}
	}
	for pair, since := range w.sharing {
		if pairs[pair] {
			continue
		}
		delete(w.sharing, pair)
		if took := now.Sub(since); w.agentless {
			w.excused = max(w.excused, took)
		} else {
			w.found = append(w.found, fmt.Sprintf("%s, for %v", pair, took))
		}
	}
}

// seen is a container and what it runs on.
type seen struct {
	*resident
	masks []list
}

// running are the containers that run, but for sandboxes: these are narrowed after they were made,
// and do nothing.
func (w *witness) running() (all []seen) {
	for _, r := range w.residents() {
		if masks, _ := r.masks(false); len(masks) > 0 && !r.sandbox {
			all = append(all, seen{r, masks})
		}
	}
	return all
}

// shared are the pairs of which one runs on CPUs that the other has for itself, or on cores that
// the other side has.
func (w *witness) shared() map[string]bool {
	all := w.running()
	var owners []seen
	for _, one := range all {
		// One that was refused may run in the shared pool on what its annotation says a
		// moment longer; it has its quota then.
		r, first := one.resident, one.masks[0]
		if len(r.claim.cpus) > 0 && (first.in(r.claim.cpus) && quota(r.dir) == "max" || r.claim.bursts && r.claim.cpus.in(first)) {
			owners = append(owners, one)
		}
	}
	pairs := map[string]bool{}
	for _, owner := range owners {
		for _, other := range all {
			if other.id == owner.id || other.group.pod == owner.group.pod && len(other.claim.cpus) > 0 {
				continue // Containers of a pod share where its annotation says so.
			}
			for _, mask := range other.masks {
				if own := owner.own(owner.masks[0]); mask.meets(own) {
					pairs[fmt.Sprintf("%s runs on %s, which is %s's: %s", other, mask, owner, own)] = true
				}
			}
		}
	}
	if w.isIsolated() {
		beside(all, pairs)
	}
	return pairs
}

// own is what of the CPUs that a container runs on is its alone.
func (r *resident) own(mask list) list {
	if r.claim.bursts {
		return r.claim.cpus
	}
	return mask
}

// take returns what was found since it was last asked, of that which is over.
func (w *witness) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.found
	w.found, w.agentless = nil, false
	return found
}

// without says that from now on there may be no agent, until take is called.
func (w *witness) without() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.agentless = true
}

// notAsked says that a container's answer is not that of its placement: it was made without an
// agent, or resized later.
func (w *witness) notAsked(ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		w.unasked[id] = true
	}
}

// unaskedPod is notAsked for all containers of a pod.
func (w *witness) unaskedPod(p *v1.Pod) {
	w.without()
	for _, c := range p.Status.ContainerStatuses {
		w.notAsked(id(p, c.Name))
	}
}

// differences compares annotation, answer, file and mask of everybody who is there.
func (w *witness) differences() []string {
	var out []string
	all := w.residents()
	taken := map[string]list{} // By pod.
	for _, r := range all {
		if len(r.claim.cpus) > 0 && len(r.pids()) > 0 {
			taken[r.group.pod] = list{}.with(taken[r.group.pod]).with(r.claim.cpus)
		}
	}
	for _, r := range all {
		cpus, mems := r.masks(true)
		if len(cpus) == 0 {
			continue
		}
		if len(r.claim.cpus) > 0 {
			out = append(out, w.owner(r, cpus, mems)...)
			continue
		}
		out = append(out, w.other(r, cpus, taken)...)
	}
	return out
}

// owner compares what a container with exclusive CPUs has.
func (w *witness) owner(r *resident, cpus, mems []list) (out []string) {
	complain := func(what string, have, want any) {
		out = append(out, fmt.Sprintf("%s: %s is %v, want %v", r, what, have, want))
	}
	file := parseList(read(cpusets(), r.dir, "cpuset.cpus"))
	if !file.equal(r.claim.cpus) && (!r.claim.bursts || !r.claim.cpus.in(file)) {
		complain("cpuset.cpus", file, r.claim.cpus)
	}
	for _, mask := range cpus {
		if !mask.equal(file) {
			complain("a thread's mask", mask, file)
		}
	}
	for _, mask := range mems {
		if !mask.equal(r.claim.mems) {
			complain("a thread's memory nodes", mask, r.claim.mems)
		}
	}
	asked := w.wasAsked(r)
	answer := r.bundle
	if asked && (!answer.cpus.equal(r.claim.cpus) || !answer.mems.equal(r.claim.mems)) {
		complain("NRI's answer", fmt.Sprint(answer.cpus, " on ", answer.mems), fmt.Sprint(r.claim.cpus, " on ", r.claim.mems))
	}
	if r.claim.bursts {
		if q := quota(r.dir); q == "max" {
			complain("the quota", q, "its limit")
		}
		return out
	}
	if asked && answer.quota > 0 {
		complain("the quota in NRI's answer", answer.quota, "none")
	}
	if q := quota(r.dir); q != "max" {
		complain("the quota", q, "none")
	}
	if q := quota(parent(r.dir)); q != "max" {
		complain("the quota of the pod", q, "none")
	}
	return out
}

// wasAsked says whether the answer of NRI that made the container has to be what the placement says.
// One that was made while its pod had no room began in the pool. The pod is placed when another of
// its containers is made: the answer of that one is the placement's then.
func (w *witness) wasAsked(r *resident) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unasked[r.id] {
		return false
	}
	for g, b := range w.bundles {
		if g.pod != r.group.pod || b.sandbox {
			continue
		}
		later := resident{bundle: b, pod: r.pod}
		if c := later.claimed(); b.made.After(r.made) && len(c.cpus) > 0 && b.cpus.equal(c.cpus) && b.quota <= 0 {
			return false
		}
	}
	return true
}

// other compares what a container without exclusive CPUs has.
func (w *witness) other(r *resident, cpus []list, taken map[string]list) (out []string) {
	exclusive := list{}
	for _, some := range taken {
		exclusive = exclusive.with(some)
	}
	for _, mask := range cpus {
		if mask.meets(exclusive) {
			out = append(out, fmt.Sprintf("%s runs on %s, of which %s are exclusive", r, mask, exclusive))
		}
	}
	file, all := parseList(read(cpusets(), r.dir, "cpuset.cpus")), parseList(read(cpusets(), parent(r.dir), "cpuset.cpus"))
	want := all
	if w.isIsolated() {
		want = w.side(r, all)
	}
	if len(exclusive) == 0 && len(file) > 0 && !file.equal(want) {
		out = append(out, fmt.Sprintf("%s: cpuset.cpus is %s while no pod has exclusive CPUs, want %s", r, file, want))
	}
	return out
}
