package trial

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// auditor checks the stored pods against four promises. No exclusive CPU is given twice. No byte that is bound to NUMA
// nodes is promised twice. The sum of what the pods take on a node stays within the node. A placement is a plausible
// answer to its pod. Except for parsing lists, amounts and placements, auditor shares no code with the code under test.
type auditor struct {
	nodes map[string]*audited
	// sized is how many CPUs the containers of a pod have, by the pod's name, where a resize may make its limits differ.
	sized map[string]map[string]int
	// bindings is how often a container was found whose memory is bound.
	bindings int
}

// audited is one node with the CPUs of its pods, as the auditor found them.
type audited struct {
	hash     string
	pinnable cpuset.Set
	cores    []cpuset.Set
	numa     []cpuset.Set
	mems     cpuset.Set
	// allocatable and capacity are thousandths.
	allocatable, capacity int64
	sized                 map[string]map[string]int // of the auditor
	taken                 map[string]cpuset.Set     // by pod: the CPUs that no other pod may have
	used                  map[string]cpuset.Set     // by pod: its own CPUs
	empty                 map[string]cpuset.Set     // by pod: SMT siblings left empty
	charged               int64
	memory                memoryBooks
}

func newAuditor() *auditor {
	return &auditor{nodes: map[string]*audited{}, sized: map[string]map[string]int{}}
}

func parsed(list v1alpha1.CPUList) cpuset.Set {
	set, err := cpuset.Parse(string(list))
	if err != nil {
		panic(err)
	}
	return set
}

// add adds a node to the auditor; allocatable is its allocatable CPU in thousandths.
func (a *auditor) add(name string, s v1alpha1.NodeTopologySpec, allocatable int64) {
	n := &audited{hash: s.Hash, allocatable: allocatable, sized: a.sized}
	n.pinnable = parsed(s.Online).Difference(parsed(s.ReservedCPUs)).Difference(parsed(s.IsolatedCPUs))
	for _, c := range s.Cores {
		n.cores = append(n.cores, parsed(c))
	}
	for _, numa := range s.NUMANodes {
		n.mems = n.mems.Add(int(numa.ID))
		n.numa = append(n.numa, parsed(numa.CPUs))
	}
	n.memory.measure(s.NUMANodes)
	n.capacity = min(allocatable, int64(n.pinnable.Size())*1000)
	a.nodes[name] = n
}

