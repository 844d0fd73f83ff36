package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// expectKey is the annotation that tells the ledger what a pod may expect.
const expectKey = "test.berth.dev/expect"

// expectation is the value of expectKey. The test writes it next to the pod's manifest, so that it does not depend on
// the code under test.
type expectation struct {
	CPUs      map[string]int              `json:"cpus"`                // By container.
	Burst     bool                        `json:"burst,omitempty"`     // static-burst.
	Exclusive v1alpha1.CPUExclusivePolicy `json:"exclusive,omitempty"` // Required.
	OneNode   bool                        `json:"oneNode,omitempty"`   // Required in one NUMA node.
	FullCores bool                        `json:"fullCores,omitempty"` // Required.
	Spread    bool                        `json:"spread,omitempty"`    // Required: a core for each CPU.
	Shared    bool                        `json:"shared,omitempty"`    // One set for all containers.
}

// ledger follows the events of a cluster's pods in the order of the store, and records every broken promise. It knows
// the machines and the pods' expectations. It shares only the CPU set type and the format of the annotation with the
// scheduler. Only one goroutine may use it.
type ledger struct {
	nodes  map[string]*book
	pods   map[types.UID]*account
	faults []string // Broken promises.

	bound     int // Pods that were ever bound.
	pinned    int // Pods among them with exclusive CPUs.
	preempted int // Pods that were preempted.
	fill      int // Sum over all bindings of the node's usage at that time, in percent.
}

// book is the account of one node.
type book struct {
	machine *topology.Topology
	hash    string
	limit   int64 // Milli-CPUs that the scheduler may promise.
	used    int64 // Promised milli-CPUs.
}

// account is one pod that the ledger has seen.
type account struct {
	name       string
	node       string
	annotation string
	charge     int64 // Milli-CPUs.
	own        cpuset.Set
	occupied   cpuset.Set // own and the siblings that stay idle.
	banned     cpuset.Set // CPUs that no other pod may have exclusively.
	order      int        // The order of binding.
	at         time.Time  // When the ledger saw the binding.
	released   bool
	preempted  bool
}

func newLedger() *ledger {
	return &ledger{nodes: map[string]*book{}, pods: map[types.UID]*account{}}
}

// addNode opens the book of a node, which has allocatable milli-CPUs.
func (l *ledger) addNode(name string, machine *topology.Topology, allocatable int64) {
	b := &book{machine: machine, hash: machine.Hash()}
	b.limit = min(allocatable, int64(b.usable().Size())*1000)
	l.nodes[name] = b
}

// usable returns the CPUs that pods may use.
func (b *book) usable() cpuset.Set {
	return b.machine.Online.Difference(b.machine.Reserved).Difference(b.machine.Isolated)
}

func (l *ledger) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// deleted records that a pod is gone.
func (l *ledger) deleted(pod *v1.Pod) {
	if a := l.pods[pod.UID]; a != nil {
		l.release(a)
	}
	delete(l.pods, pod.UID)
}

// seen records a state of a pod.
func (l *ledger) seen(pod *v1.Pod) {
	a := l.pods[pod.UID]
	if a == nil {
		a = &account{name: pod.Namespace + "/" + pod.Name}
		l.pods[pod.UID] = a
	}
	annotation := pod.Annotations[v1alpha1.AnnotationPlacement]
	switch {
	case a.node != "":
		l.unchanged(a, pod.Spec.NodeName, annotation)
	case pod.Spec.NodeName != "":
		a.node, a.annotation = pod.Spec.NodeName, annotation
		l.bind(a, pod)
	}
	if !a.preempted && disrupted(pod) {
		a.preempted = true
		l.preempted++
	}
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		l.release(a)
	}
}

// disrupted reports whether a scheduler preempted the pod.
func disrupted(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler
	})
}

// unchanged checks that a bound pod still has its node and placement.
func (l *ledger) unchanged(a *account, node, annotation string) {
	if node != a.node {
		l.fault("%s: moved from %s to %s", a.name, a.node, node)
	}
	if annotation != a.annotation {
		l.fault("%s on %s: placement changed after binding from %s to %s", a.name, a.node, a.annotation, annotation)
	}
}

