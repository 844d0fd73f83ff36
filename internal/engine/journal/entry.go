package journal

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/engine/plan"
)

// Entry is the journal's record of one target that Berth writes.
type Entry struct {
	// Target is what was written, and the driver that wrote it.
	Target plan.Target
	// ID is the identity of the object that was written. An object that was created again under the same name has
	// another identity. Nothing is left to restore then, unless another program gave the new object the value again
	// (IsOf).
	ID plan.Identity
	// Boot is the boot id under which the original was found.
	Boot string
	// Lifetime tells whether the entry is meaningful under another boot id.
	Lifetime plan.Lifetime
	// Original is the value before Berth's first write, or the value that the workload's own spec confirmed since
	// (Rebase).
	Original plan.Value
	// Intent is the last value that Berth was about to write, "" before the first write.
	Intent plan.Value
	// Previous is a value of Berth's own, or the original, that was in effect before Intent. It is still in effect when
	// a crash came between Intend and the write.
	Previous plan.Value
	// Made is what the host made of Intent, where it may apply a value in part (plan.Kind.Part). It is "" while that is
	// unknown, as when a crash came between the write and its record.
	Made plan.Value
	// Owned reports that Owner wrote Previous: Previous is neither the original nor a value of an earlier owner.
	Owned bool
	// Owner, Workload and Why are from the first setting of the current owner. Another owner that sets the target takes
	// over the entry.
	Owner    plan.Owner
	Workload string
	Why      string
	// Since is when the original was recorded.
	Since time.Time
	// Writes counts the intents.
	Writes int
	// Threads are the threads that a change of the group affects, as its driver noted them.
	Threads []Thread
}

// Thread is what one thread had before a change. For a change of the group's CPUs, that is the affinity that the thread
// gave itself.
type Thread struct {
	// TID and Start identify the thread: its id, and its start time in clock ticks after boot.
	TID   int    `json:"tid"`
	Start uint64 `json:"start"`
	// CPUs are the CPUs of its group that the thread asked for. Without are the other CPUs of its group. Both are in
	// the kernel's format.
	CPUs    string `json:"cpus,omitempty"`
	Without string `json:"without,omitempty"`
	// Had is the thread's own value of the target, where threads of one group may differ.
	Had string `json:"had,omitempty"`
}

// IsOriginal reports whether v is the original, or the host's notation of it.
func (e Entry) IsOriginal(kinds plan.Kinds, v plan.Value) bool { return e.same(kinds, v, e.Original) }

// IsOurs reports whether v is a value that Berth wrote or was about to write over. It is also true for what the host
// mistakenly makes of Berth's values, or of the original (plan.Kind.Mangled). Where the host may apply a value in part
// (plan.Kind.Part), Made is Berth's; while Made is unknown, every value on the way is. IsOurs is false for values that
// only other programs can have written.
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

// IsOf reports whether the entry belongs to the object with this identity. v is the object's value, or its value before
// a change. The entry belongs to the object that Berth wrote. It also belongs to a later object of the same name that
// got a value of Berth's from the record of another program (plan.Kind.Recurs).
func (e Entry) IsOf(kinds plan.Kinds, id plan.Identity, v plan.Value) bool {
	return e.ID == id || kinds.Recurs(e.Target) && e.IsOurs(kinds, v)
}

func (e Entry) same(kinds plan.Kinds, v, recorded plan.Value) bool {
	return recorded != "" && kinds.Same(e.Target, v, recorded)
}

// meansNothing reports whether the entry is of another boot and its value did not outlive that boot.
func (e Entry) meansNothing(boot string) bool { return e.Boot != boot && e.Lifetime != plan.Persistent }

// isTakenOver reports whether a change has another owner than the entry. A change back to the original is no owner's
// setting.
func (e Entry) isTakenOver(kinds plan.Kinds, c plan.Change) bool {
	return c.Owner != "" && c.Owner != e.Owner && !e.IsOriginal(kinds, c.Value)
}

// intend returns the entry after the intent r: Berth decided to write r.Value over r.From, for a new owner and identity
// if r names them. If r.From is neither Berth's value nor the original, intend does not remember it as Berth's. If the
// write then does not happen, r.From stays another writer's value.
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
		e.ID = r.ID
	}
	if r.Owner != "" {
		e.Owner, e.Workload, e.Why = r.Owner, r.Workload, r.Why
	}
	e.Writes++
	return e
}

// entries are the entries of a journal, at most one for each place.
type entries struct {
	at map[plan.Place]*Entry
	// order has the same entries, sorted by object and knob.
	order []*Entry
}

func newEntries() entries { return entries{at: map[plan.Place]*Entry{}} }

// entry returns a copy of the entry of a place.
func (all *entries) entry(p plan.Place) (Entry, bool) {
	e, known := all.at[p]
	if !known {
		return Entry{}, false
	}
	return *e, true
}

// put adds an entry, or replaces the entry of the same place.
func (all *entries) put(e Entry) {
	place := e.Target.Place()
	if old, known := all.at[place]; known {
		*old = e
		return
	}
	i, _ := all.find(place)
	all.at[place] = &e
	all.order = slices.Insert(all.order, i, &e)
}

func (all *entries) remove(place plan.Place) {
	if i, known := all.find(place); known {
		delete(all.at, place)
		all.order = slices.Delete(all.order, i, i+1)
	}
}

// find returns the position of a place in the order.
func (all *entries) find(place plan.Place) (int, bool) {
	return slices.BinarySearchFunc(all.order, place, func(e *Entry, p plan.Place) int {
		return cmp.Or(cmp.Compare(e.Target.Object, p.Object), cmp.Compare(e.Target.Knob, p.Knob))
	})
}

// take applies one record. It returns what is wrong with the record, or "".
func (all *entries) take(kinds plan.Kinds, r record) string {
	place := r.target().Place()
	e, known := all.entry(place)
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
		if r.Made != "" { // what the host made of the intent before it
			e.Made = r.Made
		} else {
			e = e.intend(kinds, r)
		}
	case kindRebase: // Intent and Previous stay: Berth may have written one of them over the new original
		e.Original = r.Value
	case kindThreads:
		e.Threads = r.Threads
	case kindForget:
		all.remove(place)
		return ""
	default:
		return fmt.Sprintf("record of unknown kind %q", r.Kind)
	}
	all.put(e)
	return ""
}

// sorted returns copies of the matching entries, all when match is nil, sorted by object and knob.
func (all *entries) sorted(match func(Entry) bool) []Entry {
	var list []Entry
	if match == nil {
		list = slices.Grow(list, len(all.order))
	}
	for _, e := range all.order {
		if match == nil || match(*e) {
			list = append(list, *e)
		}
	}
	return list
}
