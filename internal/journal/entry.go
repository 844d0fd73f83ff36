package journal

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/plan"
)

// Entry is what the journal knows of one target that Berth writes.
type Entry struct {
	// Target is what was written, and the way by which it was.
	Target plan.Target
	// ID is the identity of what was written. What was made again under the same
	// name has another one, and then there is nothing left to restore but what another
	// program gave it again (IsOf).
	ID plan.Identity
	// Boot is the boot id under which the original was found.
	Boot string
	// Lifetime says whether the entry means anything under another boot id.
	Lifetime plan.Lifetime
	// Original is the value before Berth's first write, or the one that the
	// workload's own spec confirmed since (Rebase).
	Original plan.Value
	// Intent is the value that Berth was last about to write, "" before the
	// first write.
	Intent plan.Value
	// Previous is the value of Berth's own, or the original, that stood before
	// Intent. It stands still when a crash hit between Intend and the write.
	Previous plan.Value
	// Made is what the host made of Intent, where it may take a value in part (plan.Kind.Part); "" while that
	// is not known, as when a crash hit between the write and the record of it.
	Made plan.Value
	// Owned says that Owner had written Previous: it is neither the original nor a value of an
	// owner before.
	Owned bool
	// Owner, Workload and Why are those of the setting with which its owner first
	// came. Another owner who sets the target takes it over.
	Owner    plan.Owner
	Workload string
	Why      string
	// Since is when the original was recorded.
	Since time.Time
	// Writes counts the intents.
	Writes int
	// Threads are those that a change of the group reaches, as its driver noted them.
	Threads []Thread
}

// Thread is what one thread had: of a change of the group's CPUs the affinity that it gave itself.
type Thread struct {
	// TID and Start name the thread: its id, and when it started, in clock ticks after
	// boot.
	TID   int    `json:"tid"`
	Start uint64 `json:"start"`
	// CPUs are those that it asked for, as far as its group had them, and Without those of
	// its group that it did not ask for; both in the kernel's format.
	CPUs    string `json:"cpus,omitempty"`
	Without string `json:"without,omitempty"`
	// Had is what the target itself was for this thread, where threads of one group may differ.
	Had string `json:"had,omitempty"`
}

// IsOriginal reports whether v is the original, or the host's way of writing it.
func (e Entry) IsOriginal(kinds plan.Kinds, v plan.Value) bool { return e.same(kinds, v, e.Original) }

// IsOurs reports whether v is a value that Berth wrote or was about to write
// over, or what the host makes of such a value, or of the original, by mistake
// (plan.Kind.Mangled). Of a value that the host takes in part (plan.Kind.Part) it is what the host made of
// it; all on the way there count only while that is not known. It is false for values that only others
// can have written.
func (e Entry) IsOurs(kinds plan.Kinds, v plan.Value) bool {
	if e.same(kinds, v, e.Intent) || e.same(kinds, v, e.Previous) || e.same(kinds, v, e.Made) {
		return true
	}
	for _, recorded := range []plan.Value{e.Original, e.Intent, e.Previous} {
		if recorded != "" && kinds.Mangled(e.Target, v, recorded) {
			return true
		}
	}
	return e.Made == "" && kinds.Part(e.Target, v, e.Previous, e.Intent)
}

// IsOf reports whether the entry is about what has this identity and has, or had before a
// change, the value v: the very thing that was written, or what was made since under
// its name and got a value of Berth's from the record of another program (plan.Kind.Recurs).
func (e Entry) IsOf(kinds plan.Kinds, id plan.Identity, v plan.Value) bool {
	return e.ID == id || kinds.Recurs(e.Target) && e.IsOurs(kinds, v)
}

func (e Entry) same(kinds plan.Kinds, v, recorded plan.Value) bool {
	return recorded != "" && kinds.Same(e.Target, v, recorded)
}

// meansNothing says that the entry is of another boot, and what it is about did not
// outlive that.
func (e Entry) meansNothing(boot string) bool { return e.Boot != boot && e.Lifetime != plan.Persistent }

// isTakenOver says that a change is of another owner than the entry. Putting the
// original back is no owner's setting.
func (e Entry) isTakenOver(kinds plan.Kinds, c plan.Change) bool {
	return c.Owner != "" && c.Owner != e.Owner && !e.IsOriginal(kinds, c.Value)
}

// intend returns the entry after the intent r: Berth decided to write a value
// over another one, for a new owner and to another identity if it names one. A value before it that
// neither Berth nor the original accounts for is not remembered as Berth's: if
// the write then does not happen, it stays another writer's value.
func (e Entry) intend(kinds plan.Kinds, r record) Entry {
	original := e.IsOriginal(kinds, r.From)
	switch {
	case original || e.IsOurs(kinds, r.From):
		e.Owned = !original && r.Owner == "" && (e.Owned || e.same(kinds, r.From, e.Intent))
		e.Previous = r.From
	case r.Owner != "":
		e.Owned = false
	}
	e.Intent, e.Made = r.Value, ""
	if r.ID != "" {
		e.ID = plan.Identity(r.ID)
	}
	if r.Owner != "" {
		e.Owner, e.Workload, e.Why = r.Owner, r.Workload, r.Why
	}
	e.Writes++
	return e
}

// entries are those of a journal, one for each place.
type entries map[plan.Place]Entry

// take brings one record in. It returns what is wrong with it, or "".
func (all entries) take(kinds plan.Kinds, r record) string {
	place := r.target().Place()
	e, known := all[place]
	hasValue := r.Kind == kindIntent || r.Kind == kindRebase
	switch {
	case !known && (hasValue || r.Kind == kindThreads):
		return fmt.Sprintf("%s of %s without an original", r.Kind, r.target())
	case hasValue && r.Value == "":
		return fmt.Sprintf("%s of %s without a value", r.Kind, r.target())
	}
	switch r.Kind {
	case kindOriginal:
		e = r.entry()
		if err := e.check(); err != nil {
			return err.Error()
		}
	case kindIntent:
		if r.Made != "" { // of the intent before it
			e.Made = r.Made
		} else {
			e = e.intend(kinds, r)
		}
	case kindRebase: // Berth's own values stay known: one may stand, if it was written over the new original before
		e.Original = r.Value
	case kindThreads:
		e.Threads = r.Threads
	case kindForget:
		delete(all, place)
		return ""
	default:
		return fmt.Sprintf("record of unknown kind %q", r.Kind)
	}
	all[place] = e
	return ""
}

// sorted returns the entries by object and knob.
func (all entries) sorted(match func(Entry) bool) []Entry {
	var list []Entry
	for _, e := range all {
		if match == nil || match(e) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Target.Object, b.Target.Object), cmp.Compare(a.Target.Knob, b.Target.Knob))
	})
	return list
}