// bind books a pod and compares it with all other pods of its node.
func (l *ledger) bind(a *account, pod *v1.Pod) {
	b := l.nodes[a.node]
	if b == nil {
		l.fault("%s: bound to unknown node %q", a.name, a.node)
		return
	}
	l.bound++
	a.order, a.at = l.bound, time.Now()
	a.charge = requests(pod, nil)
	if text, ok := pod.Annotations[expectKey]; ok {
		var want expectation
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			l.fault("%s: the test's own annotation: %v", a.name, err)
			return
		}
		l.pinned++
		l.place(a, pod, b, &want)
	}
	b.used += a.charge
	l.fill += int(100 * b.used / max(1, b.limit))
	if b.used > b.limit && a.charge > 0 {
		l.fault("%s on %s: %d milli-CPUs are promised, %d are there: %s", a.name, a.node, b.used, b.limit, l.listing(a.node))
	}
	for _, other := range l.pods {
		if other != a && other.node == a.node && !other.released {
			l.compare(a, other)
		}
	}
}

// listing describes the CPUs of a node's pods, the last bound pod first.
func (l *ledger) listing(node string) string {
	var there []*account
	for _, a := range l.pods {
		if a.node == node && !a.released {
			there = append(there, a)
		}
	}
	slices.SortFunc(there, func(a, b *account) int { return b.order - a.order })
	var text strings.Builder
	for _, a := range there {
		fmt.Fprintf(&text, "%s %dm [%s] seen %v; ", a.name, a.charge, a.occupied, a.at.Format("05.000"))
	}
	return text.String()
}

// compare checks that the exclusive CPUs of two pods of a node do not overlap.
func (l *ledger) compare(a, b *account) {
	if both := a.own.Intersect(b.own); !both.IsEmpty() {
		l.fault("%s: CPUs %s are given to %s and %s", a.node, both, a.name, b.name)
	}
	for _, pair := range [2][2]*account{{a, b}, {b, a}} {
		if in := pair[0].own.Intersect(pair[1].banned); !in.IsEmpty() {
			l.fault("%s: CPUs %s of %s are in what %s has for itself", a.node, in, pair[0].name, pair[1].name)
		}
	}
}

// place reads the annotation of a pod with exclusive CPUs and compares it with the expectation.
func (l *ledger) place(a *account, pod *v1.Pod, b *book, want *expectation) {
	p, problems := v1alpha1.DecodePlacement(a.annotation)
	if len(problems) > 0 {
		l.fault("%s on %s: placement %q: %v", a.name, a.node, a.annotation, problems)
		return
	}
	if p.Topology != b.hash {
		l.fault("%s on %s: placement for topology %s, the node has %s", a.name, a.node, p.Topology, b.hash)
	}
	if want.Exclusive != "" && p.Exclusive != want.Exclusive {
		l.fault("%s on %s: exclusivity %q, want %q", a.name, a.node, p.Exclusive, want.Exclusive)
	}
	if len(p.Containers) != len(want.CPUs) {
		l.fault("%s on %s: %d containers in %s, want %v", a.name, a.node, len(p.Containers), a.annotation, want.CPUs)
	}
	for name, count := range want.CPUs {
		l.container(a, b, name, count, p.Containers[name], want.Shared)
		if c := p.Containers[name]; want.Burst != (c.Policy == v1alpha1.PlacementStaticBurst) {
			l.fault("%s on %s: policy %q of %s, static-burst is %t", a.name, a.node, c.Policy, name, want.Burst)
		} else if want.Burst {
			l.domain(a, b, c)
		}
	}
	l.shape(a, b, want)
	l.surround(a, b, p.Exclusive)
	l.sharedPool(a, b)
	a.charge = int64(a.occupied.Size())*1000 + requests(pod, want.CPUs)
}

// container books the CPUs of one container.
func (l *ledger) container(a *account, b *book, name string, count int, c v1alpha1.ContainerPlacement, shared bool) {
	cpus, err := cpuset.Parse(c.CPUs)
	if err != nil || cpus.Size() != count {
		l.fault("%s on %s: container %s has CPUs %q, want %d of them", a.name, a.node, name, c.CPUs, count)
		return
	}
	if !cpus.IsSubsetOf(b.usable()) {
		l.fault("%s on %s: container %s has CPUs %s, which are not all usable", a.name, a.node, name, cpus)
	}
	if slow := efficiency(b.machine); cpus.Intersects(slow) {
		l.fault("%s on %s: container %s has CPUs %s of efficiency cores", a.name, a.node, name, cpus.Intersect(slow))
	}
	if shared && !a.own.IsEmpty() && cpus != a.own {
		l.fault("%s on %s: container %s has CPUs %s, others of the pod %s", a.name, a.node, name, cpus, a.own)
	}
	if !shared && cpus.Intersects(a.own) {
		l.fault("%s on %s: CPUs %s are given to two containers", a.name, a.node, cpus.Intersect(a.own))
	}
	a.own = a.own.Union(cpus)
	mems, err := cpuset.Parse(c.Mems)
	if err != nil || mems.IsEmpty() || !mems.IsSubsetOf(nodeIDs(b.machine)) {
		l.fault("%s on %s: container %s has memory nodes %q", a.name, a.node, name, c.Mems)
	}
}

