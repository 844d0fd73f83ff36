package history

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Format is the version of the JSON. A field that is added does not change it.
const Format = 1

// Past is what was kept, the oldest sample first.
type Past struct {
	Format int `json:"v"`
	// Times are when the samples were taken, in Unix milliseconds. Each Column has as many numbers.
	Times []int64 `json:"times"`
	// Node is the CPUs that all of the node used.
	Node      Column     `json:"nodeUsedCPUs"`
	Workloads []Workload `json:"workloads"`
}

// Workload is the past of one workload. A Column that is 0 throughout is left out of the JSON.
type Workload struct {
	Name string `json:"name"`
	// Limit is what it asked for, Now the quota in force, in CPUs; -1 for no limit. Used is the
	// CPUs that it used since the sample before.
	Limit Column `json:"limitCPUs,omitzero"`
	Now   Column `json:"nowCPUs,omitzero"`
	Used  Column `json:"usedCPUs,omitzero"`
	// Credit is what it had saved, of at most Capacity, in CPU-seconds; a capacity of -1 has no bound.
	Credit   Column `json:"creditCPUSeconds,omitzero"`
	Capacity Column `json:"capacityCPUSeconds,omitzero"`
	// Periods are those in which it ran since the sample before, Throttled those in which it was
	// throttled, and Above those in which a group above it was.
	Periods   Column `json:"periods,omitzero"`
	Throttled Column `json:"throttledPeriods,omitzero"`
	Above     Column `json:"throttledPeriodsAbove,omitzero"`
}

// Column is one series, with NaN for what is not known.
type Column []float64

// IsZero says that all of it is 0.
func (c Column) IsZero() bool {
	for _, v := range c {
		if v != 0 {
			return false
		}
	}
	return true
}

// MarshalJSON implements json.Marshaler: null is what is not known.
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

// Measures of a workload, as they are kept: amounts in thousandths.
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

// amounts are the measures before this one; those from it on are counts.
const amounts = periods

// thousandths of an amount are kept.
const thousandths = 1000

// sample is what is kept of one moment of a workload.
type sample [measures]int64

// columns are the places of the measures in a Workload.
func (w *Workload) columns() [measures]*Column {
	return [measures]*Column{&w.Limit, &w.Now, &w.Used, &w.Credit, &w.Capacity, &w.Periods, &w.Throttled, &w.Above}
}

// shown are numbers of a measure as they are shown.
func shown(measure int, values []int64) Column {
	return appendShown(make(Column, 0, len(values)), measure, values)
}

// appendShown appends them to a Column.
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
