package placement

import (
	"slices"
	"strconv"
)

// Rules are what an administrator lets the pods of a namespace have for themselves. The
// zero value allows everything.
type Rules struct {
	// Namespaces may pin; empty means that all may.
	Namespaces []string
	// MostCPUs is the cap of a namespace; 0 sets none.
	MostCPUs int64
	// WholeRequest refuses pods that request less than they get.
	WholeRequest bool
}

// Allows says whether pods of a namespace may have CPUs for themselves.
func (r Rules) Allows(namespace string) bool {
	return len(r.Namespaces) == 0 || slices.Contains(r.Namespaces, namespace)
}

// Refusal says why a pod of a namespace may not have what it asks for while the other
// pods of the namespace hold some CPUs, "" if it may. full says that it might when they
// hold fewer.
func (r Rules) Refusal(namespace string, ask *Ask, held int64) (why string, full bool) {
	own := int64(ask.CPUs())
	switch {
	case !r.Allows(namespace):
		return "namespace " + namespace + " is not allowed to pin CPUs", false
	case r.WholeRequest && ask.HiddenMilli() > 0:
		return "pinned containers must request as many CPUs as their limits say", false
	case r.MostCPUs == 0:
		return "", false
	case own > r.MostCPUs:
		return "more pinned CPUs than the " + strconv.FormatInt(r.MostCPUs, 10) + " that a namespace may have", false
	case held+own > r.MostCPUs:
		return "namespace " + namespace + " has " + strconv.FormatInt(held, 10) + " of the " +
			strconv.FormatInt(r.MostCPUs, 10) + " pinned CPUs that it may have", true
	}
	return "", false
}
