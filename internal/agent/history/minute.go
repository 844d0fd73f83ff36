package history

import (
	"slices"
)

// samples is the number of samples in a minute.
const samples = 60

// minute is a list of samples of some workloads. It is closed: no code changes it.
type minute struct {
	times []int64
	// names are sorted. ends are the offsets in the text at which the columns of each name end.
	names []string
	ends  []uint32
	text  []byte
}

// Bytes of a minute beside its text: for each workload the string header of its name and its end, for each sample its
// time.
const (
	bytesOfName = 16 + 4
	bytesOfTime = 8
)

// size returns the size of the minute in bytes.
func (m *minute) size() int {
	return len(m.text) + bytesOfName*len(m.names) + bytesOfTime*len(m.times)
}

// columns returns the text of a workload, nil if the minute does not have it.
func (m *minute) columns(name string) []byte {
	i, found := slices.BinarySearch(m.names, name)
	if !found {
		return nil
	}
	begin := uint32(0)
	if i > 0 {
		begin = m.ends[i-1]
	}
	return m.text[begin:m.ends[i]]
}
