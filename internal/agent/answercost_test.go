package agent

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// BenchmarkAnswer measures the CPU time of a thread that answers Create and Start for a container beside a pinned one,
// on plain files laid out as cgroup v2. In "overtaken" another container has got the CPUs of the new one, and the agent
// writes its list before it runs.
func BenchmarkAnswer(b *testing.B) {
	for name, overtaken := range map[string]bool{"standing": false, "overtaken": true} {
		b.Run(name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			m := newMachine(b)
			m.makes()
			_, event := m.overtaken("podx/c")
			measured := costs{}
			for i := 0; b.Loop(); i++ {
				group := fmt.Sprintf("podx/c%d", i)
				create, start := event(nri.Create, "x", group), event(nri.Start, "x", group)
				create.Container.ID, start.Container.ID = group, group
				var cpus cpuset.Set
				measured.of(b, "create", func() { cpus = m.answers(create).Adjust.CPUs })
				m.addGroup(group, "max 100000")
				m.write("sys/fs/cgroup/"+group+"/cpuset.cpus", "\n")
				if !overtaken {
					m.write("sys/fs/cgroup/"+group+"/cpuset.cpus.effective", cpus.String()+"\n")
				}
				measured.of(b, "start", func() { m.answers(start) })
				start.Kind = nri.Remove
				m.answers(start)
			}
			spent := time.Duration(0)
			for _, one := range slices.Concat(measured["create-cpu"], measured["start-cpu"]) {
				spent += one
			}
			b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "cpu-µs/container")
			if err := m.controls.stop(); err != nil {
				b.Error(err)
			}
			m.closeJournal()
		})
	}
}
