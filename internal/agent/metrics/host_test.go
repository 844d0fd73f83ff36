package metrics_test

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/berth-project/berth/internal/agent/metrics"
	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/value/unit"
	"github.com/berth-project/berth/test/plain"
)

// TestReadHost checks that each part of the host's metrics is there without the other part.
func TestReadHost(t *testing.T) {
	const (
		stat  = "cpu  1 0 0 2 0 0 0 4\n"
		zones = "Node 0, zone   Normal\n  pages free     4\n        min      1\n        protection: (0, 0)\nNode 3, zone   Normal\n  pages free     0\n"
		node0 = "Node 0 MemTotal: 64 kB\nNode 0 MemFree: 16 kB\nNode 0 Inactive(file): 9 kB\nNode 0 Dirty: 1 kB\n"
		node3 = "Node 3 MemTotal: 0 kB\n"
	)
	const zoneinfo = "proc/zoneinfo"
	cpu, memory := unit.CPUSpent{Busy: 10_000_000, Idle: 20_000_000, Steal: 40_000_000}, []metrics.NodeMemory{{Node: 0, Total: 64 << 10, Available: 24 << 10}}
	for _, files := range []map[string]string{
		{}, {"proc/stat": stat}, {zoneinfo: zones}, {"proc/stat": stat, zoneinfo: zones}, {"proc/stat": "damaged", zoneinfo: zones},
	} {
		h := plain.New(t)
		for name, content := range files {
			h.Write(name, content)
		}
		h.Write("sys/devices/system/node/node0/meminfo", node0)
		h.Write("sys/devices/system/node/node3/meminfo", node3)
		present := func() (map[int]locality.NodeMemory, error) { return mover.Present(h.Root()) }
		got := metrics.ReadHost(h.Root(), present, slog.New(slog.NewTextHandler(t.Output(), nil)))
		if has := got.CPU == cpu; has != (files["proc/stat"] == stat) || !has && got.CPU != (unit.CPUSpent{}) {
			t.Errorf("%q: CPU %+v", files, got.CPU)
		}
		if has := slices.Equal(got.Memory, memory); has != (files[zoneinfo] != "") || !has && got.Memory != nil {
			t.Errorf("%q: memory %+v", files, got.Memory)
		}
	}
}
