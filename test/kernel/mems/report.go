package mems

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Slack is how much memory may be elsewhere when an agent narrows memory nodes.
const Slack = 64 << 20

// Variables of the environment of the live test: how much memory is on the wrong node, in bytes, and the
// file that the report is written to.
const (
	BytesVariable  = "BERTH_MEMS_BYTES"
	ReportVariable = "BERTH_MEMS_REPORT"
)

// SharedOf is how much of a bystander's file a group maps that has so much on the wrong node.
func SharedOf(bytes int64) int64 { return min(max(bytes/8, 16<<20), 256<<20) }

// Kind is what an arm does about the memory nodes of its group.
type Kind string

// The kinds of arms.
const (
	Rest   Kind = "nothing"                    // No group, for what the machine itself costs.
	Raw    Kind = "raw write"                  // One write under the agent's mutex, as agents once did.
	Agent  Kind = "agent"                      // The agent pins the group.
	Moving Kind = "agent, pages asked to move" // The same with a locality policy, without sharing and policy.
)

// Questions that are asked all the time, whatever an arm does.
const (
	NRI    = "NRI answer"
	Status = "berth status"
	Health = "/healthz"
	Attach = "attach elsewhere"
)

// Report is what all arms came to.
type Report struct {
	Kernel   string `json:"kernel"`
	Cgroup   int    `json:"cgroup"` // The version of the hierarchy of cpuset.
	Wrong    int    `json:"wrong"`  // The node that the memory is on, and
	Right    int    `json:"right"`  // the one that it should be on.
	Bytes    int64  `json:"bytes"`  // What the group has on the wrong node.
	Shared   int64  `json:"shared"` // What it maps of a bystander's file besides.
	Arms     []Arm  `json:"arms"`
	Warnings string `json:"warnings,omitempty"` // What the measuring itself could not do.
}

// Arm is one group, from the moment that it is pinned.
type Arm struct {
	Kind    Kind             `json:"kind"`
	Seconds float64          `json:"seconds"` // How long it was watched.
	Writes  []Write          `json:"writes"`  // That took memory nodes away.
	Answers map[string]Times `json:"answers"` // By question.

	Mems      Change[string] `json:"mems"`
	CPUs      Change[string] `json:"cpus"`
	Elsewhere Change[int64]  `json:"elsewhere"` // Bytes that the group has on the wrong node.
	Bystander Change[int64]  `json:"bystander"` // Bytes of its file that the bystander has there.
	Policy    Change[string] `json:"policy"`    // Of a thread of the group.
	Why       string         `json:"why,omitempty"`
}

// Change is something before and after.
type Change[T comparable] struct {
	Before T `json:"before"`
	After  T `json:"after"`
}

// Write is one write(2) to cpuset.mems.
type Write struct {
	To        string  `json:"to"`
	Seconds   float64 `json:"seconds"`
	Elsewhere int64   `json:"elsewhere"` // Bytes, right before it.
}

// Times are how long answers took.
type Times struct {
	Asked  int     `json:"asked"`
	Failed int     `json:"failed"`
	P50    float64 `json:"p50ms"`
	P99    float64 `json:"p99ms"`
	Max    float64 `json:"maxms"`
}

// TimesOf sums up how long answers took. Of fewer than a hundred the p99 is the longest one.
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

// Laws are what must hold, each with what breaks it, empty for nothing.
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

// breaks returns what breaks a law of some kinds of arms, each of which has to be there.
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

// Broken returns what breaks laws, one line each.
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

// harmless says that the raw write did not do what it does on this version: then the other arms show nothing.
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
