package tuner_test

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/linux/knob"
)

// asSysctl is the sysctl of rr.slice, as the built-in profile hpc-sched names it.
const asSysctl = "sysctl.kernel.sched_rr_timeslice_ms"

const timeslice = "/proc/sys/kernel/sched_rr_timeslice_ms"

// TestReadBack checks that an apply and a verification ask the kernel the same question where a file shows only what
// was written. The slice of SCHED_RR is what the kernel answers, in whole ticks, and not the text of the file. If it is
// another one, the apply fails and undoes everything, and the verification shows it as ignored. Without an answer the
// file decides. A profile may name the sysctl instead, whose value has no unit.
func TestReadBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, written, want string
		made                time.Duration
		err                 error
		effective           string
		ignored             bool
		knob                string // "" for the knob of the file
	}{
		"as asked for":         {timeslice, "20", "20ms", 20 * time.Millisecond, nil, "20ms", false, ""},
		"whole ticks":          {timeslice, "5", "5ms", 8 * time.Millisecond, nil, "8ms", false, ""},
		"ticks of 1/300 s":     {timeslice, "10", "10ms", 9_999_999, nil, "9.999999ms", false, ""},
		"another one":          {timeslice, "5", "5ms", 100 * time.Millisecond, nil, "100ms", true, ""},
		"less":                 {timeslice, "20", "20ms", 16 * time.Millisecond, nil, "16ms", true, ""},
		"not permitted":        {timeslice, "5", "5ms", 0, errors.New("EPERM"), "5ms", false, ""},
		"a default slice":      {slice, "3000000", "3ms", 3*time.Millisecond + 2, nil, "3ms", false, ""},
		"another slice":        {slice, "3000000", "3ms", 2800 * time.Microsecond, nil, "2.8ms", true, ""},
		"no slices of threads": {slice, "3000000", "3ms", 0, nil, "3ms", false, ""},
		"a sysctl":             {timeslice, "20", "20", 20 * time.Millisecond, nil, "20ms", false, asSysctl},
		"whole ticks of it":    {timeslice, "1", "1", 4 * time.Millisecond, nil, "4ms", false, asSysctl},
		"1/300 s of it":        {timeslice, "100", "100", 99_999_990, nil, "99.99999ms", false, asSysctl},
		"another one of it":    {timeslice, "1", "1", 100 * time.Millisecond, nil, "100ms", true, asSysctl},
		"it is not permitted":  {timeslice, "1", "1", 0, errors.New("EPERM"), "1", false, asSysctl},
		"its default":          {timeslice, "0", "0", 100 * time.Millisecond, nil, "0", false, asSysctl},
		"a starved thread":     {slice, "3000000", "3ms", 0, errors.New("starved"), "3ms", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, _, known := knob.At(c.file)
			if !known {
				t.Fatalf("%s is no knob", c.file)
			}
			answers := func() (time.Duration, error) { return c.made, c.err }
			asked := tuner.Kernel{RoundRobin: answers, Slice: answers, Tick: 4 * time.Millisecond}
			h := newHost(t)
			h.write(timeslice, "100")
			before := h.files()
			o := tuner.Order{Settings: []tune.Setting{{
				Knob: cmp.Or(c.knob, k.Name), File: c.file, Want: c.want, Write: c.written, Support: knob.Settable, Phase: knob.PhaseAt(c.file),
			}}}
			h.kernel = asked
			h.do(func(u *tuner.Tuner) {
				_, err := u.Apply(o)
				if errors.Is(err, apply.ErrNotEffective) != c.ignored || errors.Is(err, tuner.ErrUndone) != c.ignored || !c.ignored && err != nil {
					t.Errorf("applied: %v", err)
				}
			})
			if now := h.files(); c.ignored && now[c.file] != before[c.file] {
				t.Errorf("undone, the file has %q", now[c.file])
			}
			if c.ignored { // another program changes it later
				h.kernel = tuner.Kernel{}
				h.do(func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
			}
			a, _, err := tuner.Load(h.state)
			must(t, err)
			want := tune.OK
			if c.ignored {
				want = tune.Ignored
			}
			for _, row := range a.Verify(h.root.FS(), asked, nil) {
				if row.State != want || row.Effective != c.effective {
					t.Errorf("verified: %+v", row)
				}
			}
			for _, row := range a.Verify(h.root.FS(), tuner.Kernel{}, nil) {
				if row.State != tune.OK {
					t.Errorf("verified by the file: %+v", row)
				}
			}
			h.write(c.file, "9000000")
			for _, row := range a.Verify(h.root.FS(), asked, nil) {
				if row.State != tune.Drift {
					t.Errorf("another value in the file: %+v", row)
				}
			}
		})
	}
}
