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

// lookEvery is the interval at which the witness checks whether a CPU is shared.
const lookEvery = 25 * time.Millisecond

// confirmAfter is the delay before the witness checks again and reports, because it cannot read two files at the same
// moment.
const confirmAfter = 3 * time.Millisecond

// witness observes the node from outside.
type witness struct {
	pods    listers.PodLister
	mu      sync.Mutex
	bundles map[group]bundle   // Including containers that have ended.
	known   map[string]*v1.Pod // By UID, including pods that were deleted.
	// unasked contains containers that were created or changed without an NRI answer.
	unasked map[string]bool
	// agentless reports that the agent may be missing now. The next agent corrects containers that start in this time.
	agentless bool
	// isolated reports that no core may run both an online and an offline container.
	isolated bool
	sharing  map[string]time.Time // The start of the sharing, by pair of containers.
	found    []string
	excused  time.Duration // The longest time that a CPU was shared while there was no agent.
	looks    int
}

// newWitness returns a witness that checks until the test ends.
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
	claim claim // From the annotation, empty if it has none.
}

// claim is the placement of one container. A bursting container keeps its quota, and may also run on other CPUs.
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

// residents combines groups, pods and bundles.
func (w *witness) residents() []*resident {
	now, err := w.pods.List(labels.Everything())
	if err != nil {
		return nil
	}
	w.mu.Lock()
	for _, p := range now {
		w.known[string(p.UID)] = p
		if hash := p.Annotations["kubernetes.io/config.hash"]; hash != "" {
			w.known[hash] = p // The kubelet uses this hash as a static pod's UID.
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

// claimed returns the container's part of the pod's placement. For an ordinary init container it is the union of all
// other containers' parts.
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

// groupsOf returns the groups of pods of a namespace, with or without containers.
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

// look records the CPUs that are shared now and ends the records of CPUs that are no longer shared.
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

// seen is a container with the CPUs that it runs on.
type seen struct {
	*resident
	masks []list
}

// running returns the running containers without sandboxes, which are narrowed only after their creation and do
// nothing.
func (w *witness) running() (all []seen) {
	for _, r := range w.residents() {
		if masks, _ := r.masks(false); len(masks) > 0 && !r.sandbox {
			all = append(all, seen{r, masks})
		}
	}
	return all
}

// shared returns the pairs of which one container runs on CPUs that the other has exclusively, or on cores of the other
// side.
func (w *witness) shared() map[string]bool {
	all := w.running()
	var owners []seen
	for _, one := range all {
		// A refused container may run in the shared pool on the CPUs of its annotation for a moment longer; it has its
		// quota then.
		r, first := one.resident, one.masks[0]
		if len(r.claim.cpus) > 0 && (first.in(r.claim.cpus) && quota(r.dir) == "max" || r.claim.bursts && r.claim.cpus.in(first)) {
			owners = append(owners, one)
		}
	}
	pairs := map[string]bool{}
	for _, owner := range owners {
		for _, other := range all {
			if other.id == owner.id || other.group.pod == owner.group.pod && len(other.claim.cpus) > 0 {
				continue // Containers of a pod share CPUs if its annotation says so.
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

// own returns the exclusive part of the CPUs that a container runs on.
func (r *resident) own(mask list) list {
	if r.claim.bursts {
		return r.claim.cpus
	}
	return mask
}

// take returns the violations that have ended since the last call.
func (w *witness) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.found
	w.found, w.agentless = nil, false
	return found
}

// without tells the witness that there may be no agent from now on, until take is called.
func (w *witness) without() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.agentless = true
}

// notAsked tells the witness that a container's NRI answer differs from its placement, because it was created without
// an agent or resized later.
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

// differences compares annotation, answer, file and mask of every container.
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

// owner checks a container with exclusive CPUs.
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

// wasAsked reports whether the NRI answer at the container's creation must equal its placement. A container of a pod
// without room started in the shared pool. The agent places the pod when another of its containers is created, and that
// container's answer is the placement.
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

// other checks a container without exclusive CPUs.
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
