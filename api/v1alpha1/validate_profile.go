package v1alpha1

import (
	"maps"
	"slices"
	"strings"
)

// ValidateProfile returns every problem of p that can be found without knowing knobs or a machine.
func ValidateProfile(p Profile) FieldErrors {
	var e FieldErrors
	e.exactly("apiVersion", p.APIVersion, APIVersion)
	e.exactly("kind", p.Kind, KindProfile)
	const named = "lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit, at most 253"
	if !isName(p.Name) {
		e.add("metadata.name", present(p.Name), named)
	}
	if p.Spec.Inherit != "" && !isName(p.Spec.Inherit) {
		e.add("spec.inherit", p.Spec.Inherit, "the name of a profile: "+named)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Spec.CPUs)) {
		e.cpus(entry("spec.cpus", name), name, p.Spec.CPUs[name])
	}
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Settings)) {
		if p.Spec.Settings[name].Value == "" {
			e.add(entry("spec.settings", name), nil, "a value, or an object of value and optional")
		}
	}
	if e.short("spec.units", len(p.Spec.Units)) {
		e.units("spec.units", p.Spec.Units)
	}
	for i, arg := range p.Spec.Boot {
		if arg == "" || hasControl(arg) || strings.ContainsAny(arg, ` "'\`) {
			e.add(index("spec.boot", i), arg, `one boot argument without blanks, quotes or backslashes, such as nohz_full=$fast`)
		}
	}
	return e
}

func (e *FieldErrors) cpus(field, name string, c ProfileCPUs) {
	if !isName(name) || name[0] < 'a' {
		e.add(field, name, "a name of lower-case letters, digits, '-' and '.' that begins with a letter")
	}
	if c.CPUs != "" && (c.NUMANodes != "" || c.CoresPerNUMANode != nil) {
		e.add(field+".cpus", c.CPUs, "only without numaNodes and coresPerNUMANode")
	}
	e.between(field+".coresPerNUMANode", c.CoresPerNUMANode, 1, maxList)
	for i, other := range c.Without {
		if other == name {
			e.add(index(field+".without", i), other, "the name of another set")
		}
	}
	if c.Partition != "" {
		oneOf(e, field+".partition", c.Partition, CPUPartitions())
	}
}

func (e *FieldErrors) units(field string, units []ProfileUnit) {
	for i, u := range units {
		at := index(field, i)
		if u.Unit == "" {
			e.add(at+".unit", nil, "a systemd unit, for example db.service")
			continue
		}
		e.unit(at+".unit", u.Unit)
		same := func(other ProfileUnit) bool { return other.Unit == u.Unit }
		if slices.ContainsFunc(units[:i], same) {
			e.add(at+".unit", u.Unit, "each unit only once")
		}
		if u.CPUs == "" && u.Mems == "" && u.Policy == "" && u.Slice == "" && u.RTBudget == "" {
			e.add(at, u.Unit, "at least one of cpus, mems, policy, slice, rtBudget")
		}
	}
}
