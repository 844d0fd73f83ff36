package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
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

// TestVerifyNamesWhatIsUnknown: limits of idle states that nothing proves are one note for each reason, and no error. A
// limit that the kernel ignores is an error with the kernel's figures.
func TestVerifyNamesWhatIsUnknown(t *testing.T) {
	row := func(cpu string, state tune.State, reason string) tune.Verified {
		return tune.Verified{Knob: tuner.ResumeLatency, Instance: cpu, Want: "20us", Effective: "20us", State: state, Reason: reason}
	}
	v := verified{Settings: []tune.Verified{
		row("cpu0", tune.Unproven, "no driver"), row("cpu1", tune.OK, ""), row("cpu2", tune.Unproven, "no driver"), row("cpu3", tune.Unproven, "busy"),
	}}
	var out bytes.Buffer
	if err := printVerified(&out, v); err != nil || verdict(v) != nil {
		t.Error(err, verdict(v))
	}
	if strings.Count(out.String(), "note: ") != 2 || !strings.Contains(out.String(), "note: cpu.resumeLatency cpu0 and 1 more: ") ||
		!strings.Contains(out.String(), "note: cpu.resumeLatency cpu3: ") || strings.Contains(out.String(), "cpu1 and") {
		t.Error(out.String())
	}
	v.Settings = append(v.Settings, row("cpu4", tune.Ignored, "9 x C6"))
	if err := verdict(v); !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), "(9 x C6)") {
		t.Error(err)
	}
}
