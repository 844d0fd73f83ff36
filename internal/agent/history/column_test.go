package history

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestColumn checks that a column is read as it was written, whatever follows it.
func TestColumn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spells := rapid.SliceOf(rapid.Custom(func(t *rapid.T) []int64 {
			v := rapid.OneOf(rapid.Int64Range(-3, 3), rapid.Int64Range(-farthest, farthest), rapid.Just(int64(none))).Draw(t, "value")
			return slices.Repeat([]int64{v}, rapid.IntRange(1, 5).Draw(t, "times"))
		})).Draw(t, "spells")
		want := slices.Concat(spells...)
		var c column
		for _, v := range want {
			c.add(v)
		}
		text := c.whole(slices.Clone(c.text))
		got, rest, err := readColumn(append(text, "rest"...), len(want), nil)
		if err != nil || !slices.Equal(got, want) || string(rest) != "rest" {
			t.Fatalf("%v of %x, want %v; rest %q: %v", got, text, want, rest, err)
		}
	})
}

// TestColumnIsCut checks that values out of range are clamped.
func TestColumnIsCut(t *testing.T) {
	var c column
	c.add(farthest + 1)
	c.add(-farthest - 1)
	if got, _, err := readColumn(c.whole(c.text), 2, nil); !slices.Equal(got, []int64{farthest, -farthest}) || err != nil {
		t.Errorf("%v: %v", got, err)
	}
}

// FuzzColumn checks that any text is a column with the given number of samples, or damaged.
func FuzzColumn(f *testing.F) {
	f.Add([]byte{0, 60}, 60)
	f.Add([]byte{1, 2, 0, 200}, 9)
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, 2)
	f.Fuzz(func(t *testing.T, text []byte, samples int) {
		samples = max(0, min(samples, 1000))
		values, rest, err := readColumn(text, samples, nil)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Error(err)
			}
			return
		}
		if len(values) != samples || len(rest) > len(text) {
			t.Fatalf("%d samples of %d", len(values), samples)
		}
		var c column
		for _, v := range values {
			c.add(v)
		}
		if again, _, err := readColumn(c.whole(c.text), samples, nil); !slices.Equal(again, values) || err != nil {
			t.Errorf("%v, then %v: %v", values, again, err)
		}
	})
}
