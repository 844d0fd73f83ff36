package tuner_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/test/plain"
)

// TestMemoryThatStays: a result waits until the kernel has counted the pages that an apply moved, and then names the
// units whose memory is elsewhere.
func TestMemoryThatStays(t *testing.T) {
	const list, stat = "/sys/fs/cgroup/db/cpuset.mems", "sys/fs/cgroup/db/memory.numa_stat"
	for name, tt := range map[string]struct {
		is     func(*plain.Host) // at first
		later  func(*plain.Host) // a second later
		ended  bool
		partly int
		waits  time.Duration
	}{
		"stays":          {partly: 2, waits: 4 * time.Second},
		"counted later":  {later: func(h *plain.Host) { h.Write(stat, "anon N0=0 N1=9\n") }, waits: time.Second},
		"moved":          {is: func(h *plain.Host) { h.Write(stat, "anon N0=0 N1=9\n") }},
		"not counted":    {is: func(h *plain.Host) { h.Remove(stat) }},
		"ended meantime": {ended: true, partly: 2},
	} {
		t.Run(name, func(t *testing.T) {
			h := plain.New(t)
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
				mems := tune.Setting{Knob: tune.UnitMems, File: list, Want: "1"}
				done, began := tuner.Result{Mems: []tune.Setting{mems, mems}}, time.Now()
				done.Count(ctx, host)
				if took := time.Since(began); took != tt.waits || len(done.Partly) != tt.partly {
					t.Errorf("after %v: %+v", took, done.Partly)
				}
				for _, s := range done.Partly {
					if s.File != list || !strings.HasPrefix(s.Why, "8 MiB of its memory are on other NUMA nodes than 1") {
						t.Errorf("%+v", s)
					}
				}
			})
		})
	}
}

// TestWrittenMemoryNodes: an apply names the memory nodes that it wrote, since pages may stay elsewhere. It does not
// name those that the unit has already, nor another list.
func TestWrittenMemoryNodes(t *testing.T) {
	r, o, _ := newRegistry(t)
	r.start()
	for _, want := range []int{1, 0} {
		r.write(autogroup, "1") // what the second apply has to write
		r.do(func(u *tuner.Tuner) {
			done, err := u.Apply(o)
			if err != nil || done.Writes == 0 || len(done.Mems) != want || want > 0 && done.Mems[0].Knob != tune.UnitMems {
				t.Errorf("%+v, %v, want %d", done, err, want)
			}
		})
	}
}
