package bench_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/bench"
)

// TestLocality runs every arm once on a little memory if there are two NUMA nodes. Otherwise it must report that they
// are missing. place checks that nothing is left.
func TestLocality(t *testing.T) {
	where := place(t)
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	out := t.TempDir()
	o := bench.LocalityOptions{
		Place: where, Root: root, MiB: 16, Window: time.Second, Limited: 2 * time.Second,
		Options: bench.Options{Repetitions: 1, Quick: true, Out: out, Progress: func(what string) { t.Log(what) }},
	}
	r, err := bench.RunLocality(t.Context(), o)
	if _, missing := os.Stat("/sys/devices/system/node/node1"); missing != nil {
		if !errors.Is(err, bench.ErrMissing) {
			t.Errorf("with one node: %v", err)
		}
		if _, err := bench.RunRedis(t.Context(), o); !errors.Is(err, bench.ErrMissing) {
			t.Errorf("Redis with one node: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, trial := range r.Trials {
		if trial.EndPercent < 99 || trial.StartPercent > 96 || trial.PassBytes == 0 || trial.BareBytes == 0 {
			t.Errorf("%+v", trial)
		}
		if trial.HugeKiBBefore != trial.HugeKiBAfter || trial.Splits > 0 {
			t.Errorf("huge pages: %+v", trial)
		}
	}
	for _, l := range r.Limited {
		if l.HogMovedPercent != 0 || l.Seconds < 1 || l.BatchMillis <= 0 || l.StallMillis <= 0 {
			t.Errorf("%+v", l)
		}
	}
	for _, w := range r.Windows {
		if w.Requests == 0 {
			t.Errorf("no request %s the pass", w.Name)
		}
	}
	if files, err := filepath.Glob(filepath.Join(out, "*")); err != nil || len(files) != 2 {
		t.Errorf("files %v, %v", files, err)
	}
	if err := bench.WriteLocalityTable(t.Output(), r); err != nil {
		t.Error(err)
	}
	if _, err := bench.RunRedis(t.Context(), o); !errors.Is(err, bench.ErrMissing) {
		t.Errorf("Redis where it is not installed: %v", err)
	}
}
