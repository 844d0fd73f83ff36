package view

import (
	"reflect"
	"slices"
)

// Delta is the change from one View, or one Cluster, to the next. A client applies it to the earlier View: replace the
// keys in Set and the list entries with the same name, remove what is Gone, and append Events.
type Delta struct {
	// Set has the keys of a View whose values changed, each with its full value.
	Set map[string]any `json:"set"`
	// CPUs are identified by id, Workloads by name, Changes by object and knob. Each list has the changed and new
	// entries.
	CPUs      []CPU      `json:"cpus,omitempty"`
	Workloads []Workload `json:"workloads,omitempty"`
	Changes   []Change   `json:"changes,omitempty"`
	// Nodes are nodes of a Cluster, by name. MoreRoom gives their position.
	Nodes []Node `json:"nodes,omitempty"`
	Gone  *Gone  `json:"gone,omitempty"`
	// Events are new events. A client drops the oldest events beyond those of a View.
	Events []Event `json:"events,omitempty"`
}

// Gone names what a View or a Cluster no longer has.
type Gone struct {
	Workloads []string `json:"workloads,omitempty"`
	// Changes are pairs of object and knob.
	Changes [][2]string `json:"changes,omitempty"`
	Nodes   []string    `json:"nodes,omitempty"`
}

// Since returns what changed since an earlier View of the same agent.
func (v *View) Since(before *View) Delta {
	d := v.head(before)
	d.cpus(before.CPUs, v.CPUs)
	var gone Gone
	d.Workloads, gone.Workloads = changed(before.Workloads, v.Workloads, func(w *Workload) string { return w.Name }, sameWorkload)
	d.Changes, gone.Changes = changed(before.Changes, v.Changes, (*Change).place, func(a, b *Change) bool { return *a == *b })
	if gone.Workloads != nil || gone.Changes != nil {
		d.Gone = &gone
	}
	return d
}

// head returns the changed keys and the new events, without the entries of lists.
func (v *View) head(before *View) Delta {
	d := Delta{Set: map[string]any{"at": v.At, "loadSeconds": v.LoadSeconds}}
	d.set("version", before.Version, v.Version)
	if before.Machine != v.Machine {
		d.set("machine", before.Machine, v.Machine)
	}
	d.set("pools", before.Pools, v.Pools)
	d.set("obstacle", before.Obstacle, v.Obstacle)
	d.set("problems", before.Problems, v.Problems)
	d.set("node", before.Node, v.Node)
	d.events(before.Events, v.Events)
	return d
}

// set records the value of a key if it changed.
func (d *Delta) set(key string, before, now any) {
	if !reflect.DeepEqual(before, now) {
		d.Set[key] = now
	}
}

// cpus records the CPUs that changed, or all CPUs if different CPUs are online.
func (d *Delta) cpus(before, now []CPU) {
	if !sameCPUs(before, now) {
		d.Set["cpus"] = now
		return
	}
	for i := range now {
		if now[i] != before[i] {
			d.CPUs = added(d.CPUs, &now[i], len(now)-i)
		}
	}
}

// sameCPUs reports whether the same CPUs are online.
func sameCPUs(before, now []CPU) bool {
	return slices.EqualFunc(before, now, func(a, b CPU) bool { return a.ID == b.ID })
}

// events records the events after the last event of before. It records all events if that event is gone or an earlier
// event was renewed.
func (d *Delta) events(before, now []Event) {
	if len(before) == 0 {
		d.Events = now
		return
	}
	last := before[len(before)-1]
	for i, event := range slices.Backward(now) {
		if event != last {
			continue
		}
		added := now[i+1:]
		dropped := max(0, len(before)+len(added)-kept)
		if slices.Equal(before[min(dropped, len(before)):], now[:i+1]) {
			d.Events = added
			return
		}
		break
	}
	d.Set["events"] = now
}

// sameWorkload compares two workloads of one name, first the quota, which changes most often.
func sameWorkload(a, b *Workload) bool {
	return same(a.Quota, b.Quota) && same(a.Throttling, b.Throttling) && same(a.CPUs, b.CPUs) && reflect.DeepEqual(a.Status, b.Status)
}

// same compares two parts that may be missing.
func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// changed returns the entries that are new or changed, and the names of entries that are gone.
func changed[T any, K comparable](before, now []T, name func(*T) K, same func(a, b *T) bool) (other []T, gone []K) {
	if alike(before, now, name) { // the usual case, from one second to the next
		for i := range now {
			if !same(&before[i], &now[i]) {
				other = added(other, &now[i], len(now)-i)
			}
		}
		return other, nil
	}
	at := make(map[K]int, len(before))
	for i := range before {
		at[name(&before[i])] = i
	}
	for i := range now {
		n := name(&now[i])
		if was, known := at[n]; !known || !same(&before[was], &now[i]) {
			other = append(other, now[i])
		}
		delete(at, n)
	}
	for i := range before { // in the order of before
		n := name(&before[i])
		if _, left := at[n]; left {
			gone = append(gone, n)
			delete(at, n)
		}
	}
	return other, gone
}

// alike reports whether two lists have the same names in the same order.
func alike[T any, K comparable](before, now []T, name func(*T) K) bool {
	if len(before) != len(now) {
		return false
	}
	for i := range now {
		if name(&before[i]) != name(&now[i]) {
			return false
		}
	}
	return true
}

// added appends one entry. The first call reserves room for all that may follow: on a busy node nearly all entries
// change.
func added[T any](list []T, one *T, left int) []T {
	if list == nil {
		list = make([]T, 0, left)
	}
	return append(list, *one)
}
