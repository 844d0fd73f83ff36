package history

// Node is the name of the node in a Stretch. Only the use of the node is known.
const Node = node

// Stretch is at most a minute of samples. It is valid until the function that received it returns.
type Stretch struct {
	m *minute
	*scratch
}

// scratch is reused for all stretches of a call.
type scratch struct {
	read    reader
	columns [measures]Column
}

// Times are the times of the samples, in Unix milliseconds. They grow, unless the clock was set back.
func (s Stretch) Times() []int64 { return s.m.times }

// Names are the sorted names of the workloads with known samples, and of the node.
func (s Stretch) Names() []string { return s.m.names }

// Of returns the samples of one workload, valid until the next call. Each Column has as many numbers as there are
// Times.
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

// Between calls do for the samples from one time until another, in Unix milliseconds, the oldest first. A Stretch may
// begin earlier and end later.
func (h *History) Between(from, until int64, do func(Stretch) error) error {
	var room scratch
	give := func(m *minute) error { return do(Stretch{m: m, scratch: &room}) }
	minutes, _ := h.ring.last(Kept)
	begin, _ := spanOf(minutes)
	if a := h.disk(); a != nil && from < begin {
		if err := a.between(from-1, min(begin, until+1), give); err != nil {
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
