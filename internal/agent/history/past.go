package history

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Format is the version of the JSON. A new field does not change it.
const Format = 1

// Past is a part of the history, the oldest sample first.
type Past struct {
	Format int `json:"v"`
	// Times are the times of the samples, in Unix milliseconds. Each Column has as many numbers.
	Times []int64 `json:"times"`
	// Node is how many CPUs the whole node used.
	Node      Column     `json:"nodeUsedCPUs"`
	Workloads []Workload `json:"workloads"`
}

// Workload is the past of one workload. The JSON omits a Column that is 0 throughout.
type Workload struct {
	Name string `json:"name"`
	// Limit is the workload's own limit, Now the quota in force, in CPUs; -1 means unlimited. Used is how many CPUs it
	// used since the previous sample.
	Limit Column `json:"limitCPUs,omitzero"`
	Now   Column `json:"nowCPUs,omitzero"`
	Used  Column `json:"usedCPUs,omitzero"`
	// Credit is the saved credit, at most Capacity, in CPU-seconds; a capacity of -1 means unlimited.
	Credit   Column `json:"creditCPUSeconds,omitzero"`
	Capacity Column `json:"capacityCPUSeconds,omitzero"`
	// Since the previous sample: Periods is in how many periods it ran, Throttled in how many it was throttled, and
	// Above in how many a group above it was throttled.
	Periods   Column `json:"periods,omitzero"`
	Throttled Column `json:"throttledPeriods,omitzero"`
	Above     Column `json:"throttledPeriodsAbove,omitzero"`
}

// Column is one series, with NaN for unknown values.
type Column []float64

// IsZero reports whether all numbers are 0.
func (c Column) IsZero() bool {
	for _, v := range c {
		if v != 0 {
			return false
		}
	}
	return true
}

// MarshalJSON implements json.Marshaler: an unknown value is null.
func (c Column) MarshalJSON() ([]byte, error) {
	text := []byte{'['}
	for i, v := range c {
		if i > 0 {
			text = append(text, ',')
		}
		if math.IsNaN(v) {
			text = append(text, "null"...)
			continue
		}
		text = strconv.AppendFloat(text, v, 'f', -1, 64)
	}
	return append(text, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Column) UnmarshalJSON(text []byte) error {
	var all []*float64
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("numbers of a history: %w", err)
	}
	*c = make(Column, len(all))
	for i, v := range all {
		if (*c)[i] = math.NaN(); v != nil {
			(*c)[i] = *v
		}
	}
	return nil
}

// Measures of a workload, as stored: amounts in thousandths.
const (
	limit = iota
	now
	used
	credit
	capacity
	periods
	throttled
	above
	measures
)

// amounts is the first measure that is a count; the measures before it are amounts.
const amounts = periods

// thousandths is the unit of stored amounts.
const thousandths = 1000

// sample is the stored form of one moment of a workload.
type sample [measures]int64

// columns returns pointers to the columns, in the order of the measures.
func (w *Workload) columns() [measures]*Column {
	return [measures]*Column{&w.Limit, &w.Now, &w.Used, &w.Credit, &w.Capacity, &w.Periods, &w.Throttled, &w.Above}
}

// shown converts stored numbers of a measure to a Column.
func shown(measure int, values []int64) Column {
	return appendShown(make(Column, 0, len(values)), measure, values)
}

// appendShown appends the converted numbers to a Column.
func appendShown(all Column, measure int, values []int64) Column {
	for _, v := range values {
		switch {
		case v == none:
			all = append(all, math.NaN())
		case measure < amounts:
			all = append(all, float64(v)/thousandths)
		default:
			all = append(all, float64(v))
		}
	}
	return all
}
