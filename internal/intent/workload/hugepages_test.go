package workload_test

import (
	"testing"

	"github.com/berth-project/berth/internal/intent/workload"
)

// TestHugePagesAddUp checks that equal amounts are equal values, however they were computed.
func TestHugePagesAddUp(t *testing.T) {
	const small, big = 2 << 20, 1 << 30
	var a, b workload.HugePages
	a.Put(big, 3*big)
	a.Put(small, big)
	b.Put(small, 2*big)
	b.Put(big, 3*big)
	b.Put(small, -big)
	if a != b || a.Of(small) != big || a.Of(big) != 3*big || a.Of(4096) != 0 {
		t.Errorf("%v and %v", a, b)
	}
	if a.Add(b, -1); a != (workload.HugePages{}) {
		t.Errorf("%v is left", a)
	}
	a.Put(0, 1)
	for size := range int64(9) {
		a.Put(1<<size, 1)
	}
	if a.Of(1) != 1 || a.Of(8) != 1 || a.Of(16) != 0 {
		t.Errorf("more sizes than there are: %v", a)
	}
}
