package journal

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/plan"
)

// Entry is what the journal knows of one target that Berth writes.
type Entry struct {
	// Target is the knob and its group.
	Target plan.Target
	// ID identifies the group's directory in the hierarchy of the knob. A
	// group that was made again under the same name has another one, and then
	// there is nothing left to restore.
	ID hostfs.ID
	// Unit is the systemd unit through which the knob is written, "" for the file.
	Unit string
	// Boot is the boot id under which the original was found.
	Boot string
	// Original is the value before Berth's first write, or the one that the
	// workload's own spec confirmed since (Rebase).
	Original cgroup.Value
	// Intent is the value that Berth was last about to write, "" before the
	// first write.
	Intent cgroup.Value
	// Previous is the value of Berth's own, or the original, that stood before
	// Intent. It stands still when a crash hit between Intend and the write.
	Previous cgroup.Value
	// Owner, Workload and Why are those of the setting with which its owner first
	// came. Another owner who sets the target takes it over.
	Owner    plan.Owner
	Workload string
	Why      string
	// Since is when the original was recorded.
	Since time.Time
	// Writes counts the intents.
	Writes int
	// Threads are those whose own affinity a change of the group's CPUs may cost them.
	Threads []Thread
}

// IsOriginal reports whether v is the original, or the kernel's scaling of it.
func (e Entry) IsOriginal(v cgroup.Value) bool { return e.same(v, e.Original) }

// IsOurs reports whether v is a value that Berth wrote or was about to write
// over, or such a burst as some kernels leave it (see divided). It is false for
// values that only others can have written.
func (e Entry) IsOurs(v cgroup.Value) bool {
	return e.same(v, e.Intent) || e.same(v, e.Previous) || e.divided(v)
}

func (e Entry) same(v, recorded cgroup.Value) bool {
	return recorded != "" && cgroup.Same(e.Target.Knob, v, recorded)
}

// divided reports whether v is a burst of the entry divided by 1000. Some cgroup
// v2 kernels leave that behind when cpu.max is written; package apply puts the
// burst back at once, but a crash may come first.
func (e Entry) divided(v cgroup.Value) bool {
	const by = 1000
	n, period, err := v.Pair()
	if e.Target.Knob != cgroup.KnobBurst || err != nil || n == 0 {
		return false
	}
	for _, recorded := range []cgroup.Value{e.Original, e.Intent, e.Previous} {
		whole, at, err := cgroup.ScaleTo(recorded, period).Pair()
		if err == nil && at == period && whole/by == n {
			return true
		}
	}
	return false
}

// isTakenOver says that a change is of another owner than the entry. Putting the
// original back is nobody's setting.
func (e Entry) isTakenOver(c plan.Change) bool {
	return c.Owner != "" && c.Owner != e.Owner && !e.IsOriginal(c.Value)
}

// intend returns the entry after the intent r: Berth decided to write a value
// over another one, for a new owner if it names one. A value before it that
// neither Berth nor the original accounts for is not remembered as Berth's: if
// the write then does not happen, it stays somebody else's value.
func (e Entry) intend(r record) Entry {
	if e.IsOriginal(r.From) || e.IsOurs(r.From) {
		e.Previous = r.From
	}
	e.Intent = r.Value
	if r.Owner != "" {
		e.Owner, e.Workload, e.Why = r.Owner, r.Workload, r.Why
	}
	e.Writes++
	return e
}

// rebase returns the entry with a new original. Berth's own values stay known:
// one of them may stand, where the new original was written over before the
// workload's spec confirmed it.
func (e Entry) rebase(original cgroup.Value) Entry {
	e.Original = original
	return e
}

// sorted returns the entries by group and knob.
func sorted(entries map[plan.Target]Entry) []Entry {
	list := make([]Entry, 0, len(entries))
	for _, e := range entries {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Target.Group, b.Target.Group), cmp.Compare(a.Target.Knob, b.Target.Knob))
	})
	return list
}
