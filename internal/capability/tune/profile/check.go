package profile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Local means the memory nodes of a unit's own CPUs.
const Local = "local"

// policies are the scheduling policies without a priority.
func policies() []string { return []string{"other", "batch", "idle"} }

// PolicyRange describes the texts that Policy accepts.
const PolicyRange = "other, batch, idle, fifo:1 to fifo:99, rr:1 to rr:99"

// Check returns the problems of one document that do not depend on a machine or on parents: unknown knobs, and values
// that no host accepts.
func Check(p v1alpha1.Profile) v1alpha1.FieldErrors {
	var e v1alpha1.FieldErrors
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Settings)) {
		e = append(e, checkSetting(name, string(p.Spec.Settings[name].Value))...)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Spec.CPUs)) {
		set := p.Spec.CPUs[name]
		e = append(e, checkList(setField(name)+".cpus", set.CPUs)...)
		e = append(e, checkList(setField(name)+".numaNodes", set.NUMANodes)...)
	}
	for i, u := range p.Spec.Units {
		e = append(e, checkUnit(fmt.Sprintf("spec.units[%d]", i), u)...)
	}
	return e
}

func setField(name string) string     { return "spec.cpus[" + name + "]" }
func settingField(name string) string { return "spec.settings[" + name + "]" }

func problem(field, value, allowed string) v1alpha1.FieldErrors {
	return v1alpha1.FieldErrors{{Field: field, Value: v1alpha1.Show(value), Allowed: allowed}}
}

// sysctlTrees returns the prefixes of sysctl names, which no knob has.
func sysctlTrees() []string {
	return []string{"fs.", "kernel.", "net.core.", "net.ipv4.", "net.ipv6.", "user.", "vm."}
}

func checkSetting(name, value string) v1alpha1.FieldErrors {
	k, ok := knob.Lookup(name)
	if !ok && slices.ContainsFunc(sysctlTrees(), func(tree string) bool { return strings.HasPrefix(name, tree) }) {
		return problem(settingField(name), value, knob.Prefix+name+", which is that sysctl")
	}
	if !ok {
		return problem(settingField(name), value, "only the knobs "+strings.Join(knob.Names(), ", ")+", and sysctl.NAME")
	}
	if _, err := k.Parse(value); err != nil {
		return problem(settingField(name), value, k.Range())
	}
	if named, _, is := knob.Named(strings.TrimPrefix(name, knob.Prefix)); is && k.Unit == knob.Text && !knob.Whole(value) {
		return problem(settingField(name), value, "a whole number, as in the kernel's file; "+named.Name+" takes "+named.Range())
	}
	return nil
}

// checkList checks a list of CPUs or nodes, which may be absent.
func checkList(field, list string) v1alpha1.FieldErrors {
	set, err := cpuset.Parse(list)
	if err != nil || list != "" && set.IsEmpty() {
		return problem(field, list, "a list such as 0-3,8")
	}
	return nil
}

func checkUnit(field string, u v1alpha1.ProfileUnit) v1alpha1.FieldErrors {
	var e v1alpha1.FieldErrors
	if u.Mems != "" && u.Mems != Local {
		e = append(e, checkList(field+".mems", u.Mems)...)
	}
	if _, _, ok := Policy(u.Policy); u.Policy != "" && !ok {
		e = append(e, problem(field+".policy", u.Policy, PolicyRange)...)
	}
	slice, _ := knob.Lookup("fair.slice")
	if _, err := slice.Parse(u.Slice); u.Slice != "" && err != nil {
		e = append(e, problem(field+".slice", u.Slice, slice.Range())...)
	}
	if _, err := parseBudget(u.RTBudget); u.RTBudget != "" && err != nil {
		e = append(e, problem(field+".rtBudget", u.RTBudget, budgetRange)...)
	}
	if class, _, _ := Policy(u.Policy); u.Slice != "" && class != "" && class != "other" && class != "batch" {
		e = append(e, problem(field+".slice", u.Slice, "only with policy other or batch")...)
	}
	return e
}

// budgetRange describes the texts that parseBudget accepts.
const budgetRange = "a duration of 1ms to 1s in steps of 1us"

// parseBudget reads a unit's budget for real-time threads, with the range of the host's total. It returns microseconds.
func parseBudget(text string) (int64, error) {
	host, _ := knob.Lookup("rt.runtime")
	v, err := host.Parse(text)
	if err == nil && v.Word != "" {
		err = knob.ErrValue
	}
	return v.N / int64(time.Microsecond), err
}

// Policy reads a scheduling policy: its class, and the priority of a real-time policy.
func Policy(text string) (class string, priority int, ok bool) {
	if slices.Contains(policies(), text) {
		return text, 0, true
	}
	class, digits, _ := strings.Cut(text, ":")
	priority, err := strconv.Atoi(digits)
	if class != "fifo" && class != "rr" || err != nil || priority < 1 || priority > 99 {
		return "", 0, false
	}
	return class, priority, true
}

// setNames returns each NAME of $NAME in a boot argument.
func setNames(arg string) []string {
	var names []string
	for _, match := range setName().FindAllStringSubmatch(arg, -1) {
		names = append(names, match[1])
	}
	return names
}

func setName() *regexp.Regexp { return regexp.MustCompile(`\$([a-z][a-z0-9.-]*[a-z0-9]|[a-z])`) }
