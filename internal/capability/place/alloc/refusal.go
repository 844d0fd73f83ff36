package alloc

import "fmt"

// RefusalCode is the cause of a refusal.
type RefusalCode uint8

const (
	// Placed is no refusal.
	Placed RefusalCode = iota
	// BadRequest is a request without containers, or with a container of fewer than one CPU.
	BadRequest
	// NotWholeCores is a container whose CPU count is not a multiple of the threads of a core, where FullPCPUs is
	// required. Want is the count, Have the threads.
	NotWholeCores
	// TooFewCPUs is a lack of free CPUs. Want and Have are CPUs.
	TooFewCPUs
	// TooFewWholeCores is a lack of wholly free cores, where FullPCPUs is required. Want and Have are cores.
	TooFewWholeCores
	// TooFewCores is a lack of cores with a free CPU, where SpreadByPCPUs is required. Want and Have are cores.
	TooFewCores
	// TooFewExclusive is a lack of cores without another pod, for PCPULevel. Want and Have are the CPUs of such cores,
	// or the cores if SpreadByPCPUs is required.
	TooFewExclusive
	// TooFewExclusiveNodes is a lack of NUMA nodes without another pod, for NUMANodeLevel. Want and Have are their
	// CPUs.
	TooFewExclusiveNodes
	// NodesHeldAlone means that pods hold NUMA nodes alone. Want and Have are CPUs of the other nodes.
	NodesHeldAlone
	// KeptApart means that NUMA exclusivity leaves too few CPUs: it separates pods inside one NUMA node from pods that
	// cross nodes. Want and Have are CPUs.
	KeptApart
)

// Word returns the code as one machine-readable word, or "" for Placed.
func (c RefusalCode) Word() string {
	return [...]string{
		BadRequest: "BadRequest", NotWholeCores: "NotWholeCores", TooFewCPUs: "TooFewCPUs", TooFewWholeCores: "TooFewWholeCores",
		TooFewCores: "TooFewCores", TooFewExclusive: "TooFewExclusive", TooFewExclusiveNodes: "TooFewExclusiveNodes",
		NodesHeldAlone: "NodesHeldAlone", KeptApart: "KeptApart",
	}[c]
}

// Scope is the part of the machine in which the CPUs of a refused pod had to be.
type Scope uint8

const (
	// Anywhere is the machine.
	Anywhere Scope = iota
	// InOneNode is one NUMA node.
	InOneNode
	// InFewNodes is as few NUMA nodes as the request needs on the empty machine.
	InFewNodes
	// InOneDomain is one L3 domain or one NUMA node.
	InOneDomain
)

// Refusal is why a machine cannot place a pod; the zero value means that it can. Refusals can be compared with ==.
type Refusal struct {
	Code  RefusalCode
	Scope Scope
	// Want is what the request needs, Have the most that is available within Scope.
	Want, Have int
}

// String returns what the machine lacks, or "" for no refusal. The text is equal on all machines that refuse for the
// same cause, except that a Want counted in cores depends on the threads of a core.
func (r Refusal) String() string {
	switch r.Code {
	case Placed:
		return ""
	case BadRequest:
		return "no CPUs asked for"
	case NotWholeCores:
		return fmt.Sprintf("%d CPUs are not whole cores", r.Want)
	case TooFewWholeCores:
		return fmt.Sprintf("fewer than %d free cores%s", r.Want, r.Scope)
	case TooFewCores:
		return fmt.Sprintf("fewer than %d cores with a free CPU%s", r.Want, r.Scope)
	case TooFewExclusive:
		return fmt.Sprintf("fewer than %d CPUs on cores without another pod%s", r.Want, r.Scope)
	case TooFewExclusiveNodes:
		return fmt.Sprintf("fewer than %d free CPUs in NUMA nodes without another pinned pod%s", r.Want, r.Scope)
	case NodesHeldAlone:
		return fmt.Sprintf("fewer than %d free CPUs outside NUMA nodes that a pod holds alone", r.Want)
	case KeptApart:
		return fmt.Sprintf("fewer than %d free CPUs%s apart from pods that exclude each other", r.Want, r.Scope)
	case TooFewCPUs:
	}
	return fmt.Sprintf("fewer than %d free CPUs%s", r.Want, r.Scope)
}

// String returns the scope as the end of a sentence.
func (s Scope) String() string {
	switch s {
	case InOneNode:
		return " in one NUMA node"
	case InFewNodes:
		return " in as few NUMA nodes as an empty machine needs"
	case InOneDomain:
		return " in one L3 or NUMA node"
	case Anywhere:
	}
	return ""
}

// Detail returns String with the figures of this machine.
func (r Refusal) Detail() string {
	switch r.Code {
	case Placed, BadRequest:
		return r.String()
	case NotWholeCores:
		return fmt.Sprintf("%s: a core has %d threads", r, r.Have)
	}
	if r.Scope == Anywhere {
		return fmt.Sprintf("%s: there are %d", r, r.Have)
	}
	return fmt.Sprintf("%s: the most there are is %d", r, r.Have)
}
