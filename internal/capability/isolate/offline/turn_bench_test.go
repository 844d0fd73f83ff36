package offline

import (
	"log/slog"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// BenchmarkTurn measures one sample of the load between two rounds, on a machine with 32 cores.
func BenchmarkTurn(b *testing.B) {
	root, err := hostfs.Open("/")
	if err != nil {
		b.Fatal(err)
	}
	w := New(Options{Root: root, Now: time.Now, Log: slog.New(slog.DiscardHandler), Fail: func(string, error) {}})
	w.last.node.Offline = true
	for i := range 32 {
		cpus, err := cpuset.Of(2*i, 2*i+1)
		if err != nil {
			b.Fatal(err)
		}
		w.last.node.Movable = append(w.last.node.Movable, isolate.Core{ID: topology.CoreID(i), CPUs: cpus, Whole: true})
	}
	now := time.Hour
	b.ReportAllocs()
	for b.Loop() {
		w.look(now)
		w.turn(now)
		now += closest
	}
}
