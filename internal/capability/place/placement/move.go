package placement

import (
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// WorseThan reports whether the pod of a would be worse off with the CPUs of d than with those of was. Worse is: more
// NUMA nodes, sockets or L3 domains, more partly held cores, farther from its memory or devices, or a preference lost.
// Its devices do not move with it.
func (d *Decision) WorseThan(was *Decision, a *Ask) bool {
	v, w := &d.Answer.Vector, &was.Answer.Vector
	if len(a.Pod.Besides.Devices) > 0 && !d.Answer.Nodes.IsSubsetOf(was.Answer.Nodes) {
		return true
	}
	cores := v.Split > w.Split
	if d.Bind == alloc.SpreadByPCPUs {
		cores = v.Cores < w.Cores
	}
	return cores || v.FarDevices > w.FarDevices || v.NUMANodes > w.NUMANodes || v.Unheld > w.Unheld || v.OffPreferred > w.OffPreferred ||
		v.Sockets > w.Sockets || v.Dies > w.Dies || v.Distance > w.Distance || v.L3s > w.L3s || d.Answer.Dropped&^was.Answer.Dropped != 0
}

// LeavesCore reports whether a whole core remains for the shared pool beside all that is held and these CPUs.
func (n *Node) LeavesCore(o *Occupancy, cpus cpuset.Set) bool {
	return hasCore(n.Machine, n.Machine.Topology().Containers().Difference(o.Taken.CPUs()).Difference(cpus), o.Unknown)
}

// Beside returns h with additional CPUs that a pod has during a move. No other pod may have them, and they count in
// addition to the request.
func (h Held) Beside(cpus cpuset.Set) Held {
	more := cpus.Difference(h.holding.CPUs)
	h.holding.CPUs = h.holding.CPUs.Union(more)
	h.extra += int64(more.Size()) * milli
	return h
}
