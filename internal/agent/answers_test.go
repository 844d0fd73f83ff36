package agent

import (
	"os"
	"testing"

	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// After a kill right after an answer to the runtime, the next agent knows the answer although the journal has no entry
// yet. It attributes a list that no agent answered to another owner.
func TestAnswersAreOnDisk(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		m.end()
		given, event := m.overtaken("podx/c")
		m.write("sys/fs/cgroup/podp/c/cpuset.cpus.effective", given.String()+"\n")
		if left := m.journal.Entries(); len(left) > 0 || given.IsEmpty() {
			t.Fatalf("given %s, journal %v", given, left)
		}
		again := func(on cpuset.Set) observed.Obstacle {
			m.closeJournal()
			m.boot()
			m.end()
			m.joins()
			m.gives()
			e := event(nri.PostStart, "p", "podp/c")
			e.Container.State, e.Container.Resources.CPUs = nri.Running, on
			all := nri.Event{Kind: nri.Synchronize}
			for _, one := range append(m.witnesses(event), e) {
				all.Pods, all.Containers = append(all.Pods, one.Pod), append(all.Containers, one.Container)
			}
			m.answers(all)
			return m.controls.inventory.Obstacle()
		}
		if o := again(given); o != (observed.Obstacle{}) {
			t.Errorf("its own answer: %+v", o)
		}
		other := cpuset.Set{}.Add(0).Add(3)
		m.write("sys/fs/cgroup/podp/c/cpuset.cpus.effective", other.String()+"\n")
		if o := again(other); o.Reason != observed.ForeignCPUSet {
			t.Errorf("another list: %+v", o)
		}
		m.write("sys/fs/cgroup/podp/c/cpuset.cpus.effective", given.String()+"\n")
		if err := os.Remove(m.path("etc/state/answers")); err != nil {
			t.Error(err)
		}
		if o := again(given); o.Reason != observed.ForeignCPUSet {
			t.Errorf("nothing is known to have been answered: %+v", o)
		}
		if err := m.controls.stop(); err != nil {
			t.Error(err)
		}
		m.closeJournal()
	})
}
