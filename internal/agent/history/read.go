package history

import (
	"fmt"
	"maps"
	"slices"
)

// node is the name of the node in the list of workloads.
const node = ""

// recent returns the throttling of all workloads in the last samples, at most most of them.
func (r *ring) recent(most int) (Past, error) {
	all, skip := r.last(most)
	names := map[string]bool{}
	for _, m := range all {
		for _, name := range m.names {
			names[name] = true
		}
	}
	delete(names, node)
	return throttling(all, skip, slices.Sorted(maps.Keys(names)))
}

// last returns the minutes of the last samples, and how many earlier samples they begin with. The open minute has all
// workloads, or only the named ones and the node.
func (r *ring) last(most int, only ...string) (all []*minute, skip int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := slices.Sorted(maps.Keys(r.tracks))
	if len(only) > 0 {
		names = slices.DeleteFunc(names, func(name string) bool { return name != node && !slices.Contains(only, name) })
	}
	all, count := []*minute{r.opened(names)}, len(r.times)
	for i := len(r.closed) - 1; i >= 0 && count < most; i-- {
		all, count = append(all, r.closed[i]), count+len(r.closed[i].times)
	}
	slices.Reverse(all)
	return all, max(count-most, 0)
}

// throttling reads the throttling of workloads, without the first skip samples.
func throttling(all []*minute, skip int, names []string) (Past, error) {
	p := Past{Format: Format, Times: []int64{}, Workloads: make([]Workload, 0, len(names))}
	for _, m := range all {
		p.Times = append(p.Times, m.times...)
	}
	p.Times = p.Times[skip:]
	var read reader
	values, err := read.of(all, skip, node)
	if err != nil {
		return Past{}, err
	}
	p.Node = shown(used, values[used])
	for _, name := range names {
		w := Workload{Name: name}
		if values, err = read.of(all, skip, name); err != nil {
			return Past{}, err
		}
		w.Periods, w.Throttled, w.Above = shown(periods, values[periods]), shown(throttled, values[throttled]), shown(above, values[above])
		p.Workloads = append(p.Workloads, w)
	}
	return p, nil
}

// reader reads one workload after the other into the same buffers.
type reader struct{ values [measures][]int64 }

// of returns the samples of a workload without the first skip samples, valid until the next call.
func (r *reader) of(all []*minute, skip int, name string) ([measures][]int64, error) {
	for i := range r.values {
		r.values[i] = r.values[i][:0]
	}
	for _, m := range all {
		text := m.columns(name)
		for i := range r.values {
			if text == nil {
				r.values[i] = append(r.values[i], slices.Repeat([]int64{none}, len(m.times))...)
				continue
			}
			var err error
			if r.values[i], text, err = readColumn(text, len(m.times), r.values[i]); err != nil {
				return r.values, fmt.Errorf("history of %q: %w", name, err)
			}
		}
	}
	last := r.values
	for i := range last {
		last[i] = last[i][skip:]
	}
	return last, nil
}
