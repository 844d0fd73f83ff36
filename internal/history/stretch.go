package history

import (
	"errors"
)

// Node is the name under which a Stretch has the node, of which only the use is known.
const Node = node

// Stretch is at most a minute of samples. It is good until the function that it was given to returns.
type Stretch struct {
	m *minute
	*scratch
}

// scratch has room that is used again and again.
type scratch struct {
	read    reader
	columns [measures]Column
}

// Times are when the samples were taken, in Unix milliseconds. They grow, unless the clock was set back.
func (s Stretch) Times() []int64 { return s.m.times }

// Names are those of the workloads of which something is known, and of the node, in their order.
func (s Stretch) Names() []string { return s.m.names }

// Of returns the samples of one workload, until the next call: each Column has as many numbers as
// there are Times.
func (s Stretch) Of(name string) (Workload, error) {
	values, err := s.read.of([]*minute{s.m}, 0, name)
	if err != nil {
		return Workload{}, err
	}
	w := Workload{Name: name}
	for i, column := range w.columns() {
		s.columns[i] = appendShown(s.columns[i][:0], i, values[i])
		*column = s.columns[i]
	}
	return w, nil
}

// Between hands over what is kept from one time until another, in Unix milliseconds, the oldest
// first. A Stretch may begin earlier and end later.
func (h *History) Between(from, until int64, do func(Stretch) error) error {
	var room scratch
	give := func(m *minute) error { return do(Stretch{m: m, scratch: &room}) }
	minutes, _ := h.ring.last(Kept)
	begin, _ := spanOf(minutes)
	if a := h.disk(); a != nil && from < begin {
		if err := a.between(from-1, min(begin, until+1), give); err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
	}
	for _, m := range minutes {
		if n := len(m.times); n == 0 || m.times[n-1] < from || m.times[0] > until {
			continue
		}
		if err := give(m); err != nil {
			return err
		}
	}
	return nil
}
