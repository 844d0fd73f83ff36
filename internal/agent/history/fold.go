package history

import (
	"math"
)

// mostShown is the maximum of samples of a workload in an answer.
const mostShown = Kept

// fold joins samples of one workload, and of the node, into fewer samples. It sums counts, averages use and credit, and
// uses the last limit, quota and capacity.
type fold struct {
	name string
	// from and until bound the times of the samples, both exclusive. step is the length of a joined sample; 0 joins
	// none.
	from, until, step int64

	read   reader
	past   Past
	all    [measures]Column
	known  bool
	joined [measures + 1]mean // of the workload, and of the node's use
}

// mean is the sum and the number of values, and the last value.
type mean struct {
	sum, last float64
	count     int
}

// add adds the samples of a minute.
func (f *fold) add(m *minute) error {
	node, err := f.read.of([]*minute{m}, 0, node)
	if err != nil {
		return err
	}
	use := shown(used, node[used])
	values, err := f.read.of([]*minute{m}, 0, f.name)
	if err != nil {
		return err
	}
	var columns [measures]Column
	for i := range columns {
		columns[i] = shown(i, values[i])
	}
	for i, at := range m.times {
		if at <= f.from || at >= f.until {
			continue
		}
		if n := len(f.past.Times); n == 0 || f.step == 0 || at/f.step != f.past.Times[n-1]/f.step {
			f.begin()
		}
		f.past.Times[len(f.past.Times)-1] = at
		for k := range columns {
			f.join(k, &f.all[k], columns[k][i])
		}
		f.join(measures, &f.past.Node, use[i])
		f.known = f.known || !math.IsNaN(columns[limit][i])
	}
	return nil
}

// begin appends a sample without known values.
func (f *fold) begin() {
	f.past.Times = append(f.past.Times, 0)
	for k := range f.all {
		f.all[k] = append(f.all[k], math.NaN())
	}
	f.past.Node = append(f.past.Node, math.NaN())
	f.joined = [measures + 1]mean{}
}

// join joins a number to the last sample of a column.
func (f *fold) join(measure int, column *Column, v float64) {
	if math.IsNaN(v) {
		return
	}
	m := &f.joined[measure]
	m.sum, m.last, m.count = m.sum+v, v, m.count+1
	switch measure {
	case limit, now, capacity:
		v = m.last
	case periods, throttled, above:
		v = m.sum
	default:
		v = math.Round(thousandths*m.sum/float64(m.count)) / thousandths
	}
	(*column)[len(*column)-1] = v
}

// result returns the joined samples.
func (f *fold) result() Past {
	p := f.past
	p.Format, p.Workloads = Format, []Workload{{Name: f.name}}
	for i, column := range p.Workloads[0].columns() {
		*column = f.all[i]
	}
	return p
}
