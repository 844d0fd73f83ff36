package placement

import (
	"slices"
	"strconv"
)

// Rules are an administrator's limits on exclusive CPUs of the pods of a namespace. The zero value allows everything.
type Rules struct {
	// Namespaces are the namespaces that may pin; empty means all.
	Namespaces []string
	// MostCPUs is the cap of a namespace; 0 is no cap.
	MostCPUs int64
	// WholeRequest refuses pods that request fewer CPUs than they get.
	WholeRequest bool
}

// Allows reports whether pods of a namespace may have exclusive CPUs.
func (r Rules) Allows(namespace string) bool {
	return len(r.Namespaces) == 0 || slices.Contains(r.Namespaces, namespace)
}

// Refusal returns why a pod of a namespace may not have the CPUs that it asks for while the other pods of the namespace
// hold some, or "". full says that the pod might have them when the others hold fewer.
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
