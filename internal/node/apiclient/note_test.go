package apiclient_test

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/node/apiclient"
)

// TestNote keeps what fits and whole characters of what does not.
func TestNote(t *testing.T) {
	for text, want := range map[string]string{
		"short":                          "short",
		strings.Repeat("a", 1024):        strings.Repeat("a", 1024),
		strings.Repeat("a", 1025):        strings.Repeat("a", 1021) + "…",
		strings.Repeat("ü", 513):         strings.Repeat("ü", 510) + "…",
		"a" + strings.Repeat("ü", 512):   "a" + strings.Repeat("ü", 510) + "…",
		strings.Repeat("\x80", 2*1024+1): "…",
	} {
		if got := apiclient.Note(text); got != want {
			t.Errorf("%d bytes: %d bytes %q, want %d", len(text), len(got), got, len(want))
		}
	}
}
