package alloc

import "slices"

// sums returns the sum of the k greatest (or least) values of a list from position i on. It bounds the remaining part
// of a search.
type sums struct {
	width  int
	rows   []int
	sorted []int
	// values are the values, times sign.
	values []int
	sign   int
}

// reset starts a list, whose greatest values are best if sign is 1, and its least ones if sign is -1.
func (t *sums) reset(sign int) { t.values, t.sign = t.values[:0], sign }

func (t *sums) append(v int) { t.values = append(t.values, t.sign*v) }

// at returns the value at position i.
func (t *sums) at(i int) int { return t.sign * t.values[i] }

// build prepares the answers for up to most values.
func (t *sums) build(most int) {
	t.width = most + 1
	t.rows = grow(t.rows, (len(t.values)+1)*t.width)
	t.sorted = t.sorted[:0]
	clear(t.rows[len(t.values)*t.width:])
	for i, v := range slices.Backward(t.values) {
		t.sorted = insert(t.sorted, v, most)
		row, sum := t.rows[i*t.width:(i+1)*t.width], 0
		row[0] = 0
		for k, v := range t.sorted {
			sum += v
			row[k+1] = sum
		}
		for k := len(t.sorted) + 1; k < len(row); k++ {
			row[k] = sum
		}
	}
}

// sort returns the best values in the order of the list's sums, best first, at most most of them. The result is valid
// until the next call.
func (t *sums) sort(most int) []int {
	t.sorted = t.sorted[:0]
	for _, v := range t.values {
		t.sorted = insert(t.sorted, v, most)
	}
	return t.sorted
}

// best returns the sum of the k best values.
func (t *sums) best(k int) int { return t.sign * total(t.sort(k)) }

// of returns the sum of the k best values from position i on, or of all of them if there are fewer.
func (t *sums) of(i, k int) int { return t.sign * t.rows[i*t.width+k] }
