package view

import (
	"reflect"
	"slices"
)

// Delta is what changed from one View to the next, or from one Cluster. Whoever has the one before
// has, with the Delta, the next one: it replaces the keys in Set and what has the same name in the
// lists, leaves out what is Gone, and adds Events.
type Delta struct {
	// Set has the keys of a View whose values are others now, each as a whole.
	Set map[string]any `json:"set"`
	// CPUs are by their id, Workloads by their name, Changes by object and knob: those that are
	// others now, or new.
	CPUs      []CPU      `json:"cpus,omitempty"`
	Workloads []Workload `json:"workloads,omitempty"`
	Changes   []Change   `json:"changes,omitempty"`
	// Nodes are those of a Cluster, by their name. Their place among the others is that of MoreRoom.
	Nodes []Node `json:"nodes,omitempty"`
	Gone  *Gone  `json:"gone,omitempty"`
	// Events are new ones. The oldest go, if there are more than a View has.
	Events []Event `json:"events,omitempty"`
}

// Gone is what a View or a Cluster has no more.
type Gone struct {
	Workloads []string `json:"workloads,omitempty"`
	// Changes are objects and knobs.
	Changes [][2]string `json:"changes,omitempty"`
	Nodes   []string    `json:"nodes,omitempty"`
}

// Since returns what changed since an earlier View of the same agent.
func (v *View) Since(before *View) Delta {
	d := Delta{Set: map[string]any{"at": v.At, "loadSeconds": v.LoadSeconds}}
	d.set("version", before.Version, v.Version)
	if before.Machine != v.Machine {
		d.set("machine", before.Machine, v.Machine)
	}
	d.set("pools", before.Pools, v.Pools)
	d.set("obstacle", before.Obstacle, v.Obstacle)
	d.set("problems", before.Problems, v.Problems)
	d.set("node", before.Node, v.Node)
	d.cpus(before.CPUs, v.CPUs)
	d.events(before.Events, v.Events)
	var gone Gone
	d.Workloads, gone.Workloads = changed(before.Workloads, v.Workloads, func(w *Workload) string { return w.Name }, sameWorkload)
	d.Changes, gone.Changes = changed(before.Changes, v.Changes, func(c *Change) [2]string { return [2]string{c.Object, c.Knob} },
		func(a, b *Change) bool { return *a == *b })
	if gone.Workloads != nil || gone.Changes != nil {
		d.Gone = &gone
	}
	return d
}

// set notes the value of a key, if it is another one.
func (d *Delta) set(key string, before, now any) {
	if !reflect.DeepEqual(before, now) {
		d.Set[key] = now
	}
}

// cpus notes the CPUs that are others now, or all where other ones are online.
func (d *Delta) cpus(before, now []CPU) {
	if !slices.EqualFunc(before, now, func(a, b CPU) bool { return a.ID == b.ID }) {
		d.Set["cpus"] = now
		return
	}
	for i := range now {
		if now[i] != before[i] {
			d.CPUs = added(d.CPUs, &now[i], len(now)-i)
		}
	}
}

// events notes the events after the last one of before, or all where adding these is not enough: that
// one is not there any more, or an earlier one has been renewed.
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

// sameWorkload compares two workloads, first what changes most and is compared fastest.
func sameWorkload(a, b *Workload) bool {
	if a.Quota != nil && b.Quota != nil && *a.Quota != *b.Quota {
		return false
	}
	return reflect.DeepEqual(a, b)
}

// changed returns what of a list is new or another than before, and the names of what is gone.
func changed[T any, K comparable](before, now []T, name func(*T) K, same func(a, b *T) bool) (other []T, gone []K) {
	if alike(before, now, name) { // as from most seconds to the next
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
	for i := range before { // in their order
		n := name(&before[i])
		if _, left := at[n]; left {
			gone = append(gone, n)
			delete(at, n)
		}
	}
	return other, gone
}

// alike says that two lists have the same names in the same order.
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

// added is a list with one more. A busy node has nearly all in it: the first one makes room for
// those that may follow.
func added[T any](list []T, one *T, left int) []T {
	if list == nil {
		list = make([]T, 0, left)
	}
	return append(list, *one)
}
