package tuner_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/patience"
)

// byHotplug is what the kernel says of a partition whose CPUs are offline (perr_strings in kernel/cgroup/cpuset.c).
const byHotplug = "No cpu available due to hotplug"

// bring takes a CPU offline, or online again. At the end of the test the CPU is online. It reports whether the kernel
// lets the CPU go: newer kernels keep the last CPU of a partition that is a scheduling domain (EBUSY, dl_bw_deactivate
// in kernel/sched/deadline.c).
func bring(t *testing.T, cpus cpuset.Set, online string) bool {
	t.Helper()
	cpu, _ := cpus.Min()
	file := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu)
	err := os.WriteFile(file, []byte(online), 0)
	if online == "0" && errors.Is(err, syscall.EBUSY) {
		return false
	}
	must(t, err)
	if online == "0" {
		t.Cleanup(func() { must(t, os.WriteFile(file, []byte("1"), 0)) })
	}
	return true
}

// row returns what a verification says of one knob.
func (u *unit) row(name string) tune.Verified {
	u.t.Helper()
	a, _, err := tuner.Load(u.state)
	must(u.t, err)
	for _, row := range a.Verify(u.root.FS(), u.kernel, nil) {
		if row.Knob == name {
			return row
		}
	}
	u.t.Fatalf("%s is not on record", name)
	return tune.Verified{}
}

// becomes waits for what a verification says of a partition: the kernel follows a CPU that goes or comes with a delay.
func (u *unit) becomes(want tune.State, says string) {
	u.t.Helper()
	must(u.t, patience.Until(u.t.Context(), 10*time.Millisecond, func() string {
		if row := u.row(tune.Partition); row.State != want || !strings.Contains(row.Effective, says) {
			return row.String()
		}
		return ""
	}))
}

// TestLivePartitionHotplug: a partition whose only CPU goes offline becomes invalid, and verify has the kernel's own
// reason. It is valid again with the CPU. If the kernel keeps the CPU, the partition stays valid. A rollback makes it a member, in both states.
func TestLivePartitionHotplug(t *testing.T) {
	for name, back := range map[string]bool{"back": true, "away": false} {
		t.Run(name, func(t *testing.T) {
			u := newUnit(t)
			if !u.isV2() {
				return
			}
			_, last, _ := u.cpusOf()
			before := u.has()
			u.do(func(h *tuner.Tuner) { _, err := h.Apply(u.partitioned(v1alpha1.PartitionRoot, last)); must(t, err) })
			u.becomes(tune.OK, "root")
			gone := bring(t, last, "0")
			if gone {
				u.becomes(tune.Ignored, byHotplug)
			} else {
				t.Log("the kernel keeps the last CPU of the partition")
				u.becomes(tune.OK, "root")
			}
			if gone && back {
				bring(t, last, "1")
				u.becomes(tune.OK, "root")
			}
			u.do(func(h *tuner.Tuner) {
				for _, r := range h.Rollback() {
					if r.Err != nil {
						t.Errorf("%+v", r)
					}
				}
			})
			if gone && !back {
				bring(t, last, "1")
			}
			if got := u.partition(); got != string(cgroup.Member) {
				t.Errorf("the group is %q", got)
			}
			must(t, patience.Until(t.Context(), 10*time.Millisecond, func() string {
				if cpus := u.has().CPUs; cpus != before.CPUs {
					return "CPUs " + cpus
				}
				return ""
			}))
			u.asBefore("rolled back", before)
		})
	}
}

// TestLiveCPUGoneSincePlan: the only CPU of a setting goes offline between the plan and the apply. An interrupt is left
// until the CPU is back. The CPUs of a unit, with a partition or without, fail with the reason, and nothing stays
// written: the kernel takes them, and gives the unit other CPUs.
func TestLiveCPUGoneSincePlan(t *testing.T) {
	u := newUnit(t)
	if !u.isV2() {
		return
	}
	_, last, _ := u.cpusOf()
	before, lists := u.has(), affinityLists(t)
	h := hostOf(t, "/", filepath.Join(t.TempDir(), "tune"))
	moved := tuner.Order{Settings: interrupts(t, h, last.String()).Divide().Write}
	confined := u.partitioned("", last)
	parted := u.partitioned(v1alpha1.PartitionRoot, last)
	if !bring(t, last, "0") {
		t.Fatal("the CPU stays")
	}

	i := unlocked(t, h)
	r, err := i.Apply(moved)
	if err != nil || r.Writes > 0 || len(r.Left) != len(moved.Settings) {
		t.Errorf("interrupts: %+v, %v", r, err)
	}
	for _, s := range r.Left {
		if !strings.Contains(s.Why, "offline") && !strings.Contains(s.Why, "places this interrupt itself") {
			t.Errorf("%s is left: %s", s.Name(), s.Why)
		}
	}
	says := last.String() + " is not online"
	for _, o := range []tuner.Order{confined, parted} {
		u.do(func(h *tuner.Tuner) {
			_, err := h.Apply(o)
			if !errors.Is(err, tuner.ErrUndone) || !errors.Is(err, apply.ErrNotEffective) || errors.Is(err, tuner.ErrLeft) || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		})
		if got := u.partition(); got != string(cgroup.Member) {
			t.Errorf("the group is %q", got)
		}
	}
	bring(t, last, "1")
	if r, err := i.Apply(moved); err != nil || r.Writes == 0 {
		t.Errorf("interrupts, once the CPU is back: %+v, %v", r, err)
	}
	i.Rollback()
	must(t, i.Close())
	if d := cmp.Diff(lists, affinityLists(t)); d != "" {
		t.Errorf("rolled back (-before +after):\n%s", d)
	}
	u.asBefore("rolled back", before)
}
