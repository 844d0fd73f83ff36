package inventory

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// mostAnswers bounds the remembered lists of one container. An older list can only be on record if the runtime failed
// to carry out as many answers in a row.
const mostAnswers = 8

// Answered has Berth's answers to the runtime for one container. Any other list on the runtime's record is another
// owner's.
type Answered struct {
	// Pod is the UID of the container's pod.
	Pod string `json:"pod"`
	// CPUs and Mems have distinct lists, the latest at the end.
	CPUs []cpuset.Set `json:"cpus,omitempty"`
	Mems []cpuset.Set `json:"mems,omitempty"`
	// NoQuota is true if an answer removed the CFS quota.
	NoQuota bool `json:"noQuota,omitempty"`
	// Made is the answer when the container was made, if it had memory nodes, and no answer had other CPUs since. Later
	// answers do not decide memory nodes: they repeat those that the container has.
	Made observed.Made `json:"made,omitzero"`
}

// Answers returns Berth's answers, by container. They must outlive the agent, and be on disk before the runtime gets an
// answer: the runtime's record does not say who set a value. Without ids Answers returns all, which costs more.
func (cs *Containers) Answers(ids ...string) map[string]Answered {
	all := cs.answers.byID
	if len(ids) == 0 {
		return maps.Clone(all)
	}
	some := make(map[string]Answered, len(ids))
	for _, id := range ids {
		some[id] = all[id]
	}
	return some
}

// Answered returns Berth's answers for one container.
func (cs *Containers) Answered(id string) Answered { return cs.answers.byID[id] }

// IsAnswer reports whether Berth answered the runtime with this list of CPUs, or of memory nodes, for the container of
// a group. The runtime and systemd have the list on record and write it again at any time, for example at a
// daemon-reload.
func IsAnswer(inv *Inventory, group string, mems bool, list cpuset.Set) bool {
	for id, c := range inv.containers.byID {
		if c.group != group {
			continue
		}
		a := inv.containers.answers.byID[id]
		if mems {
			return slices.Contains(a.Mems, list)
		}
		return slices.Contains(a.CPUs, list)
	}
	return false
}

// Recall loads the Answers of an earlier agent of this boot.
func (cs *Containers) Recall(answers map[string]Answered) { maps.Copy(cs.answers.byID, answers) }

// Made stores Berth's answer for a container that is about to be made.
func (cs *Containers) Made(e nri.Event, s nri.Settings) {
	cs.Remember(e.Container.ID, s)
	cs.answers.attempted(e, s)
}

// Remember stores Berth's answer for a container.
func (cs *Containers) Remember(id string, s nri.Settings) {
	if c := cs.byID[id]; c != nil {
		cs.remember(c, s)
	}
}

// answers are Berth's answers to the runtime.
type answers struct {
	byID map[string]Answered // by container
	// attempts are the containers that Berth answered and that are not made yet, by pod and name.
	attempts map[attempt]string
}

func newAnswers() answers {
	return answers{byID: map[string]Answered{}, attempts: map[attempt]string{}}
}

// add stores an answer for a container of a pod.
func (as *answers) add(id, pod string, s nri.Settings) {
	a := as.byID[id]
	a.Pod, a.CPUs, a.Mems, a.NoQuota = pod, with(a.CPUs, s.CPUs), with(a.Mems, s.Mems), a.NoQuota || s.NoQuota
	if !s.CPUs.IsEmpty() && s.CPUs != a.Made.CPUs {
		a.Made = observed.Made{}
	}
	as.byID[id] = a
}

// with returns a copy of lists with one more at the end.
func with(lists []cpuset.Set, last cpuset.Set) []cpuset.Set {
	if last.IsEmpty() {
		return lists
	}
	all := slices.DeleteFunc(slices.Clone(lists), func(s cpuset.Set) bool { return s == last })
	return append(all[max(len(all)+1-mostAnswers, 0):], last)
}

// drop forgets the answers for removed containers.
func (as *answers) drop(gone func(id string, a Answered) bool) { maps.DeleteFunc(as.byID, gone) }

// dropOf forgets the answers for a removed sandbox, and for its pod if the sandbox was the last.
func (as *answers) dropOf(box nri.Pod, last bool) {
	as.drop(func(id string, a Answered) bool { return id == box.ID || last && a.Pod == box.UID })
}

// attempt identifies a container of a pod by name: the runtime may try to make it several times, each time with another
// ID.
type attempt struct{ pod, name string }

// attempted remembers that Berth answered for a container that is about to be made.
func (as *answers) attempted(e nri.Event, s nri.Settings) {
	if a, found := as.byID[e.Container.ID]; found && !s.Mems.IsEmpty() {
		a.Made = observed.Made{CPUs: s.CPUs, Mems: s.Mems}
		as.byID[e.Container.ID] = a
	}
	as.attempts[attempt{e.Pod.UID, e.Container.Name}] = e.Container.ID
}

// conflicts reports whether the previous container of this name was not made after Berth had set something for it, and
// forgets that. If a later plugin sets the same resource, every creation fails, and NRI reports that to neither plugin.
// A creation without Berth's answer shows what the other plugin sets. The failure may have another cause; the container
// gets its CPUs before it runs in any case.
func (as *answers) conflicts(e nri.Event) bool {
	key := attempt{e.Pod.UID, e.Container.Name}
	before, failed := as.attempts[key]
	delete(as.attempts, key)
	return failed && before != e.Container.ID
}

// succeeded forgets an attempt that became a container, or whose answer came too late.
func (as *answers) succeeded(e nri.Event) {
	key := attempt{e.Pod.UID, e.Container.Name}
	if as.attempts[key] == e.Container.ID {
		delete(as.attempts, key)
	}
}

// end forgets the attempts of a pod.
func (as *answers) end(pod string) {
	maps.DeleteFunc(as.attempts, func(of attempt, _ string) bool { return of.pod == pod })
}
