package reconcile

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// movingHost is a unitHost with a unit whose quota follows the load.
type movingHost struct {
	*unitHost

	events []string
}

// quota sets another desired value and makes a pass a second later.
func (h *movingHost) quota(cpus int) {
	h.t.Helper()
	h.reconciler.Want([]plan.Desired{{
		Setting: plan.Setting{
			Target: cgroupfile.Target("be.slice", cgroup.KnobMax), Value: plan.Value(fmt.Sprintf("%d00000 100000", cpus)),
			Owner: plan.OwnerIsolate, Workload: "be.slice", Why: "test",
		},
		Writers: plan.Writers{PutsBack: true, Moves: true},
	}})
	h.now += time.Second
	for _, e := range h.pass().Events {
		h.events = append(h.events, e.Reason)
	}
}

// expect compares the current quota.
func (h *movingHost) expect(what, want string) {
	h.t.Helper()
	got, err := os.ReadFile(h.Path("sys/fs/cgroup/be.slice/cpu.max"))
	if err != nil || strings.TrimSpace(string(got)) != want {
		h.t.Errorf("%s: %q, %v, want %s", what, got, err, want)
	}
}

// A value that systemd restores at a daemon-reload is overwritten within a second, however often it comes and whether
// the quota moves or not. Another value is left to its writer if it returns within a minute. A moving quota is not a
// new request, so the same waiting time applies.
func TestMovingQuota(t *testing.T) {
	h := &movingHost{unitHost: newUnitHost(t, "be.slice")}
	const file = "sys/fs/cgroup/be.slice/cpu.max"
	h.Write(file, "max 100000\n")
	h.quota(2)
	h.expect("at first", "200000 100000")
	for second := range 150 {
		h.Write(file, "max 100000\n")
		cpus := 2 + second/50
		h.quota(cpus)
		h.expect("after a daemon-reload", fmt.Sprintf("%d00000 100000", cpus))
	}
	if len(h.events) > 0 {
		t.Errorf("events %q", h.events)
	}
	const other = "700000 100000"
	h.Write(file, other)
	h.quota(3)
	h.expect("another value", "300000 100000")
	h.Write(file, other)
	for second := range 290 {
		h.quota(2 + second%3)
		h.expect("again", other)
	}
	if got := strings.Join(h.events, " "); got != "HostDrift" {
		t.Errorf("events %q", got)
	}
	for range 15 {
		h.quota(3)
	}
	h.expect("five minutes later", "300000 100000")
}

// TestFightOverAnOriginal: a program that repeatedly restores a quota is logged with a count from the tenth time on. A
// few daemon-reloads, or one now and then, are not logged.
func TestFightOverAnOriginal(t *testing.T) {
	h := &movingHost{unitHost: newUnitHost(t, "be.slice")}
	var log strings.Builder
	h.reconciler.opts.Log = slog.New(slog.NewTextHandler(&log, nil))
	puts := func(times int, every time.Duration) {
		for range times {
			h.Write("sys/fs/cgroup/be.slice/cpu.max", "max 100000\n")
			h.quota(2)
			h.now += every - time.Second
		}
	}
	h.quota(2)
	puts(9, 10*time.Second)
	h.now += 2 * time.Minute
	puts(9, time.Minute)
	h.now += 2 * time.Minute
	puts(20, 3*time.Minute)
	if log.Len() > 0 {
		t.Errorf("log %s", &log)
	}
	h.now += 2 * time.Minute
	puts(150, time.Minute)
	const text = `level=WARN msg="another program writes it again and again" target="cpu.max of be.slice" writes="max 100000" times=`
	if got := log.String(); strings.Count(got, text) != 2 || !strings.Contains(got, text+"10\n") || !strings.Contains(got, text+"100\n") {
		t.Errorf("log %s", got)
	}
	if len(h.events) > 0 {
		t.Errorf("events %q", h.events)
	}
}

// The group's original limit bounds the quota. If an administrator sets a lower limit, that limit bounds it from then
// on, also if the quota ends at that moment.
func TestMovingQuotaBelowALimit(t *testing.T) {
	h := &movingHost{unitHost: newUnitHost(t, "be.slice")}
	const file, limit = "sys/fs/cgroup/be.slice/cpu.max", "300000 100000"
	h.Write(file, limit)
	h.quota(4)
	h.expect("above the limit", limit)
	if got := h.originals(); got != "" {
		t.Errorf("entries %q although nothing was written", got)
	}
	h.quota(2)
	h.expect("below it", "200000 100000")
	h.quota(4)
	h.expect("above it again", limit)
	h.quota(1)
	h.expect("below it again", "100000 100000")
	h.quota(3)
	const lower = "100000 100000" // also Berth's value before the last one
	h.Write(file, lower)
	for _, cpus := range []int{4, 4, 2, 1, 3} {
		h.quota(cpus)
		h.expect("an administrator's", lower)
	}
	if got := h.originals(); got != "be.slice "+lower {
		t.Errorf("entries %q", got)
	}
	const lowest = "50000 100000"
	h.Write(file, lowest)
	h.reconciler.Want(nil)
	h.settles()
	if h.expect("at the end", lowest); len(h.events) > 0 || h.originals() != "" {
		t.Errorf("events %q, entries %q", h.events, h.originals())
	}
}
