package tuner

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/tune"
)

// The slice of SCHED_RR is what the kernel reports, in whole ticks, and not the text of the file.
func TestReadBack(t *testing.T) {
	t.Parallel()
	const tick = 4 * time.Millisecond
	for name, c := range map[string]struct {
		row       tune.Verified
		made      time.Duration
		err       error
		effective string
		state     tune.State
	}{
		"as asked for":    {tune.Verified{Knob: roundRobin, Want: "20ms", Effective: "20ms", State: tune.OK}, 20 * time.Millisecond, nil, "20ms", tune.OK},
		"whole ticks":     {tune.Verified{Knob: roundRobin, Want: "5ms", Effective: "5ms", State: tune.OK}, 8 * time.Millisecond, nil, "8ms", tune.OK},
		"another one":     {tune.Verified{Knob: roundRobin, Want: "5ms", Effective: "5ms", State: tune.OK}, 100 * time.Millisecond, nil, "100ms", tune.Ignored},
		"less":            {tune.Verified{Knob: roundRobin, Want: "20ms", Effective: "20ms", State: tune.OK}, 16 * time.Millisecond, nil, "16ms", tune.Ignored},
		"not permitted":   {tune.Verified{Knob: roundRobin, Want: "5ms", Effective: "5ms", State: tune.OK}, 0, errors.New("EPERM"), "5ms", tune.OK},
		"drifted already": {tune.Verified{Knob: roundRobin, Want: "5ms", Effective: "9ms", State: tune.Drift}, 8 * time.Millisecond, nil, "9ms", tune.Drift},
		"another knob":    {tune.Verified{Knob: "fair.slice", Want: "5ms", Effective: "5ms", State: tune.OK}, 8 * time.Millisecond, nil, "5ms", tune.OK},
	} {
		got := ReadBack([]tune.Verified{c.row}, func() (time.Duration, error) { return c.made, c.err }, tick)[0]
		if got.Effective != c.effective || got.State != c.state {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
