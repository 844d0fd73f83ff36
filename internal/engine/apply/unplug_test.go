package apply_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/crash"
	"github.com/berth-project/berth/test/plain"
)

// machine is a host whose CPUs go offline while isolate moves cores between the groups top/a, which has offline work,
// and top/b.
type machine struct {
	t     *testing.T
	host  *cgroup.Host
	top   string
	cores []cpuset.Set // with all CPUs, two or more each
	// online returns the CPUs that are online, and plug takes one offline or brings it back.
	online func() cpuset.Set
	plug   func(cpu int, on bool)
	// follow makes the kernel of plain files follow a write.
	follow func()
	// originals fails the test if the lists are not as before the first move. Berth saw the groups of late for the
	// first time after the CPU had gone.
	originals func(when string, cpu int, late []string)
}

// unplugs takes a CPU of a moving core offline at each step of the moves, one after the other. It brings the CPU back
// some steps later, or after the moves. Once the groups are separate no core has both of them, not even between two
// writes. Both sides have all CPUs in the end, and a rollback restores every list.
func (m *machine) unplugs(least int) {
	m.t.Helper()
	crash.Steps(m.t, least, func(step int) bool {
		last := len(m.cores) - 1
		cpu, _ := m.cores[last-step%2].Max()
		return m.unplugsAt(step, []int{1, 4, 1000}[step%3], cpu)
	})
}

// unplugsAt is unplugs at one step, for a number of steps. It returns false if there is no such step.
func (m *machine) unplugsAt(step, steps, cpu int) bool {
	m.t.Helper()
	apart, count, away := sidesOf(m.t, m.host, m.top, m.cores), 0, false
	var late []string
	check := func() {
		m.follow()
		apart()
	}
	a := apply.New(cgroupfile.Kinds(m.host, nil), openJournal(m.t, m.t.TempDir()), apply.Options{Step: func(reached apply.Step, target plan.Target) {
		check()
		if reached == apply.StepBegun && count >= step {
			late = append(late, target.Object)
		}
		if count++; count == step || count == step+steps {
			away = count == step
			m.plug(cpu, !away)
			check()
		}
	}})
	last := len(m.cores) - 1
	var most []int
	for i := range m.cores[1:] {
		most = append(most, i+1)
	}
	for _, offline := range [][]int{{last}, most, {last - 1}} {
		m.move(a, offline)
	}
	reached := count >= step
	if away {
		m.plug(cpu, true)
		check()
	}
	m.move(a, []int{last})
	when := fmt.Sprintf("CPU %d went at step %d for %d steps", cpu, step, steps)
	if own, other := m.effective("a"), m.effective("b"); own != m.cores[last] || own.Union(other) != m.online() {
		m.t.Fatalf("%s: CPUs %s and %s of %s in the end", when, own, other, m.online())
	}
	apart = func() {} // offline work is over
	crash.Undone(m.t, when, a.Restore(nil, false))
	m.follow()
	m.originals(when, cpu, late)
	return reached
}

// move makes passes, as an agent does, until the sides have the CPUs that are online: offline work those of these
// cores.
func (m *machine) move(a *apply.Applier, offline []int) {
	m.t.Helper()
	var failed []error
	for range 5 {
		online, own := m.online(), cpuset.Set{}
		for _, i := range offline {
			own = own.Union(m.cores[i].Intersect(online))
		}
		todo := changes(m.t, m.host,
			listTo(cgroup.KnobCPUs, plan.OwnerIsolate, m.top+"/a", plan.Value(cgroup.ListValue(own))),
			listTo(cgroup.KnobCPUs, plan.OwnerPool, m.top+"/b", plan.Value(cgroup.ListValue(online.Difference(own)))))
		if len(todo) == 0 {
			return
		}
		for _, r := range a.Apply(todo) {
			if r.Err != nil {
				failed = append(failed, r.Err)
			}
		}
	}
	m.t.Fatalf("offline work does not get cores %v in five passes: %v", offline, failed)
}

func (m *machine) effective(name string) cpuset.Set {
	m.t.Helper()
	g, err := m.host.Group(m.top + "/" + name)
	must(m.t, err)
	defer g.Close()
	cpus, err := g.EffectiveCPUs()
	must(m.t, err)
	return cpus
}

// TestUnplugBetweenIsolateSteps takes CPUs offline on plain files, which follow as cgroup v2 does: a list stays, and its
// CPUs are in effect while they are online.
func TestUnplugBetweenIsolateSteps(t *testing.T) {
	const mount = "sys/fs/cgroup/"
	h := plain.WithGroups(t, "cpuset cpu")
	m := &machine{t: t, top: "top"}
	all := cpuset.Set{}
	for i := range 4 {
		m.cores = append(m.cores, cpuset.Set{}.Add(i).Add(i+4))
		all = all.Union(m.cores[i])
	}
	online := all
	m.online = func() cpuset.Set { return online }
	m.follow = func() {
		h.Write("sys/devices/system/cpu/online", online.String())
		for _, group := range []string{"", "top/", "top/a/", "top/b/"} {
			effective := online
			if list, err := cpuset.Parse(h.Read(mount + group + "cpuset.cpus")); err != nil {
				t.Fatal(err)
			} else if list.Intersects(online) {
				effective = list.Intersect(online)
			}
			h.Write(mount+group+"cpuset.cpus.effective", effective.String())
		}
	}
	m.plug = func(cpu int, on bool) {
		if online = online.Remove(cpu); on {
			online = online.Add(cpu)
		}
		m.follow()
	}
	lists := []string{"top/a/cpuset.cpus", "top/b/cpuset.cpus"}
	h.Write("sys/devices/system/cpu/possible", all.String())
	for _, group := range []string{"", "top/", "top/a/", "top/b/"} {
		h.Write(mount+group+"cgroup.controllers", "cpuset cpu\n")
		h.Write(mount+group+"cpuset.cpus", "\n")
	}
	h.Write(mount+lists[1], "0-6\n")
	m.follow()
	m.host = h.Cgroups()
	m.originals = func(when string, _ int, _ []string) {
		if got := []string{h.Read(mount + lists[0]), h.Read(mount + lists[1])}; !slices.Equal(got, []string{"", "0-6"}) {
			t.Fatalf("%s: the lists are %q", when, got)
		}
	}
	m.unplugs(25)
}
