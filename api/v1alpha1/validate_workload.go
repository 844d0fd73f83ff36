package v1alpha1

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// maxPID is PID_MAX_LIMIT of a 64-bit kernel (include/linux/threads.h).
	maxPID = 1 << 22
	// maxCPUs is above the size of every machine and far below an overflow of milli-CPUs.
	maxCPUs = 65536
	// maxName is the length of a DNS name (RFC 1123), as in Kubernetes.
	maxName = 253
	// maxUnit is UNIT_NAME_MAX of systemd.
	maxUnit = 255
	// maxList bounds the lists whose elements are compared with each other.
	maxList = 1024
)

const (
	letters = "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
)

// ValidateWorkload returns every problem of w except those of its JSON annotations: a wrong annotation disables its own
// capability and not the workload.
func ValidateWorkload(w Workload) FieldErrors {
	var e FieldErrors
	e.exactly("apiVersion", w.APIVersion, APIVersion)
	e.exactly("kind", w.Kind, KindWorkload)
	if !isName(w.Name) {
		e.add("metadata.name", present(w.Name), "lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit, at most 253")
	}
	if class, ok := w.Labels[LabelQoSClass]; ok {
		oneOf(&e, entry("metadata.labels", LabelQoSClass), QoSClass(class), QoSClasses())
	}
	e.target(w.Spec)
	e.quantity("spec.cpu.request", w.Spec.CPU.Request)
	e.quantity("spec.cpu.limit", w.Spec.CPU.Limit)
	if r, l := w.Spec.CPU.Request, w.Spec.CPU.Limit; r != nil && l != nil && r.Cmp(*l) > 0 {
		e.add("spec.cpu.request", r, "at most spec.cpu.limit, "+l.String())
	}
	return e
}

func (e *FieldErrors) exactly(field, value, allowed string) {
	if value != allowed {
		e.add(field, present(value), allowed)
	}
}

// target checks where the processes are.
func (e *FieldErrors) target(s WorkloadSpec) {
	var set []string
	if s.Cgroup != "" {
		set = append(set, "cgroup")
		e.cgroup("spec.cgroup", s.Cgroup)
	}
	if s.SystemdUnit != "" {
		set = append(set, "systemdUnit")
		e.unit("spec.systemdUnit", s.SystemdUnit)
	}
	if len(s.PIDs) > 0 {
		set = append(set, "pids")
		e.pids("spec.pids", s.PIDs)
	}
	if len(set) != 1 {
		var value any
		if len(set) > 1 {
			value = strings.Join(set, ", ")
		}
		e.add("spec", value, "exactly one of cgroup, systemdUnit, pids")
	}
}

// cgroup checks a path relative to a hierarchy's root. It must be clean because two spellings of one group would look
// like two groups.
func (e *FieldErrors) cgroup(field, value string) {
	clean := value != "" && !path.IsAbs(value) && path.Clean(value) == value && len(value) < 4096
	if !clean || value == "." || value == ".." || strings.HasPrefix(value, "../") || hasControl(value) {
		e.add(field, value, "a clean path relative to the hierarchy's root and below it, for example system.slice/redis.service")
	}
}

func (e *FieldErrors) unit(field, value string) {
	stem := strings.TrimRight(value, letters)
	kind := strings.TrimPrefix(value, stem)
	known := slices.Contains([]string{"service", "scope", "slice"}, kind)
	rest := strings.Trim(stem, letters+strings.ToUpper(letters)+digits+`:-_.\@`)
	if !known || len(stem) < 2 || !strings.HasSuffix(stem, ".") || rest != "" || len(value) > maxUnit {
		e.add(field, value, "a systemd unit that ends in .service, .scope or .slice")
	}
}

func (e *FieldErrors) pids(field string, pids []int) {
	if !e.short(field, len(pids)) {
		return
	}
	for i, pid := range pids {
		switch {
		case pid < 1 || pid > maxPID:
			e.add(index(field, i), pid, fmt.Sprintf("1 to %d", maxPID))
		case slices.Contains(pids[:i], pid):
			e.add(index(field, i), pid, "each process only once")
		}
	}
}

// short reports whether a list is within its bound, and records the problem if it is not.
func (e *FieldErrors) short(field string, length int) bool {
	if length > maxList {
		*e = append(*e, FieldError{Field: field, Value: fmt.Sprintf("%d elements", length), Allowed: fmt.Sprintf("at most %d", maxList)})
	}
	return length <= maxList
}

func (e *FieldErrors) quantity(field string, q *resource.Quantity) {
	if q != nil && !isPossible(*q) {
		e.add(field, q, possible)
	}
}

// possible describes what isPossible accepts, for messages.
const possible = "1m to 65536 CPUs in steps of 1m"

func isPossible(q resource.Quantity) bool {
	low, high := resource.NewMilliQuantity(1, resource.DecimalSI), resource.NewQuantity(maxCPUs, resource.DecimalSI)
	if q.Cmp(*low) < 0 || q.Cmp(*high) > 0 {
		return false
	}
	return q.Cmp(*resource.NewMilliQuantity(q.MilliValue(), resource.DecimalSI)) == 0
}

func isName(name string) bool {
	if name == "" || len(name) > maxName || strings.Trim(name, letters+digits+"-.") != "" {
		return false
	}
	return isEdge(name[0]) && isEdge(name[len(name)-1])
}

func isEdge(c byte) bool { return strings.IndexByte(letters+digits, c) >= 0 }

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// present turns an empty string into nothing, for messages.
func present(s string) any {
	if s == "" {
		return nil
	}
	return s
}
