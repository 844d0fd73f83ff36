package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/capability"
)

// JSON output has no escapes that only HTML needs, also inside values with their own encoder. The decoded text stays
// the same.
func TestJSONWithoutPageEscapes(t *testing.T) {
	const text = `a > b & c < d \ \u003e \\u003e "q"`
	var out strings.Builder
	if err := encode(&out, "json", capability.Joined{capability.Sections{"why": text}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `a > b & c < d `) {
		t.Errorf("escaped: %s", out.String())
	}
	var back map[string]string
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil || back["why"] != text {
		t.Errorf("%q, %v", back["why"], err)
	}
}
