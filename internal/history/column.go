package history

import (
	"encoding/binary"
	"fmt"
	"math"
)

// none is the number of a sample that is not known.
const none = math.MinInt64

// farthest bounds the other numbers. A float64 has each of them, and no difference overflows.
const farthest = 1 << 53

// Signs of a column. Any other one is a difference to the last number that was known.
const (
	signRun  = iota // the sample before, as often as the count after it says
	signNone        // a sample that is not known
	signs
)

// column is one series, as a list of signs. Before the first sample the number is 0. The zero value
// is empty.
type column struct {
	text []byte
	// last is the sample before, known the last one that was known, and run is how many more
	// samples are like last.
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

// longestRun is how many bytes whole appends at most for the samples of a minute.
const longestRun = 2

// whole appends what is not in the text yet.
func (c *column) whole(text []byte) []byte {
	switch {
	case c.run == 0:
		return text
	case c.run > 1:
		return binary.AppendUvarint(append(text, signRun), c.run)
	case c.last == none:
		return append(text, signNone)
	}
	return append(text, signs) // no difference
}

// reset forgets the samples, and keeps the room that they took.
func (c *column) reset() { *c = column{text: c.text[:0]} }

// zigzag makes small numbers of small differences of both signs.
func zigzag(d int64) uint64 { return uint64(d<<1) ^ uint64(d>>63) } //nolint:gosec // the bits count

// unzigzag is the other way.
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) } //nolint:gosec // the bits count

// readColumn appends so many samples of a column to out, and returns what follows the column.
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

// read takes a sign from the beginning of the text, and returns how many samples it stands for.
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

// readNumber takes a number from the beginning of a text.
func readNumber(text *[]byte) (uint64, error) {
	n, size := binary.Uvarint(*text)
	if size <= 0 {
		return 0, fmt.Errorf("%w: it ends within a number", ErrDamaged)
	}
	*text = (*text)[size:]
	return n, nil
}
