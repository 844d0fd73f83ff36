package placement

import (
	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Part is what a placement says about one container.
type Part struct {
	CPUs, Mems cpuset.Set
	// First are the CPUs from before a resize to more CPUs; empty if these are all.
	First cpuset.Set
}

// PartOf returns the part of a container in a placement. Decoding has checked the lists; a missing list is empty.
func PartOf(c v1alpha1.ContainerPlacement) (p Part) {
	p.CPUs, _ = cpuset.Parse(c.CPUs)
	p.Mems, _ = cpuset.Parse(c.Mems)
	if c.First != "" {
		p.First, _ = cpuset.Parse(c.First)
		p.First = p.First.Intersect(p.CPUs)
	}
	return p
}

// Doubt is the first reason not to believe a part: anybody may have written the annotation. HeldBy ignores a part with
// a Doubt, and the node ignores the whole placement.
type Doubt uint8

// The Doubts, in the order in which Read looks for them. Read does not compare the CPUs with the limit if the pod may
// have been resized since its creation, since the annotation follows a resize.
const (
	NoDoubt    Doubt = iota
	Missing          // the placement has no CPUs for the container
	Absent           // no pod may have some of the CPUs on this machine
	Miscounted       // the number of CPUs is not the limit, rounded up
	Shared           // some of the CPUs are in Reader.Used; as they should be with PerPod, after the first part
	Fractional       // the limit is no whole number, and the part is not of static-burst, which rounds it up
)

// Reader reads a decoded placement part by part: HeldBy for the scheduler, package grant for the node. Both must agree.
type Reader struct {
	Machine *alloc.Machine
	Pod     *workload.Pinning
	Placed  v1alpha1.Placement
	// Used are the CPUs of the parts that the caller has believed so far.
	Used cpuset.Set
}

// Read returns the part of a container of the pod, and what is doubtful about it.
func (r *Reader) Read(c *workload.PinnedContainer) (p Part, doubt Doubt) {
	written := r.Placed.Containers[c.Name]
	p = PartOf(written)
	switch {
	case p.CPUs.IsEmpty():
		return p, Missing
	case !p.CPUs.IsSubsetOf(r.Machine.Pinnable()):
		return p, Absent
	case !r.Pod.Change.Changed && p.CPUs.Size() != c.CPUs:
		return p, Miscounted
	case p.CPUs.Intersects(r.Used):
		return p, Shared
	case !r.Pod.Change.Changed && c.Limit%milli != 0 && written.Policy != v1alpha1.PlacementStaticBurst:
		return p, Fractional
	}
	return p, NoDoubt
}

// Exclusive returns the granted exclusivity, of CPUs and of the NUMA node, as far as the pod still asks for it.
func (r *Reader) Exclusive() (cpus v1alpha1.CPUExclusivePolicy, node bool) {
	if r.Placed.Exclusive == r.Pod.Exclusive {
		cpus = r.Placed.Exclusive
	}
	return cpus, r.Placed.NUMAExclusive && r.Pod.NUMAExclusive != ""
}

// Agree reports whether the placement has the same list of CPUs for all containers. It is false without containers.
func (r *Reader) Agree(containers []workload.PinnedContainer) bool {
	for i := range containers {
		if r.Placed.Containers[containers[i].Name].CPUs != r.Placed.Containers[containers[0].Name].CPUs {
			return false
		}
	}
	return len(containers) > 0
}
