package knob_test

import (
	"testing"
	"testing/fstest"

	"github.com/berth-project/berth/internal/linux/knob"
)

// TestTightens checks which of two limits of real-time threads leaves more CPU time to other threads, and which file
// the kernel accepts first on the way to it.
func TestTightens(t *testing.T) {
	const runtime, period = "/proc/sys/kernel/sched_rt_runtime_us", "/proc/sys/kernel/sched_rt_period_us"
	for name, tt := range map[string]struct {
		from, to knob.Limit
		tightens bool
		first    string
	}{
		"to a limit":         {knob.Limit{"-1", "1000000"}, knob.Limit{"950000", "1000000"}, true, runtime},
		"from a limit":       {knob.Limit{"950000", "1000000"}, knob.Limit{"-1", "1000000"}, false, runtime},
		"lower":              {knob.Limit{"950000", "1000000"}, knob.Limit{"900000", "1000000"}, true, runtime},
		"the same":           {knob.Limit{"950000", "1000000"}, knob.Limit{"950000", "1000000"}, false, runtime},
		"all of it":          {knob.Limit{"-1", "1000000"}, knob.Limit{"1000000", "1000000"}, false, runtime},
		"0 is none":          {knob.Limit{"0", "1000000"}, knob.Limit{"950000", "1000000"}, true, runtime},
		"to none by 0":       {knob.Limit{"950000", "1000000"}, knob.Limit{"0", "1000000"}, false, runtime},
		"a longer period":    {knob.Limit{"950000", "1000000"}, knob.Limit{"950000", "2000000"}, true, runtime},
		"a shorter period":   {knob.Limit{"500000", "1000000"}, knob.Limit{"500000", "500000"}, false, runtime},
		"more by both":       {knob.Limit{"950000", "1000000"}, knob.Limit{"1990000", "2000000"}, false, period},
		"less by both":       {knob.Limit{"1990000", "2000000"}, knob.Limit{"950000", "1000000"}, true, runtime},
		"an unknown one":     {knob.Limit{}, knob.Limit{"950000", "1000000"}, true, runtime},
		"an unknown runtime": {knob.Limit{"950000", "1000000"}, knob.Limit{"", "1000000"}, false, runtime},
	} {
		if got := tt.to.Tightens(tt.from); got != tt.tightens {
			t.Errorf("%s: tightens %v, want %v", name, got, tt.tightens)
		}
		if got := tt.to.First(tt.from); got != tt.first {
			t.Errorf("%s: %s first, want %s", name, got, tt.first)
		}
	}
	host := fstest.MapFS{runtime[1:]: {Data: []byte("950000\n")}}
	has := knob.LimitOf(host)
	if want := (knob.Limit{Runtime: "950000"}); has != want {
		t.Errorf("%+v, want %+v", has, want)
	}
	if got, want := has.With(period, "1000000").With("/proc/sys/vm/swappiness", "1"), (knob.Limit{"950000", "1000000"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
