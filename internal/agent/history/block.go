package history

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
)

// On disk a minute is a block. Its head is the length of the body, the checksum of that length, and the checksum of the
// body. The body is the times of the samples, the names, the lengths of the columns of each name, and the columns.
const (
	blockHead = 12
	// longestBlock bounds one read. A minute with the maximum of series, with names of 400 bytes, is smaller.
	longestBlock = 8 << 20
)

// castagnoli is a checksum that processors compute in hardware.
func castagnoli(text []byte) uint32 { return crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)) }

// block encodes the minute.
func (m *minute) block() []byte {
	text := binary.AppendUvarint(make([]byte, blockHead, blockHead+m.size()), uint64(len(m.times)))
	before := int64(0)
	for _, at := range m.times {
		text, before = binary.AppendVarint(text, at-before), at
	}
	text = binary.AppendUvarint(text, uint64(len(m.names)))
	for _, name := range m.names {
		text = append(binary.AppendUvarint(text, uint64(len(name))), name...)
	}
	begin := uint32(0)
	for _, end := range m.ends {
		text, begin = binary.AppendUvarint(text, uint64(end-begin)), end
	}
	text = append(text, m.text...)
	binary.LittleEndian.PutUint32(text, uint32(len(text)-blockHead)) //nolint:gosec // a minute is smaller
	binary.LittleEndian.PutUint32(text[4:], castagnoli(text[:4]))
	binary.LittleEndian.PutUint32(text[8:], castagnoli(text[blockHead:]))
	return text
}

// readBlock decodes the body of a block. The columns are decoded on demand.
func readBlock(text []byte) (*minute, error) {
	count, err := readCount(&text, samples)
	if err != nil {
		return nil, err
	}
	if count == 0 {
		return nil, fmt.Errorf("%w: a block without samples", ErrDamaged)
	}
	m := &minute{times: make([]int64, count)}
	before := int64(0)
	for i := range m.times {
		d, size := binary.Varint(text)
		if before += d; size <= 0 || before < -farthest || before > farthest {
			return nil, fmt.Errorf("%w: time %d of a block", ErrDamaged, i)
		}
		m.times[i], text = before, text[size:]
	}
	if count, err = readCount(&text, len(text)); err != nil {
		return nil, err
	}
	if m.names, err = readNames(&text, count); err != nil {
		return nil, err
	}
	m.ends = make([]uint32, count)
	end := 0
	for i := range m.ends {
		length, err := readCount(&text, len(text))
		if err != nil {
			return nil, err
		}
		end += length
		m.ends[i] = uint32(end) //nolint:gosec // no block is as long
	}
	if end != len(text) || end > longestBlock {
		return nil, fmt.Errorf("%w: columns of %d bytes in %d", ErrDamaged, end, len(text))
	}
	m.text = text
	return m, nil
}

// readNames reads sorted names.
func readNames(text *[]byte, count int) ([]string, error) {
	all := make([]string, 0, count)
	for range count {
		length, err := readCount(text, len(*text))
		if err != nil {
			return nil, err
		}
		if length > len(*text) {
			return nil, fmt.Errorf("%w: it ends within a name", ErrDamaged)
		}
		all, *text = append(all, string((*text)[:length])), (*text)[length:]
	}
	for i := range all[min(1, len(all)):] {
		if all[i] >= all[i+1] {
			return nil, fmt.Errorf("%w: names that are not sorted", ErrDamaged)
		}
	}
	return slices.Clip(all), nil
}

// readCount reads a number that is at most most.
func readCount(text *[]byte, most int) (int, error) {
	n, err := readNumber(text)
	if err != nil {
		return 0, err
	}
	if n > uint64(most) { //nolint:gosec // it is not negative
		return 0, fmt.Errorf("%w: a count of %d, at most %d is possible", ErrDamaged, n, most)
	}
	return int(n), nil //nolint:gosec // it is smaller than an int
}
