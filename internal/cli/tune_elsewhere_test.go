package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/capability/tune"
)

// TestVerifyNamesMemoryElsewhere: memory that is on other nodes is a note of verify, and no error.
func TestVerifyNamesMemoryElsewhere(t *testing.T) {
	v := verified{Settings: []tune.Verified{
		{Knob: tune.UnitMems, Instance: "db.service", Want: "1", Effective: "1", State: tune.OK, Elsewhere: 8 << 20},
		{Knob: tune.UnitMems, Instance: "web.service", Want: "0", Effective: "0", State: tune.OK},
	}}
	var out bytes.Buffer
	if err := printVerified(&out, v); err != nil || verdict(v) != nil {
		t.Error(err, verdict(v))
	}
	if strings.Count(out.String(), "note: ") != 1 || !strings.Contains(out.String(), "note: unit.mems db.service: 8 MiB of its memory") {
		t.Error(out.String())
	}
}
