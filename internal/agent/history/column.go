package history

import (
	"encoding/binary"
	"fmt"
	"math"
)

// none is the stored number of an unknown sample.
const none = math.MinInt64

// farthest bounds the known numbers. A float64 represents each of them exactly, and no difference overflows.
const farthest = 1 << 53

// Signs of a column. Any other sign is a difference to the last known number.
const (
	signRun  = iota // repeats the previous sample; a count follows
	signNone        // an unknown sample
	signs
)

// column is one series, as a list of signs. Before the first sample the number is 0. The zero value is empty.
type column struct {
	text []byte
	// last is the previous sample, known the last known number. run is how many samples equal to last are not in text
	// yet.
	last, known int64
	run         uint64
}

// add adds a sample.
func (c *column) add(v int64) {
	if v != none {
		v = min(max(v, -farthest), farthest)
	}
	if v == c.last {
		c.run++
		return
	}
	c.text, c.run = c.whole(c.text), 0
	if c.last = v; v == none {
		c.text = append(c.text, signNone)
		return
	}
	c.text = binary.AppendUvarint(c.text, signs+zigzag(v-c.known))
	c.known = v
}

// longestRun is the maximum of bytes that whole appends for the samples of a minute.
const longestRun = 2

// whole appends the samples that are not in the text yet.
func (c *column) whole(text []byte) []byte {
	switch {
	case c.run == 0:
		return text
	case c.run > 1:
		return binary.AppendUvarint(append(text, signRun), c.run)
	case c.last == none:
		return append(text, signNone)
	}
	return append(text, signs) // a difference of 0
}

// reset empties the column and reuses its buffer.
func (c *column) reset() { *c = column{text: c.text[:0]} }

// zigzag maps small differences of both signs to small numbers.
func zigzag(d int64) uint64 { return uint64(d<<1) ^ uint64(d>>63) } //nolint:gosec // the bits count

// unzigzag is the inverse of zigzag.
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) } //nolint:gosec // the bits count

// readColumn appends the given number of samples of a column to out, and returns the text after the column.
func readColumn(text []byte, samples int, out []int64) (values []int64, rest []byte, err error) {
	c := column{text: text}
	for left := samples; left > 0; {
		again, err := c.read()
		if err != nil {
			return nil, nil, err
		}
		if again == 0 || again > uint64(left) { //nolint:gosec // left is positive
			return nil, nil, fmt.Errorf("%w: %d samples where %d are left", ErrDamaged, again, left)
		}
		for range again {
			out = append(out, c.last)
			left--
		}
	}
	return out, c.text, nil
}

// read reads a sign from the beginning of the text, and returns how many samples it encodes.
func (c *column) read() (again uint64, err error) {
	sign, err := readNumber(&c.text)
	if err != nil {
		return 0, err
	}
	switch sign {
	case signRun:
		return readNumber(&c.text)
	case signNone:
		c.last = none
	default:
		if c.known += unzigzag(sign - signs); c.known < -farthest || c.known > farthest {
			return 0, fmt.Errorf("%w: a number out of range", ErrDamaged)
		}
		c.last = c.known
	}
	return 1, nil
}

// readNumber reads a number from the beginning of a text.
func readNumber(text *[]byte) (uint64, error) {
	n, size := binary.Uvarint(*text)
	if size <= 0 {
		return 0, fmt.Errorf("%w: it ends within a number", ErrDamaged)
	}
	*text = (*text)[size:]
	return n, nil
}
