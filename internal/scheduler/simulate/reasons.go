package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// LeftEmpty returns the CPUs that an answer withholds from all pods, including its own: the siblings that PCPULevel
// leaves empty. CPUs that no pod can get anyway are not included.
func LeftEmpty(m *alloc.Machine, a *alloc.Answer) cpuset.Set {
	return a.Occupied.Difference(a.CPUs).Intersect(m.Pinnable())
}

// leftEmpty is like LeftEmpty for a pod that holds CPUs.
func leftEmpty(m *alloc.Machine, held *placement.Held) cpuset.Set {
	return held.Occupied(m).Difference(held.CPUs()).Intersect(m.Pinnable())
}

// Reasons returns the terms that chose the CPUs of an answer, which Decide returned for n and a. The allocator counts
// siblings left empty as free, as its comparison requires. No pod can have them, so here they count as used.
func Reasons(n placement.Node, a *placement.Ask, answer *alloc.Answer) []Reason {
	all := []Reason{}
	for _, reason := range answer.Why() {
		all = append(all, Reason(reason))
	}
	if a.Request.Exclusive != alloc.PCPULevel {
		return all
	}
	best := answer
	var scratch alloc.Scratch // answer may live in the caller's
	n.RequestedMilli = 0
	if ideal, no := placement.Decide(&scratch, n, &placement.Occupancy{}, a); no.OK() {
		best = &ideal.Answer
	}
	for i, reason := range all {
		if value, text := freeBeside(n.Machine, answer, reason.Term); text != "" {
			least, _ := freeBeside(n.Machine, best, reason.Term)
			all[i] = Reason{Term: reason.Term, Value: value, Best: least, Text: freeText(value, least, text)}
		}
	}
	return all
}

func freeText(value, best int, where string) string {
	text := "no CPU"
	if value > 0 {
		text = countOf(value)
	}
	text += " left free in its " + where
	if value != best {
		text += fmt.Sprintf(" (%d on the empty machine)", best)
	}
	return text
}

// freeBeside returns how many CPUs other pods could still have in the domains that an answer touches, and the name of
// these domains; "" for a term that counts no free CPUs.
func freeBeside(m *alloc.Machine, a *alloc.Answer, term string) (free int, where string) {
	t, empty := m.Topology(), LeftEmpty(m, a)
	switch term {
	case "freeL3":
		return a.Vector.FreeL3 - emptyIn(t.L3, func(d topology.L3) cpuset.Set { return d.CPUs }, a.CPUs, empty), "L3 domains"
	case "freeNUMA":
		return a.Vector.FreeNUMA - emptyIn(t.Nodes, func(n topology.Node) cpuset.Set { return n.CPUs }, a.CPUs, empty), "NUMA nodes"
	case "freeSocket":
		return a.Vector.FreeSocket - emptyIn(t.Sockets, func(s topology.Socket) cpuset.Set { return s.CPUs }, a.CPUs, empty), "sockets"
	default:
		return 0, ""
	}
}

func emptyIn[T any](domains []T, cpus func(T) cpuset.Set, chosen, empty cpuset.Set) int {
	n := 0
	for _, domain := range domains {
		if cpus(domain).Intersects(chosen) {
			n += cpus(domain).Intersect(empty).Size()
		}
	}
	return n
}

// Remote reports NUMA nodes of CPUs that have no memory: every access from there goes to other nodes. If the memory of
// the machine is unknown, it returns nil.
func Remote(t *topology.Topology, cpus cpuset.Set) []Reason {
	far := t.NodesOf(cpus).Difference(t.MemoryNodes())
	if far.IsEmpty() {
		return nil
	}
	has := "has"
	if far.Size() > 1 {
		has = "have"
	}
	text := fmt.Sprintf("%s %s no memory: every access from CPUs there is remote", nodesText(far), has)
	return []Reason{{Term: "remote", Value: far.Size(), Best: 0, Text: text}}
}

