package cpuset_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/value/cpuset"
)

func TestWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := draw(t, "set")
		words := s.Words()
		for cpu := range cpuset.Max {
			if s.Contains(cpu) != (words[cpu/64]>>(cpu%64)&1 != 0) {
				t.Fatalf("%s: CPU %d", s, cpu)
			}
		}
		if got := cpuset.OfWords(words); got != s {
			t.Fatalf("%s comes back as %s", s, got)
		}
	})
}
