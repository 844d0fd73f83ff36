package alloc

import "fmt"

// Reason is one term of the assessment of an answer.
type Reason struct {
	// Term is the name: a field of Vector in camel case, or "exclusive", "numaExclusive" or "exact" for what was given
	// up.
	Term string `json:"term"`
	// Value is the value of the answer, Best the value for the same request on the empty machine.
	Value int `json:"value"`
	Best  int `json:"best"`
	// Text is one plain sentence.
	Text string `json:"text"`
}

// Why returns the reasons of an answer: the terms in the order of their weight, then what was given up. It solves the
// request again for the empty machine, and allocates memory.
func (a *Answer) Why() []Reason {
	if a.machine == nil {
		return nil
	}
	var s Scratch
	ideal, _ := a.machine.Allocate(&s, &Taken{}, &a.request)
	v, b := &a.Vector, &ideal.Vector
	reasons := []Reason{of("numaNodes", v.NUMANodes, b.NUMANodes, "in %s", "NUMA node")}
	if v.FarDevices > 0 {
		reasons = append(reasons, of("farDevices", v.FarDevices, b.FarDevices, "%s of devices that its NUMA nodes do not have in full", "kind"))
	}
	if v.Unheld > 0 {
		reasons = append(reasons, of("unheld", v.Unheld, b.Unheld, "%s of memory not known to fit its NUMA nodes", "amount"))
	}
	if !a.request.PreferNodes.IsEmpty() {
		reasons = append(reasons, of("offPreferred", v.OffPreferred, b.OffPreferred, "%s outside the preferred NUMA nodes", "CPU"))
	}
	if v.NUMANodes > 1 {
		reasons = append(reasons, of("sockets", v.Sockets, b.Sockets, "in %s", "socket"))
		if t := a.machine.topo; len(t.Dies) > len(t.Sockets) {
			reasons = append(reasons, of("dies", v.Dies, b.Dies, "in %s", "die"))
		}
		reasons = append(reasons,
			of("distance", v.Distance, b.Distance, "%s between its NUMA nodes", "unit of distance"))
	}
	reasons = append(reasons, of("l3s", v.L3s, b.L3s, "in %s", "L3 domain"))
	if a.request.Bind == SpreadByPCPUs {
		reasons = append(reasons, of("cores", v.Cores, b.Cores, "on %s", "core"))
	} else {
		reasons = append(reasons,
			of("split", v.Split, b.Split, "%s held partly", "core"),
			of("broken", v.Broken, b.Broken, "%s broken up that was wholly free", "core"))
	}
	reasons = append(reasons,
		of("freeL3", v.FreeL3, b.FreeL3, "%s left free in its L3 domains", "CPU"),
		of("freeNUMA", v.FreeNUMA, b.FreeNUMA, "%s left free in its NUMA nodes", "CPU"),
		of("freeSocket", v.FreeSocket, b.FreeSocket, "%s left free in its sockets", "CPU"))
	return append(reasons, a.givenUp()...)
}

// of returns a Reason. Its text adds the value on the empty machine if that differs.
func of(term string, value, best int, format, noun string) Reason {
	text := fmt.Sprintf(format, count(value, noun))
	if value != best {
		text += fmt.Sprintf(" (%d on the empty machine)", best)
	}
	return Reason{term, value, best, text}
}

func count(n int, noun string) string {
	switch {
	case n == 0:
		return "no " + noun
	case n == 1:
		return "1 " + noun
	case noun == "unit of distance":
		return fmt.Sprintf("%d units of distance", n)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// givenUp returns the reasons for what the answer lacks.
func (a *Answer) givenUp() (reasons []Reason) {
	if a.Dropped&DroppedExclusive != 0 {
		reasons = append(reasons, Reason{"exclusive", 0, 1, "not exclusive: nothing free allows it, and it was only preferred"})
	}
	if a.Dropped&DroppedNUMAExclusive != 0 {
		reasons = append(reasons, Reason{"numaExclusive", 0, 1, "not kept apart from pods on its NUMA nodes: nothing free allows it, and it was only preferred"})
	}
	if !a.Exact {
		reasons = append(reasons, Reason{"exact", 0, 1, "perhaps not the best: there are too many sets of NUMA nodes and L3 domains to look at all"})
	}
	return reasons
}