// memoryReasons returns why containers may use memory of more NUMA nodes than the nodes of their CPUs, and which of the
// CPUs' nodes have no memory.
func memoryReasons(t *topology.Topology, d *demand, containers []Container) []Reason {
	return remoteMemory(t, containers, func(c Container, _, near cpuset.Set) Reason {
		text := unlimited
		if d.memoryOf(c.Name) > 0 {
			text = "memory of all NUMA nodes: " + d.unfit(t, near)
		}
		return Reason{Term: "mems", Value: t.MemoryNodes().Size(), Best: 1, Text: text}
	})
}

// heldMemory is memoryReasons for containers of a bound pod. would is what they would get now with the same CPUs, nil if
// that is not known. It does not say why the pod got its memory nodes: that was decided beside other pods, and a pod that
// was moved keeps its earlier nodes.
func heldMemory(t *topology.Topology, d *demand, containers, would []Container) []Reason {
	return remoteMemory(t, containers, func(c Container, mems, near cpuset.Set) Reason {
		reason := Reason{Term: "mems", Value: mems.Size(), Best: near.Size()}
		now, known := containerOf(would, c.Name)
		if known && d.memoryOf(c.Name) == 0 && mems == t.MemoryNodes() {
			reason.Text = unlimited
			return reason
		}
		only := "not"
		if near.IsSubsetOf(mems) {
			only = "not only"
		}
		reason.Text = fmt.Sprintf("memory of %s, %s of %s", nodesText(mems), only, nodesText(near))
		switch {
		case !known || d.memoryOf(c.Name) == 0:
		case now.Mems == near.String():
			reason.Text += "; a new placement on its CPUs would bind it there"
		default:
			reason.Text += "; now " + d.unfit(t, near)
		}
		return reason
	})
}

const unlimited = "no memory limit or request: memory of all NUMA nodes"

// remoteMemory returns which NUMA nodes of the containers' CPUs have no memory. Then it returns the reasons that why gives
// for containers with other memory than that of their own nodes, each once. why gets the NUMA nodes of a container's
// memory, and those near its CPUs.
func remoteMemory(t *topology.Topology, containers []Container, why func(c Container, mems, near cpuset.Set) Reason) []Reason {
	var all cpuset.Set
	names := map[string][]string{} // by the reason's text
	var reasons []Reason
	for _, c := range containers {
		cpus, _ := cpuset.Parse(c.CPUs) // valid: made by Decision, or checked when read
		mems, _ := cpuset.Parse(c.Mems)
		all = all.Union(cpus)
		near := t.MemoryNear(cpus)
		if near.IsEmpty() || mems == near {
			continue
		}
		reason := why(c, mems, near)
		if names[reason.Text] == nil {
			reasons = append(reasons, reason)
		}
		names[reason.Text] = append(names[reason.Text], c.Name)
	}
	for i, reason := range reasons {
		if of := names[reason.Text]; len(of) < len(containers) {
			reasons[i].Text = strings.Join(of, ", ") + ": " + reason.Text
		}
	}
	return append(Remote(t, all), reasons...)
}

// unfit returns why memory with a limit or request is not bound to the NUMA nodes near its CPUs.
func (d *demand) unfit(t *topology.Topology, near cpuset.Set) string {
	switch none := (workload.HugePages{}); {
	case d.pinning.Besides.ScheduledHuge == none:
		return fmt.Sprintf("not known to fit %s beside what else is requested", nodesText(near))
	case !t.PoolsKnown():
		return "not known which huge pages each has"
	default:
		return fmt.Sprintf("with its huge pages not known to fit %s beside what else is requested", nodesText(near))
	}
}

func containerOf(all []Container, name string) (Container, bool) {
	i := slices.IndexFunc(all, func(c Container) bool { return c.Name == name })
	if i < 0 {
		return Container{}, false
	}
	return all[i], true
}

// memoryOf returns the bound of a container's memory, 0 for none.
func (d *demand) memoryOf(container string) int64 {
	if d.pinning.PerPod && d.pinning.PodMemory == 0 {
		for _, c := range d.pinning.Pinned {
			if c.Memory == 0 {
				return 0
			}
		}
	}
	i := slices.IndexFunc(d.pinning.Pinned, func(c workload.PinnedContainer) bool { return c.Name == container })
	if i < 0 {
		return 0
	}
	return d.pinning.Pinned[i].Memory
}
