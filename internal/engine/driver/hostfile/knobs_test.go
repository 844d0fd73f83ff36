package hostfile_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/plan"
)

// TestKnobFiles checks what the catalogue says about files: which word of several is selected, which masks are equal,
// and how values are restored.
func TestKnobFiles(t *testing.T) {
	const sched, workqueue = "/sys/kernel/debug/sched/", "/sys/devices/virtual/workqueue/"
	for file, tt := range map[string]struct{ text, from, same, to, effective, back string }{
		sched + "preempt":                                             {"none voluntary (full)\n", "full", "full", "none", "none", "full"},
		workqueue + "cpumask":                                         {"f\n", "f", "0000,0000000f", "3", "3", "f"},
		"/sys/class/net/eth0/queues/rx-0/rps_cpus":                    {"00000000,0000000f\n", "00000000,0000000f", "f", "1", "1", "00000000,0000000f"},
		"/sys/devices/system/cpu/cpu3/power/pm_qos_resume_latency_us": {"n/a\n", "n/a", "n/a", "20", "20", "n/a"},
	} {
		t.Run(file, func(t *testing.T) {
			r := newRecorded(t)
			r.Write(file, tt.text)
			a, _ := r.applier(apply.Options{})
			c := change(t, r.kinds, file, plan.Value(tt.same))
			if res := a.Apply([]plan.Change{c})[0]; string(c.From) != tt.from || res.Err != nil || res.Wrote {
				t.Errorf("what stands was written, or %q is not %q: %+v", c.From, tt.from, res)
			}
			c.Value = plan.Value(tt.to)
			if res := a.Apply([]plan.Change{c})[0]; res.Err != nil || string(res.Effective) != tt.effective {
				t.Fatalf("%+v", res)
			}
			restored(t, a, apply.OutcomeRestored)
			if got := r.content(file); got != tt.back {
				t.Errorf("back to %q, want %q", got, tt.back)
			}
		})
	}
}

// TestRequestedMask checks that the workqueues' requested mask is the value. The mask that the file itself shows lacks
// the CPUs of isolated partitions.
func TestRequestedMask(t *testing.T) {
	const file = "/sys/devices/virtual/workqueue/cpumask"
	r := newRecorded(t)
	r.Write(file, "3\n")
	r.Write(file+"_requested", "f\n")
	if c := change(t, r.kinds, file, "1"); c.From != "f" {
		t.Errorf("from %q, want the requested mask", c.From)
	}
}

// TestSliceIsNormalized checks that apply and restore of the slice also write tunable_scaling again, which updates the
// kernel's second copy of the slice.
func TestSliceIsNormalized(t *testing.T) {
	const slice, scaling = "/sys/kernel/debug/sched/base_slice_ns", "/sys/kernel/debug/sched/tunable_scaling"
	r := newRecorded(t)
	r.Write(slice, "3000000\n")
	r.Write(scaling, "1\n")
	a, j := r.applier(apply.Options{})
	old := time.Unix(1, 0)
	rewritten := func(what string) {
		t.Helper()
		info, err := os.Stat(r.Path(scaling))
		must(t, err)
		if info.ModTime().Equal(old) || r.content(scaling) != "1" && r.content(scaling) != "1\n" {
			t.Errorf("%s: tunable_scaling was not written again: %q", what, r.content(scaling))
		}
		must(t, os.Chtimes(r.Path(scaling), old, old))
	}
	must(t, os.Chtimes(r.Path(scaling), old, old))
	if res := a.Apply([]plan.Change{change(t, r.kinds, slice, "6000000")})[0]; res.Err != nil {
		t.Fatal(res.Err)
	}
	rewritten("apply")
	if n := len(j.Entries()); n != 1 {
		t.Errorf("%d entries", n)
	}
	restored(t, a, apply.OutcomeRestored)
	rewritten("restore")
}

// TestScaledSlice checks that a slice which the kernel rescaled while CPUs were offline, or left rounded when they came
// back, is still Berth's. Any other value is another program's. The same applies to its sysctl, and to the other two
// values that the kernel scales until Linux 5.12.
func TestScaledSlice(t *testing.T) {
	for _, slice := range []string{
		"/sys/kernel/debug/sched/base_slice_ns", "/sys/kernel/debug/sched/latency_ns", "/proc/sys/kernel/sched_min_granularity_ns",
		"/proc/sys/kernel/sched_latency_ns", "/proc/sys/kernel/sched_wakeup_granularity_ns",
	} {
		for now, want := range map[string]apply.Outcome{
			"3999999": apply.OutcomeRestored, "2666666": apply.OutcomeRestored, "1333333": apply.OutcomeRestored,
			"2100000": apply.OutcomeAlready, "2099999": apply.OutcomeAlready,
			"5000000": apply.OutcomeDrifted, "0": apply.OutcomeDrifted,
		} {
			t.Run(filepath.Base(slice)+" "+now, func(t *testing.T) {
				r := newRecorded(t)
				r.Write(slice, "2100000")
				a, _ := r.applier(apply.Options{})
				if res := a.Apply([]plan.Change{change(t, r.kinds, slice, "4000000")})[0]; res.Err != nil {
					t.Fatal(res.Err)
				}
				r.Write(slice, now)
				restored(t, a, want)
			})
		}
	}
}
