package alloc

import "fmt"

// RefusalCode is why a machine cannot take a pod.
type RefusalCode uint8

const (
	// Placed is no refusal.
	Placed RefusalCode = iota
	// BadRequest is a request without containers, or one with fewer than one
	// CPU.
	BadRequest
	// NotWholeCores is required FullPCPUs with a container whose count is no
	// multiple of the threads of a core. Want is the count, Have the threads.
	NotWholeCores
	// TooFewCPUs is for want of free CPUs. Want and Have are CPUs.
	TooFewCPUs
	// TooFewWholeCores is for want of wholly free cores, where FullPCPUs is
	// required. Want and Have are cores.
	TooFewWholeCores
	// TooFewCores is for want of cores with a free CPU, where SpreadByPCPUs is
	// required. Want and Have are cores.
	TooFewCores
	// TooFewExclusive is for want of cores without another pod, for PCPULevel.
	// Want and Have are their CPUs, with required SpreadByPCPUs the cores.
	TooFewExclusive
	// TooFewExclusiveNodes is for want of NUMA nodes without another pod, for
	// NUMANodeLevel. Want and Have are their CPUs.
	TooFewExclusiveNodes
	// NodesHeldAlone is for NUMA nodes that pods hold alone. Want and Have are
	// CPUs of the others.
	NodesHeldAlone
	// KeptApart is for NUMA exclusivity: pods that stay in one NUMA node and pods
	// that cross nodes are kept apart. Want and Have are CPUs.
	KeptApart
)

// Word returns the code as one word, for machines; "" where there is no refusal.
func (c RefusalCode) Word() string {
	return [...]string{
		BadRequest: "BadRequest", NotWholeCores: "NotWholeCores", TooFewCPUs: "TooFewCPUs", TooFewWholeCores: "TooFewWholeCores",
		TooFewCores: "TooFewCores", TooFewExclusive: "TooFewExclusive", TooFewExclusiveNodes: "TooFewExclusiveNodes",
		NodesHeldAlone: "NodesHeldAlone", KeptApart: "KeptApart",
	}[c]
}

// Scope is where the CPUs of a refused pod had to be.
type Scope uint8

const (
	// Anywhere is the machine.
	Anywhere Scope = iota
	// InOneNode is one NUMA node.
	InOneNode
	// InFewNodes is as few NUMA nodes as the empty machine needs.
	InFewNodes
	// InOneDomain is one L3 or one NUMA node.
	InOneDomain
)

// Refusal says why a machine cannot take a pod; the zero value is none. It is a
// value that can be compared.
type Refusal struct {
	Code  RefusalCode
	Scope Scope
	// Want is what was asked for, Have the most that there is within Scope.
	Want, Have int
}

// String returns what the machine lacks, equal on all machines
// that refuse for the same cause, "" for no refusal. Want counted in cores
// depends on the threads of a core.
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
