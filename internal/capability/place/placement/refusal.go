package placement

import (
	"fmt"

	"github.com/berth-project/berth/internal/capability/place/alloc"
)

// RefusalCode is the reason why a pod does not go to a node. The zero value is no refusal. A new code needs a text in
// String, a word in Word, and perhaps Detail, Permanent, and a reason of the scheduler's metrics.
type RefusalCode uint8

// The codes.
const (
	// Placed is no refusal.
	Placed RefusalCode = iota
	// NoTopology is a node with unknown CPUs.
	NoTopology
	// NUMAPolicyDiffers is a node with another NUMA policy than the pod's.
	NUMAPolicyDiffers
	// BindPolicyDiffers is a node with a bind policy that the pod excludes.
	BindPolicyDiffers
	// Promised is a node whose CPUs are given out or requested, whether in use or not: the rule of Node.Surplus.
	Promised
	// UnknownCPUs is a node with pods on unknown CPUs, and too few other CPUs.
	UnknownCPUs
	// SharedPool is a node that would have no whole core left for all other containers.
	SharedPool
	// Allocation is a refusal of the allocator: Refusal.Alloc.
	Allocation
	// TooLarge is a node with fewer CPUs than the pod needs.
	TooLarge
	// Resizing is a node that gives another pod other CPUs now. They are known as soon as that pod's annotation has
	// them.
	Resizing
)

// Refusal is why a pod does not go to a node. The zero value is no refusal.
type Refusal struct {
	Code RefusalCode
	// Alloc is valid with the code Allocation.
	Alloc alloc.Refusal
	// Want and Have are the compared amounts: thousandths of a CPU with Promised and TooLarge, CPUs with UnknownCPUs
	// and SharedPool.
	Want, Have int64
}

// OK reports whether there is no refusal.
func (r Refusal) OK() bool { return r.Code == Placed }

// Reason returns the reason as kube-scheduler counts it, "1 node(s) had ...": without the figures of the node, so that
// many nodes have the same reason. It is "" if there is no refusal.
func (r Refusal) Reason() string {
	switch {
	case r.OK():
		return ""
	case r.Code == Allocation && r.Alloc.Code == alloc.NotWholeCores:
		return fmt.Sprintf("node(s) had cores that %d CPUs do not fill", r.Alloc.Want)
	default:
		return "node(s) had " + r.String()
	}
}

// String returns what the node has or lacks, without its figures, or "" if there is no refusal.
func (r Refusal) String() string {
	switch r.Code {
	case NoTopology:
		return "no known CPU topology"
	case NUMAPolicyDiffers:
		return "another NUMA policy than the pod's"
	case BindPolicyDiffers:
		return "another CPU bind policy than the pod's"
	case Promised:
		return "CPUs promised to pinned containers"
	case UnknownCPUs:
		return "CPUs promised to pods without a placement"
	case SharedPool:
		return "no whole core left for the shared pool"
	case Allocation:
		return r.Alloc.String()
	case TooLarge:
		return "fewer CPUs than the pod needs"
	case Resizing:
		return "a resize or a move of exclusive CPUs under way"
	default:
		return ""
	}
}

// Word returns the reason as one word without figures, for machines, or "" if there is no refusal.
func (r Refusal) Word() string {
	if r.Code == Allocation {
		return r.Alloc.Code.Word()
	}
	return [...]string{
		NoTopology: "NoTopology", NUMAPolicyDiffers: "NUMAPolicyDiffers", BindPolicyDiffers: "BindPolicyDiffers",
		Promised: "Promised", UnknownCPUs: "UnknownCPUs", SharedPool: "SharedPool", TooLarge: "TooLarge",
		Resizing: "Resizing",
	}[r.Code]
}

// Detail returns the reason with the figures of this node.
func (r Refusal) Detail() string {
	switch r.Code {
	case Promised, TooLarge:
		return fmt.Sprintf("%v: %s CPUs wanted, %s left", r, cpus(r.Want), cpus(r.Have))
	case UnknownCPUs, SharedPool:
		return fmt.Sprintf("%v: %d CPUs wanted, %d left", r, r.Want, r.Have)
	case Allocation:
		return r.Alloc.Detail()
	default:
		return r.String()
	}
}

// Permanent reports whether the node would refuse the pod even if it were empty, as far as the code alone shows; Never
// decides it for all other codes.
func (r Refusal) Permanent() bool {
	return r.Code == NoTopology || r.Code == NUMAPolicyDiffers || r.Code == BindPolicyDiffers
}

// cpus formats thousandths of a CPU as CPUs.
func cpus(thousandths int64) string {
	if thousandths%milli == 0 {
		return fmt.Sprintf("%d", thousandths/milli)
	}
	return fmt.Sprintf("%.3f", float64(thousandths)/milli)
}
