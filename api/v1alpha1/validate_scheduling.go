package v1alpha1

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxID is the highest possible id of a CPU or a NUMA node.
	maxID = 1023
	// maxCPUList bounds a CPU list; every other CPU of 1024 needs 2,500 bytes.
	maxCPUList = 4096
	// maxLabel is the length of a DNS label (RFC 1123): namespaces, containers.
	maxLabel = 63
	// hashDigits is the length of NodeTopologySpec.Hash.
	hashDigits = 16
)

// ValidateResourceSpec returns every field of s whose value does not exist.
func ValidateResourceSpec(s ResourceSpec) FieldErrors {
	var e FieldErrors
	maybeOneOf(&e, "requiredCPUBindPolicy", s.RequiredCPUBindPolicy, CPUBindPolicies())
	maybeOneOf(&e, "preferredCPUBindPolicy", s.PreferredCPUBindPolicy, CPUBindPolicies())
	maybeOneOf(&e, "requiredCPUExclusivePolicy", s.RequiredCPUExclusivePolicy, CPUExclusivePolicies())
	maybeOneOf(&e, "preferredCPUExclusivePolicy", s.PreferredCPUExclusivePolicy, CPUExclusivePolicies())
	return e
}

// ValidateNUMATopologySpec returns every field of s whose value does not exist.
func ValidateNUMATopologySpec(s NUMATopologySpec) FieldErrors {
	var e FieldErrors
	maybeOneOf(&e, "numaTopologyPolicy", s.NUMATopologyPolicy, NUMATopologyPolicies())
	maybeOneOf(&e, "singleNUMANodeExclusive", s.SingleNUMANodeExclusive, NUMAExclusives())
	maybeOneOf(&e, "numaAllocateStrategy", s.NUMAAllocateStrategy, NUMAAllocateStrategies())
	return e
}

// ValidateSchedulerArgs returns every problem of a, which has its defaults.
func ValidateSchedulerArgs(a SchedulerArgs) FieldErrors {
	var e FieldErrors
	if a.APIVersion != "" {
		e.exactly("apiVersion", a.APIVersion, APIVersion)
	}
	if a.Kind != "" {
		e.exactly("kind", a.Kind, KindSchedulerArgs)
	}
	e.pinRules("", PinRules{a.Namespaces, a.MaxPinnedCPUsPerNamespace, a.RequestBelowLimit})
	oneOf(&e, "numaAllocateStrategy", a.NUMAAllocateStrategy, NUMAAllocateStrategies())
	e.label("leaseNamespace", a.LeaseNamespace)
	e.between("staleAfterSeconds", a.StaleAfterSeconds, 0, 86400)
	return e
}

// pinRules checks the rules; the names of their fields begin with prefix.
func (e *FieldErrors) pinRules(prefix string, r PinRules) {
	if e.short(prefix+"namespaces", len(r.Namespaces)) {
		for i, namespace := range r.Namespaces {
			at := index(prefix+"namespaces", i)
			e.label(at, namespace)
			if slices.Contains(r.Namespaces[:i], namespace) {
				e.add(at, namespace, "each namespace only once")
			}
		}
	}
	e.between(prefix+"maxPinnedCPUsPerNamespace", r.MaxPinnedCPUsPerNamespace, 0, math.MaxInt32)
	oneOf(e, prefix+"requestBelowLimit", r.RequestBelowLimit, RequestBelowLimits())
}

// ValidatePlacement returns every problem of p that can be found without a topology.
func ValidatePlacement(p Placement) FieldErrors {
	var e FieldErrors
	if p.V < 1 || p.V > PlacementVersion {
		e.add("v", p.V, fmt.Sprintf("1 to %d", PlacementVersion))
	}
	if len(p.Topology) != hashDigits || strings.Trim(p.Topology, digits+"abcdef") != "" {
		e.add("topology", present(p.Topology), "16 hexadecimal digits, the hash of a NodeTopology")
	}
	if p.Exclusive != "" {
		oneOf(&e, "exclusive", p.Exclusive, CPUExclusivePolicies()[1:])
	}
	if len(p.Containers) == 0 {
		e.add("containers", nil, "one entry for each pinned container")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Containers)) {
		e.container(entry("containers", name), p.Containers[name])
	}
	return e
}

// ValidateMove returns every problem of m that can be found without a topology.
func ValidateMove(m Move) FieldErrors {
	var e FieldErrors
	if m.V < 1 || m.V > MoveVersion {
		e.add("v", m.V, fmt.Sprintf("1 to %d", MoveVersion))
	}
	e.cpuList("from", m.From)
	e.cpuList("to", m.To)
	return e
}

func (e *FieldErrors) container(field string, c ContainerPlacement) {
	e.cpuList(join(field, "cpus"), c.CPUs)
	e.cpuList(join(field, "mems"), c.Mems)
	if c.First != "" {
		e.cpuList(join(field, "first"), c.First)
	}
	oneOf(e, join(field, "policy"), c.Policy, PlacementPolicies())
	if (c.Policy == PlacementStaticBurst) != (c.Domain != "") || c.Domain != "" && !isDomain(c.Domain) {
		e.add(join(field, "domain"), present(c.Domain), `with the policy static-burst "l3:" or "numa:" and an id; none without it`)
	}
}

// cpuList checks a list that must not be empty.
func (e *FieldErrors) cpuList(field, list string) {
	fits := len(list) <= maxCPUList
	for part := range strings.SplitSeq(list, ",") {
		fits = fits && isRange(part)
	}
	if !fits {
		e.add(field, present(list), `a list such as "0-3,8" of ids from 0 to 1023, not empty`)
	}
}

func isRange(part string) bool {
	first, last, found := strings.Cut(part, "-")
	low, ok := number(first, maxID)
	if !found {
		return ok
	}
	high, valid := number(last, maxID)
	return ok && valid && low <= high
}

func isDomain(domain string) bool {
	id, found := strings.CutPrefix(domain, "l3:")
	if !found {
		id, found = strings.CutPrefix(domain, "numa:")
	}
	_, ok := number(id, math.MaxUint32)
	return found && ok
}

// number reads decimal digits without a sign.
func number(text string, high int64) (int64, bool) {
	value, err := strconv.ParseInt(text, 10, 64)
	return value, err == nil && value <= high && strings.Trim(text, digits) == ""
}

// label checks a DNS label (RFC 1123).
func (e *FieldErrors) label(field, value string) {
	if !isName(value) || len(value) > maxLabel || strings.Contains(value, ".") {
		e.add(field, present(value), "lower-case letters, digits and '-', beginning and ending with a letter or digit, at most 63")
	}
}

// maybeOneOf also accepts an empty value, which Koordinator's clients write.
func maybeOneOf[T ~string](e *FieldErrors, field string, value *T, allowed []T) {
	if value != nil && *value != "" {
		oneOf(e, field, *value, allowed)
	}
}