// domain checks that a static-burst container is inside the domain that it names.
func (l *ledger) domain(a *account, b *book, c v1alpha1.ContainerPlacement) {
	kind, id, _ := strings.Cut(c.Domain, ":")
	number, err := strconv.Atoi(id)
	var inside cpuset.Set
	for _, d := range b.machine.L3 {
		if kind == "l3" && int(d.ID) == number {
			inside = d.CPUs
		}
	}
	for _, n := range b.machine.Nodes {
		if kind == "numa" && int(n.ID) == number {
			inside = n.CPUs
		}
	}
	cpus, _ := cpuset.Parse(c.CPUs) // Checked in container.
	if err != nil || !cpus.IsSubsetOf(inside) {
		l.fault("%s on %s: CPUs %s are not in domain %q", a.name, a.node, cpus, c.Domain)
	}
}

// shape checks a pod against its required policies.
func (l *ledger) shape(a *account, b *book, want *expectation) {
	if want.OneNode && !slices.ContainsFunc(b.machine.Nodes, func(n topology.Node) bool { return a.own.IsSubsetOf(n.CPUs) }) {
		l.fault("%s on %s: CPUs %s are in several NUMA nodes", a.name, a.node, a.own)
	}
	if want.FullCores && cores(b.machine, a.own) != a.own {
		l.fault("%s on %s: CPUs %s are not whole cores", a.name, a.node, a.own)
	}
	if want.Spread && slices.ContainsFunc(b.machine.Cores, func(c topology.Core) bool { return c.CPUs.Intersect(a.own).Size() > 1 }) {
		l.fault("%s on %s: CPUs %s share cores", a.name, a.node, a.own)
	}
}

// surround books the CPUs from which the granted exclusivity excludes other pods.
func (l *ledger) surround(a *account, b *book, exclusive v1alpha1.CPUExclusivePolicy) {
	a.occupied = a.own
	switch exclusive {
	case v1alpha1.CPUExclusivePCPULevel:
		a.occupied = cores(b.machine, a.own)
		a.banned = a.occupied
	case v1alpha1.CPUExclusiveNUMANodeLevel:
		for _, n := range b.machine.Nodes {
			if n.CPUs.Intersects(a.own) {
				a.banned = a.banned.Union(n.CPUs)
			}
		}
	}
}

// sharedPool checks that a whole core remains for the containers without exclusive CPUs.
func (l *ledger) sharedPool(a *account, b *book) {
	rest := b.usable().Difference(a.occupied)
	for _, other := range l.pods {
		if other.node == a.node && !other.released {
			rest = rest.Difference(other.occupied)
		}
	}
	if !slices.ContainsFunc(b.machine.Cores, func(c topology.Core) bool { return c.CPUs.IsSubsetOf(rest) }) {
		l.fault("%s on %s: only CPUs %q are left to share, which is no whole core: %s", a.name, a.node, rest, l.listing(a.node))
	}
}

func (l *ledger) release(a *account) {
	if a.released || a.node == "" {
		return
	}
	a.released = true
	if b := l.nodes[a.node]; b != nil {
		b.used -= a.charge
	}
}

// requests sums the CPU requests of the containers and sidecars that are not in except, in milli-CPUs. Ordinary init
// containers of these tests request less than the other containers together.
func requests(pod *v1.Pod, except map[string]int) int64 {
	var sum int64
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		if c.RestartPolicy == nil && slices.ContainsFunc(pod.Spec.InitContainers, func(i v1.Container) bool { return i.Name == c.Name }) {
			continue
		}
		if _, pinned := except[c.Name]; !pinned {
			sum += c.Resources.Requests.Cpu().MilliValue()
		}
	}
	return sum
}

// cores returns all threads of the cores that contain at least one of the CPUs.
func cores(machine *topology.Topology, cpus cpuset.Set) cpuset.Set {
	var all cpuset.Set
	for _, core := range machine.Cores {
		if core.CPUs.Intersects(cpus) {
			all = all.Union(core.CPUs)
		}
	}
	return all
}

// efficiency returns the CPUs that only pods which ask for them may get.
func efficiency(machine *topology.Topology) cpuset.Set {
	var slow cpuset.Set
	for _, core := range machine.Cores {
		if core.Kind == topology.KindEfficiency {
			slow = slow.Union(core.CPUs)
		}
	}
	return slow
}

func nodeIDs(machine *topology.Topology) cpuset.Set {
	var ids cpuset.Set
	for _, n := range machine.Nodes {
		ids = ids.Add(int(n.ID))
	}
	return ids
}
