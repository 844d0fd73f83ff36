package history

import (
	"slices"
)

// samples is how many a minute has.
const samples = 60

// minute is a list of samples of some workloads. It is closed: no code changes it.
type minute struct {
	times []int64
	// names are sorted, and ends are where the columns of each end in the text.
	names []string
	ends  []uint32
	text  []byte
}

// Bytes of a minute beside its text: of a workload its name as a string and its end, of a sample its time.
const (
	bytesOfName = 16 + 4
	bytesOfTime = 8
)

// size is how many bytes a minute has.
func (m *minute) size() int {
	return len(m.text) + bytesOfName*len(m.names) + bytesOfTime*len(m.times)
}

// columns is the text of a workload, nil where the minute does not have it.
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
