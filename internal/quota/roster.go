package quota

import (
	"fmt"
	"math"
	"path"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/unit"
	"github.com/berth-project/berth/internal/workload"
)

// roster is the workloads with their groups, and the groups above those.
type roster struct {
	host   *cgroup.Host
	byName map[string]*Group // by workload name
	order  []*Group          // by name
	byPath map[string]*Group
	// pods are the groups of pods that follow their containers, ancestors all above a
	// workload, by path.
	pods      map[string]*podGroup
	ancestors map[string]*ancestor
	// moved says that workloads came, went or found their groups.
	moved bool
}

func newRoster(host *cgroup.Host) roster {
	return roster{
		host: host, byName: map[string]*Group{}, byPath: map[string]*Group{},
		pods: map[string]*podGroup{}, ancestors: map[string]*ancestor{},
	}
}

// locate returns the path of m's group. What costs more than a comparison is
// asked again only while it is unknown or may have changed.
func (r *roster) locate(m *Group, now time.Duration) (string, error) {
	w := m.workload
	if w.Cgroup != "" {
		return w.Cgroup, nil
	}
	if w.Stopped() {
		return "", errEnded
	}
	if m.group != nil && now < m.locatedAt+soleEvery {
		return m.group.Path(), nil
	}
	m.locatedAt = now
	if err := r.sameProcesses(m); err != nil {
		return "", err
	}
	path, err := Locate(r.host, w)
	if err == nil && (path == "" || path == "/" || path == ".") {
		err = errRoot
	}
	return path, err
}

// sameProcesses refuses a pid that the kernel gave to another process since the
// workload was first found: that one did not ask.
func (r *roster) sameProcesses(m *Group) error {
	for _, pid := range m.workload.PIDs {
		start, err := r.host.ProcessStart(pid)
		if err != nil {
			return fmt.Errorf("pids %v: %w", m.workload.PIDs, err)
		}
		if first, known := m.started[pid]; known && first != start {
			return fmt.Errorf("pids %v: %w: %d", m.workload.PIDs, errOther, pid)
		}
		if m.started == nil {
			m.started = map[int]uint64{}
		}
		m.started[pid] = start
	}
	return nil
}

// Standalone are the workloads of a host without Kubernetes whose group is known, each by
// that.
func (r *roster) Standalone() []workload.Workload {
	var all []workload.Workload
	for _, m := range r.order {
		if m.group != nil {
			all = append(all, m.workload.In(m.group.Path()))
		}
	}
	return all
}

// Asks says whether a workload group still wants what an entry of the journal is about.
func (r *roster) Asks(e journal.Entry) bool {
	if p := r.pods[e.Target.Object]; p != nil && p.is(e) {
		return p.keeps(cgroupfile.Knob(e.Target))
	}
	if above := r.byPath[path.Dir(e.Target.Object)]; above != nil && above.state == StateActive && above.follows(e) {
		return above.keepsBelow(cgroupfile.Knob(e.Target))
	}
	m := r.byPath[e.Target.Object]
	return m != nil && m.max != nil && (m.max.Is(e) || m.burst.Is(e)) && m.wants(cgroupfile.Knob(e.Target)) && (m.state == StateActive || m.state == StateDrift)
}

// throttles says why the group of m's pod throttles what m saved, "" if it does not.
func (r *roster) throttles(m *Group) string {
	p := r.pods[m.workload.Pod.Group]
	if p == nil || p.leftBurst() == "" || !m.law.Saves() {
		return ""
	}
	return p.leftBurst() + ", and the pod's group throttles what the container saved"
}

func (r *roster) dropPod(path string) {
	r.pods[path].close()
	delete(r.pods, path)
}

// ancestor is a group above that of a workload, read once a second for all of them.
type ancestor struct {
	group      *cgroup.Group
	quota      unit.CPUs
	throttled  uint64
	lastNeeded time.Duration
}

// capOf returns the smallest quota on the path above group as a rate, which
// group has it, and how many periods the ancestors were throttled.
func (r *roster) capOf(group *cgroup.Group, now time.Duration) (limit unit.CPUs, where string, throttled uint64) {
	limit = unit.CPUs(math.Inf(1))
	for _, path := range group.Ancestors() {
		a := r.ancestor(path)
		if a == nil {
			continue
		}
		a.lastNeeded = now
		throttled += a.throttled
		if r.pods[path] != nil {
			continue // it rises with what is below it
		}
		if a.quota < limit {
			limit, where = a.quota, path
		}
	}
	return limit, where, throttled
}

// ancestor returns the group at path, opened; nil when it has no CPU limit to read.
func (r *roster) ancestor(path string) *ancestor {
	if a, ok := r.ancestors[path]; ok {
		return a
	}
	group, err := r.host.Group(path)
	if err != nil {
		return nil
	}
	a := &ancestor{group: group, quota: unit.CPUs(math.Inf(1))}
	r.ancestors[path] = a
	r.readAncestor(path, a)
	return r.ancestors[path]
}

// readAncestor refreshes one ancestor. The quota of a pod with bursting containers is
// not asked for, see capOf. A workload group's own raised quota does not count as room for the
// groups below: it may fall back to its limit at any look.
func (r *roster) readAncestor(path string, a *ancestor) {
	if r.pods[path] == nil {
		bandwidth, err := a.group.Bandwidth()
		if err != nil {
			// Removed, and perhaps made again: it is opened anew when asked for.
			_ = a.group.Close() // read only: nothing can be lost
			delete(r.ancestors, path)
			return
		}
		a.quota = unit.Rate(bandwidth.Quota, bandwidth.Period)
	}
	if m := r.byPath[path]; m != nil && m.state == StateActive {
		a.quota = min(a.quota, m.law.Facts.Limit())
	}
	if t, err := a.group.Throttling(); err == nil {
		a.throttled = t.Throttled
	}
}

// readAncestors refreshes all ancestors and closes those that are no longer needed.
func (r *roster) readAncestors(now time.Duration) {
	for path, a := range r.ancestors {
		if now-a.lastNeeded > 5*time.Second && a.lastNeeded != 0 {
			_ = a.group.Close() // read only: nothing can be lost
			delete(r.ancestors, path)
			continue
		}
		r.readAncestor(path, a)
	}
}

// offlineUse is the CPU time that groups outside of the shared pool used since it
// was last asked: offline ones, and those with exclusive CPUs.
func (r *roster) offlineUse(unlimited map[string]bool) unit.CPUTime {
	var sum unit.CPUTime
	for _, m := range r.order {
		if m.group == nil || !m.workload.Offline && !m.workload.Exclusive && !unlimited[m.group.Path()] {
			continue
		}
		usage, err := m.group.Usage()
		if err != nil {
			continue // the next look says so
		}
		sum += max(usage.Since(m.offlineUse), 0)
		m.offlineUse = usage
	}
	return sum
}
