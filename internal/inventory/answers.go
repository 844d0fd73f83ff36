package inventory

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/nri"
)

// mostAnswers bounds the lists that are remembered of one container. An older one can
// only be on record where the runtime failed to carry out as many answers in a row.
const mostAnswers = 8

// Answered holds what Berth answered the runtime for one container. A list on
// the runtime's record that is not among them is another owner's.
type Answered struct {
	// Pod is the UID of its pod.
	Pod string `json:"pod"`
	// CPUs and Mems are different lists each, the last one at the end.
	CPUs []cpuset.Set `json:"cpus,omitempty"`
	Mems []cpuset.Set `json:"mems,omitempty"`
	// NoQuota says that an answer took the CFS quota away.
	NoQuota bool `json:"noQuota,omitempty"`
}

// Answers returns what Berth answered, by container. It has to outlive the agent, on disk
// before the runtime is answered: the runtime's record says what was set, and not by whom.
// Those of some containers only are cheaper than those of all, which no id asks for.
func (inv *Inventory) Answers(ids ...string) map[string]Answered {
	all := inv.containers.answers.byID
	if len(ids) == 0 {
		return maps.Clone(all)
	}
	some := make(map[string]Answered, len(ids))
	for _, id := range ids {
		some[id] = all[id]
	}
	return some
}

// IsAnswer reports whether the runtime was answered this list of CPUs, or of memory nodes, for the
// container of a group. The list is on the runtime's record and on systemd's, which write it again
// whenever they like, as at a daemon-reload.
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

// Recall takes over the Answers of an earlier agent of this boot.
func (inv *Inventory) Recall(answers map[string]Answered) {
	maps.Copy(inv.containers.answers.byID, answers)
}

// answers are what the runtime was answered.
type answers struct {
	byID map[string]Answered // by container
	// attempts are containers that were answered and are not made yet, by what they are
	// to be.
	attempts map[attempt]string
}

func newAnswers() answers {
	return answers{byID: map[string]Answered{}, attempts: map[attempt]string{}}
}

// add keeps an answer for a container of a pod.
func (as *answers) add(id, pod string, s nri.Settings) {
	a := as.byID[id]
	a.Pod, a.CPUs, a.Mems, a.NoQuota = pod, with(a.CPUs, s.CPUs), with(a.Mems, s.Mems), a.NoQuota || s.NoQuota
	as.byID[id] = a
}

// with returns lists with one more at the end, and does not change them.
func with(lists []cpuset.Set, last cpuset.Set) []cpuset.Set {
	if last.IsEmpty() {
		return lists
	}
	all := slices.DeleteFunc(slices.Clone(lists), func(s cpuset.Set) bool { return s == last })
	return append(all[max(len(all)+1-mostAnswers, 0):], last)
}

// drop forgets what was answered for containers that are gone.
func (as *answers) drop(gone func(id string, a Answered) bool) { maps.DeleteFunc(as.byID, gone) }

// dropOf forgets those for a sandbox that is removed, and for its pod with the last.
func (as *answers) dropOf(box nri.Pod, last bool) {
	as.drop(func(id string, a Answered) bool { return id == box.ID || last && a.Pod == box.UID })
}

// attempt is one container of a pod, however often the runtime makes it.
type attempt struct{ pod, name string }

// attempted remembers that a container that is about to be made was answered.
func (as *answers) attempted(e nri.Event) {
	as.attempts[attempt{e.Pod.UID, e.Container.Name}] = e.Container.ID
}

// conflicts says that the container before this one in its pod was not made after Berth
// had set something of it, and forgets that. A plugin that is asked after Berth and sets
// the same fails every creation, and NRI reports that to neither: a creation that Berth
// leaves unanswered shows what the other plugin sets. It may have failed for another reason,
// too; the container gets its CPUs before it runs in any case.
func (as *answers) conflicts(e nri.Event) bool {
	key := attempt{e.Pod.UID, e.Container.Name}
	before, failed := as.attempts[key]
	delete(as.attempts, key)
	return failed && before != e.Container.ID
}

// succeeded forgets the attempt that became a container, or whose answer came too late.
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