// check audits a snapshot of all pods.
func (a *auditor) check(pods []*v1.Pod) error {
	for _, n := range a.nodes {
		n.clear()
	}
	var errs []error
	for _, p := range pods {
		n := a.nodes[p.Spec.NodeName]
		if n == nil || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		if err := n.add(p); err != nil {
			errs = append(errs, fmt.Errorf("pod %s on %s: %w", p.Name, p.Spec.NodeName, err))
		}
	}
	for name, n := range a.nodes {
		a.bindings += len(n.memory.promises)
		if err := n.whole(); err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// checkNode audits the pods of one node.
func (a *auditor) checkNode(name string, pods []*v1.Pod) error {
	n := a.nodes[name]
	if n == nil {
		return nil
	}
	n.clear()
	var errs []error
	for _, p := range pods {
		if p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed {
			if err := n.add(p); err != nil {
				errs = append(errs, fmt.Errorf("pod %s: %w", p.Name, err))
			}
		}
	}
	a.bindings += len(n.memory.promises)
	return errors.Join(append(errs, n.whole())...)
}

// republished notes the memory that a node publishes from now on. The pods keep what was promised to them before.
func (a *auditor) republished(name string, nodes []v1alpha1.NUMANode, pods []*v1.Pod) {
	a.nodes[name].memory.measure(nodes)
	a.nodes[name].memory.exempt = map[string]bool{}
	a.exempt(name, pods)
}

// exempt notes the pods that nobody could compare with what their node has now.
func (a *auditor) exempt(name string, pods []*v1.Pod) {
	books := &a.nodes[name].memory
	if books.exempt == nil {
		books.exempt = map[string]bool{}
	}
	for _, p := range pods {
		books.exempt[p.Name] = true
	}
}

// clear forgets all pods.
func (n *audited) clear() {
	n.taken, n.used, n.empty = map[string]cpuset.Set{}, map[string]cpuset.Set{}, map[string]cpuset.Set{}
	n.charged, n.memory.promises = 0, nil
}

// whole checks what all pods of the node take together.
func (n *audited) whole() error {
	var over error
	if n.charged > n.capacity {
		over = fmt.Errorf("its pods take %dm of %dm", n.charged, n.capacity)
	}
	return errors.Join(n.pool(), over, n.memory.check())
}

// pool checks that at least one whole core is left for the shared pool.
func (n *audited) pool() error {
	free := n.pinnable
	for pod, own := range n.used {
		free = free.Difference(own).Difference(n.empty[pod])
	}
	for _, c := range n.cores {
		if c.IsSubsetOf(free) {
			return nil
		}
	}
	return fmt.Errorf("no whole core is left in %q", free)
}

func (n *audited) add(p *v1.Pod) error {
	requested, wants := asked(p)
	for name, cpus := range n.sized[p.Name] {
		one := wants[name]
		one.cpus = cpus
		wants[name] = one
	}
	n.charged += requested
	if p.Annotations[v1alpha1.AnnotationCPUSetScheduler] != "true" || len(wants) == 0 {
		return nil
	}
	placement, bad := v1alpha1.DecodePlacement(p.Annotations[v1alpha1.AnnotationPlacement])
	if len(bad) > 0 {
		return fmt.Errorf("placement %q: %w", p.Annotations[v1alpha1.AnnotationPlacement], bad)
	}
	if placement.V != 1 || placement.Topology != n.hash {
		return fmt.Errorf("placement of version %d for topology %s, want 1 and %s", placement.V, placement.Topology, n.hash)
	}
	if got := slices.Sorted(maps.Keys(placement.Containers)); !slices.Equal(got, slices.Sorted(maps.Keys(wants))) {
		return fmt.Errorf("containers %v are placed, want %v", got, slices.Sorted(maps.Keys(wants)))
	}
	var own cpuset.Set
	for name, want := range wants {
		cpus, mems, err := container(placement.Containers[name], want, n)
		if err != nil {
			return fmt.Errorf("container %s: %w", name, err)
		}
		n.memory.promise(p.Name, mems, want.bytes)
		if cpus.Intersects(own) {
			return fmt.Errorf("container %s shares CPUs with another of its pod", name)
		}
		own = own.Union(cpus)
	}
	return n.occupy(p.Name, placement.Exclusive, own, wants)
}

// occupy records the CPUs of a pod and the CPUs that its policy denies to other pods.
func (n *audited) occupy(pod string, exclusive v1alpha1.CPUExclusivePolicy, own cpuset.Set, wants map[string]want) error {
	kept := own
	switch exclusive {
	case v1alpha1.CPUExclusivePCPULevel:
		kept = grown(n.cores, own)
		n.empty[pod] = kept.Difference(own)
	case v1alpha1.CPUExclusiveNUMANodeLevel:
		kept = grown(n.numa, own)
	}
	n.charged += charge(wants, n.empty[pod].Size())
	for other := range n.taken {
		if clash := n.taken[other].Intersect(own).Union(n.used[other].Intersect(kept)); !clash.IsEmpty() {
			return fmt.Errorf("CPUs %s (of its %s) are also those of %s", clash, own, other)
		}
	}
	n.taken[pod], n.used[pod] = kept, own
	return nil
}

// want is what one container must get: its number of CPUs, its request in thousandths, and its bytes by page size.
type want struct {
	cpus      int
	requested int64
	bytes     map[int64]int64
}

// asked returns the request of a pod in thousandths and its containers that must be pinned. It handles only the plain
// pods of these tests.
func asked(p *v1.Pod) (requested int64, wants map[string]want) {
	wants = map[string]want{}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		request, limit := c.Resources.Requests.Cpu().MilliValue(), c.Resources.Limits.Cpu().MilliValue()
		requested += request
		up := p.Annotations[v1alpha1.AnnotationCPUPolicy] == v1alpha1.CPUPolicyStaticBurst
		if limit > 0 && (limit%1000 == 0 || up) {
			wants[c.Name] = want{cpus: int((limit + 999) / 1000), requested: request, bytes: bytesOf(&c.Resources)}
		}
	}
	return requested, wants
}

// charge returns what the pod takes beyond its request, in thousandths.
func charge(wants map[string]want, empty int) int64 {
	var sum int64
	for _, w := range wants {
		sum += max(0, int64(w.cpus)*1000-w.requested)
	}
	return sum + int64(empty)*1000
}

func container(c v1alpha1.ContainerPlacement, w want, n *audited) (cpus, mems cpuset.Set, err error) {
	if cpus, err = cpuset.Parse(c.CPUs); err != nil {
		return cpus, mems, err
	}
	if mems, err = cpuset.Parse(c.Mems); err != nil {
		return cpus, mems, err
	}
	switch {
	case cpus.Size() != w.cpus:
		err = fmt.Errorf("%d CPUs (%s), want %d", cpus.Size(), cpus, w.cpus)
	case !cpus.IsSubsetOf(n.pinnable):
		err = fmt.Errorf("CPUs %s, of which %s cannot be pinned", cpus, cpus.Difference(n.pinnable))
	case mems.IsEmpty() || !mems.IsSubsetOf(n.mems):
		err = fmt.Errorf("mems %q of %s", c.Mems, n.mems)
	}
	return cpus, mems, err
}

// grown returns the union of the set and all groups that intersect it.
func grown(groups []cpuset.Set, set cpuset.Set) cpuset.Set {
	all := set
	for _, g := range groups {
		if g.Intersects(set) {
			all = all.Union(g)
		}
	}
	return all
}
