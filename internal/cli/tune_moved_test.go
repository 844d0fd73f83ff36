package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/linux/knob"
	plainhost "github.com/berth-project/berth/test/plain"
)

// TestMemoryThatStays: an apply waits until the kernel has counted the pages that it moved, and then names the units
// whose memory is elsewhere.
func TestMemoryThatStays(t *testing.T) {
	const list, stat = "/sys/fs/cgroup/db/cpuset.mems", "sys/fs/cgroup/db/memory.numa_stat"
	for name, tt := range map[string]struct {
		row   appliedRow
		is    func(*plainhost.Host) // at first
		later func(*plainhost.Host) // a second later
		ended bool
		state string
		waits time.Duration
	}{
		"stays":          {row: appliedRow{Knob: tune.UnitMems, State: "written"}, state: "partial", waits: 4 * time.Second},
		"counted later":  {row: appliedRow{Knob: tune.UnitMems, State: "written"}, later: func(h *plainhost.Host) { h.Write(stat, "anon N0=0 N1=9\n") }, state: "written", waits: time.Second},
		"moved":          {row: appliedRow{Knob: tune.UnitMems, State: "written"}, is: func(h *plainhost.Host) { h.Write(stat, "anon N0=0 N1=9\n") }, state: "written"},
		"not counted":    {row: appliedRow{Knob: tune.UnitMems, State: "written"}, is: func(h *plainhost.Host) { h.Remove(stat) }, state: "written"},
		"not written":    {row: appliedRow{Knob: tune.UnitMems, State: "stands"}, state: "stands"},
		"another knob":   {row: appliedRow{Knob: tune.UnitCPUs, State: "written"}, state: "written"},
		"ended meantime": {row: appliedRow{Knob: tune.UnitMems, State: "written"}, ended: true, state: "partial"},
	} {
		t.Run(name, func(t *testing.T) {
			h := plainhost.New(t)
			h.Write(stat, "anon N0=8388608 N1=4096\nfile N0=1000000000 N1=0\n")
			if tt.is != nil {
				tt.is(h)
			}
			host := knob.Open(h.Root().FS())
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.ended {
					cancel()
				}
				if tt.later != nil {
					time.AfterFunc(time.Second-time.Millisecond, func() { tt.later(h) })
				}
				rows, began := []appliedRow{tt.row, tt.row}, time.Now()
				for i := range rows {
					rows[i].File, rows[i].Want = list, "1"
				}
				moved(ctx, host, rows)
				if took := time.Since(began); took != tt.waits {
					t.Errorf("it waited for %v", took)
				}
				for _, r := range rows {
					if said := strings.HasPrefix(r.Why, "8 MiB of its memory are on other NUMA nodes than 1"); r.State != tt.state || said != (r.State == "partial") {
						t.Errorf("%+v", r)
					}
				}
			})
		})
	}
}

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
