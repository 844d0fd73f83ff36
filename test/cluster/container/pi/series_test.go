package main

import (
	"strings"
	"testing"
)

// TestCompute compares the result with the known digits, and the result of one thread with that of many.
func TestCompute(t *testing.T) {
	const known = "3.14159265358979323846264338327950288419716939937510"
	for _, threads := range []int{1, 3, 100} {
		if got := compute(50, threads); got != known {
			t.Errorf("%d threads: %s, want %s", threads, got, known)
		}
	}
	one, many := compute(3000, 1), compute(3000, 500)
	if one != many || !strings.HasPrefix(one, known) {
		t.Error("3,000 digits depend on the number of threads")
	}
}
