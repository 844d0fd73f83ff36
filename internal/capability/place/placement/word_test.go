package placement

import (
	"testing"

	"github.com/berth-project/berth/internal/capability/place/alloc"
)

// TestWords: each refusal has its own word, so that metrics can distinguish them.
func TestWords(t *testing.T) {
	seen := map[string]Refusal{}
	check := func(r Refusal) {
		word := r.Word()
		if other, twice := seen[word]; word == "" || twice {
			t.Errorf("%v has the word %q, and so has %v", r, word, other)
		}
		seen[word] = r
	}
	for code := NoTopology; code <= TooLarge; code++ {
		if code != Allocation {
			check(Refusal{Code: code})
		}
	}
	for code := alloc.BadRequest; code <= alloc.KeptApart; code++ {
		check(Refusal{Code: Allocation, Alloc: alloc.Refusal{Code: code}})
	}
	if word := (Refusal{}).Word(); word != "" {
		t.Errorf("no refusal has the word %q", word)
	}
}
