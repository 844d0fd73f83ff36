package knob

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/linux/kernel"
)

// Threads lists how the scheduler treats the threads of a control group and of the groups below it. It has each policy
// and each slice once, in the words of a profile. It omits policies that no profile names, and threads without a slice.
type Threads struct{ Policies, Slices []string }

// The files that list the threads of a group.
const (
	ThreadsFile   = "cgroup.threads"
	ThreadsFileV1 = "tasks" // cgroup v1
)

// Indexes of the priority and the policy in kernel.ThreadStat, counted from the state, the first field after the name.
const (
	priorityField = 37
	policyField   = 38
)

// Policies returns Threads.Policies of a group.
func (h *Host) Policies(group string) []string {
	words := map[string]bool{}
	h.threads(group, 0, func(tid string) {
		class, priority, _, known := h.scheduled(tid)
		if class.IsRealTime() {
			words[class.String()+":"+priority] = true
		} else if known {
			words[class.String()] = true
		}
	})
	return slices.Sorted(maps.Keys(words))
}

// Slices returns Threads.Slices of a group. Without Scheduled it reads a second file of each thread.
func (h *Host) Slices(group string) []string {
	spans := map[string]bool{}
	h.threads(group, 0, func(tid string) {
		class, _, slice, known := h.scheduled(tid)
		if !known || !class.HasSlice() {
			return
		}
		span := Span(int64(slice))
		if slice == 0 { // a recording, or a kernel without slices of single threads
			span = h.slice(tid)
		}
		if span != "" {
			spans[span] = true
		}
	})
	return slices.Sorted(maps.Keys(spans))
}

// scheduled returns the policy of a thread, and its slice if the running kernel answers it, else 0. known is false for a
// thread that is gone, and for a policy that no profile names.
func (h *Host) scheduled(tid string) (class kernel.Class, priority string, slice time.Duration, known bool) {
	if h.Scheduled == nil {
		class, priority, known = h.policy(tid)
		return class, priority, 0, known
	}
	n, err := strconv.Atoi(tid)
	if err != nil {
		return 0, "", 0, false
	}
	s, err := h.Scheduled(n)
	if err != nil {
		return 0, "", 0, false
	}
	class, known = kernel.ClassNamed(s.Class.String())
	return class, strconv.Itoa(s.Priority), s.Slice, known
}

// policy returns the policy of a thread by its files. known is false for a thread that is gone.
func (h *Host) policy(tid string) (class kernel.Class, priority string, known bool) {
	text := h.Text(kernel.ThreadStat(tid))
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // a name may contain any character
	if len(fields) <= policyField {
		return 0, "", false
	}
	n, err := strconv.ParseUint(fields[policyField], 10, 32)
	class, known = kernel.ClassNamed(kernel.Class(n).String())
	return class, fields[priorityField], known && err == nil
}

// threads calls each for the threads of a group and of the groups below it.
func (h *Host) threads(dir string, depth int, each func(string)) {
	const deepest = 16
	file := ThreadsFile
	if !h.There(dir + "/" + file) {
		file = ThreadsFileV1
	}
	for tid := range strings.FieldsSeq(h.Text(dir + "/" + file)) {
		each(tid)
	}
	if depth == deepest {
		return
	}
	for _, name := range h.names(dir + "/") {
		if h.There(dir + "/" + name + "/" + file) {
			h.threads(dir+"/"+name, depth+1, each)
		}
	}
}

// slice returns the slice of a thread in /proc/TID/sched, "" if the file does not have it.
func (h *Host) slice(tid string) string {
	for line := range strings.Lines(h.Text("/proc/" + tid + "/sched")) {
		name, value, _ := strings.Cut(line, ":")
		if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); strings.TrimSpace(name) == "se.slice" && err == nil {
			return Span(n)
		}
	}
	return ""
}
