package mems

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Slack is how much memory may be on other nodes when an agent narrows memory nodes.
const Slack = 64 << 20

// Environment variables of the live test: the amount of memory on the wrong node, in bytes, and the file for the
// report.
const (
	BytesVariable  = "BERTH_MEMS_BYTES"
	ReportVariable = "BERTH_MEMS_REPORT"
)

// SharedOf returns how much of a bystander's file a group maps, given the group's memory on the wrong node.
func SharedOf(bytes int64) int64 { return min(max(bytes/8, 16<<20), 256<<20) }

// Kind is what an arm does with the memory nodes of its group.
type Kind string

// The kinds of arms.
const (
	Rest   Kind = "nothing"                    // No group, to measure the machine itself.
	Raw    Kind = "raw write"                  // One write while holding the agent's mutex, as agents once did.
	Agent  Kind = "agent"                      // The agent pins the group.
	Moving Kind = "agent, pages asked to move" // Also with a locality policy, without sharing and memory policy.
)

// Questions that are asked continuously in each arm.
const (
	NRI    = "NRI answer"
	Status = "berth status"
	Health = "/healthz"
	Attach = "attach elsewhere"
)

// Report is the outcome of all arms.
type Report struct {
	Kernel   string `json:"kernel"`
	Cgroup   int    `json:"cgroup"` // The version of the hierarchy of cpuset.
	Wrong    int    `json:"wrong"`  // The node that has the memory, and
	Right    int    `json:"right"`  // the node that should have it.
	Bytes    int64  `json:"bytes"`  // The group's memory on the wrong node.
	Shared   int64  `json:"shared"` // The part of a bystander's file that it maps.
	Arms     []Arm  `json:"arms"`
	Warnings string `json:"warnings,omitempty"` // What the measurement itself could not do.
}

// Arm is one group, starting when it is pinned.
type Arm struct {
	Kind    Kind             `json:"kind"`
	Seconds float64          `json:"seconds"` // How long it was observed.
	Writes  []Write          `json:"writes"`  // Writes that removed memory nodes.
	Answers map[string]Times `json:"answers"` // By question.

	Mems      Change[string] `json:"mems"`
	CPUs      Change[string] `json:"cpus"`
	Elsewhere Change[int64]  `json:"elsewhere"` // Bytes of the group on the wrong node.
	Bystander Change[int64]  `json:"bystander"` // Bytes of the bystander's file there.
	Policy    Change[string] `json:"policy"`    // Of a thread of the group.
	Why       string         `json:"why,omitempty"`
}

// Change is a value before and after.
type Change[T comparable] struct {
	Before T `json:"before"`
	After  T `json:"after"`
}

// Write is one write(2) to cpuset.mems.
type Write struct {
	To        string  `json:"to"`
	Seconds   float64 `json:"seconds"`
	Elsewhere int64   `json:"elsewhere"` // Bytes on the wrong node, right before it.
}

// Times summarizes the durations of answers.
type Times struct {
	Asked  int     `json:"asked"`
	Failed int     `json:"failed"`
	P50    float64 `json:"p50ms"`
	P99    float64 `json:"p99ms"`
	Max    float64 `json:"maxms"`
}

// TimesOf summarizes the durations of answers. With fewer than a hundred answers, P99 is the longest duration.
func TimesOf(took []time.Duration, failed int) Times {
	if len(took) == 0 {
		return Times{Failed: failed}
	}
	took = slices.Sorted(slices.Values(took))
	at := func(part float64) float64 {
		return milliseconds(took[max(0, int(math.Ceil(part*float64(len(took))))-1)])
	}
	return Times{Asked: len(took), Failed: failed, P50: at(0.5), P99: at(0.99), Max: at(1)}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Laws returns the laws, each with its violations.
func (r *Report) Laws() map[string][]string {
	laws := map[string][]string{}
	for _, l := range []struct {
		text  string
		arms  []Kind
		broke func(Arm) string
	}{
		{
			fmt.Sprintf("no write takes a node while more than %d MiB are elsewhere", Slack>>20),
			[]Kind{Agent, Moving},
			wroteEarly,
		},
		{"a bystander's pages stay", []Kind{Agent}, func(a Arm) string { return moved("bystander", a.Bystander) }},
		{"a memory policy stays", []Kind{Agent}, func(a Arm) string { return moved("policy", a.Policy) }},
		{"what is in the way keeps the memory nodes, and is said", []Kind{Agent}, notKept},
		{"once the pages have moved the memory nodes are narrowed", []Kind{Moving}, r.notNarrowed},
		{"the raw write does the harm that the agent avoids", []Kind{Raw}, r.harmless},
	} {
		laws[l.text] = r.breaks(l.arms, l.broke)
	}
	return laws
}

// breaks returns the violations of a law by some kinds of arms, each of which must exist.
func (r *Report) breaks(kinds []Kind, broke func(Arm) string) (all []string) {
	for _, kind := range kinds {
		at := slices.IndexFunc(r.Arms, func(a Arm) bool { return a.Kind == kind })
		if at < 0 {
			all = append(all, string(kind)+": it was not measured")
		} else if text := broke(r.Arms[at]); text != "" {
			all = append(all, string(kind)+": "+text)
		}
	}
	return all
}

// Broken returns the violations of all laws, one per line.
func (r *Report) Broken() (all []string) {
	laws := r.Laws()
	for _, text := range slices.Sorted(maps.Keys(laws)) {
		for _, one := range laws[text] {
			all = append(all, text+": "+one)
		}
	}
	return all
}

func wroteEarly(a Arm) string {
	for _, w := range a.Writes {
		if w.Elsewhere > Slack {
			return fmt.Sprintf("%q was written with %s elsewhere", w.To, size(w.Elsewhere))
		}
	}
	return ""
}

func moved[T comparable](what string, c Change[T]) string {
	if c.Before != c.After {
		return fmt.Sprintf("%s: %v before, %v after", what, c.Before, c.After)
	}
	return ""
}

func notKept(a Arm) string {
	switch {
	case len(a.Writes) > 0 || a.Mems.Before != a.Mems.After:
		return fmt.Sprintf("memory nodes %q before, %q after %d writes", a.Mems.Before, a.Mems.After, len(a.Writes))
	case a.CPUs.Before == a.CPUs.After:
		return fmt.Sprintf("it was not pinned: CPUs %q", a.CPUs.After)
	case a.Why == "":
		return "nothing says what is in the way"
	}
	return ""
}

func (r *Report) notNarrowed(a Arm) string {
	if want := fmt.Sprint(r.Right); a.Mems.After != want || len(a.Writes) != 1 {
		return fmt.Sprintf("memory nodes %q after %d writes, want %q after one", a.Mems.After, len(a.Writes), want)
	}
	return ""
}

// harmless reports that the raw write did not have its usual effects on this version; then the other arms show nothing.
func (r *Report) harmless(a Arm) string {
	switch {
	case a.Policy.Before == a.Policy.After:
		return fmt.Sprintf("the policy stayed %q", a.Policy.After)
	case r.Cgroup == 2 && a.Bystander.After >= a.Bystander.Before:
		return "the bystander's pages stayed"
	case r.Cgroup == 2 && a.Elsewhere.After >= a.Elsewhere.Before:
		return "the pages of the group stayed"
	}
	return ""
}
