package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// gives describes a machine of two cores, so that the agent can pin pods.
func (m *machine) gives() {
	m.t.Helper()
	cpus := func(list string) cpuset.Set {
		s, err := cpuset.Parse(list)
		if err != nil {
			m.t.Fatal(err)
		}
		return s
	}
	topo := &topology.Topology{
		Online:  cpus("0-3"),
		Sockets: []topology.Socket{{CPUs: cpus("0-3")}},
		Nodes:   []topology.Node{{CPUs: cpus("0-3"), MemoryBytes: 64 << 30, Distances: []int{10}}},
		L3:      []topology.L3{{CPUs: cpus("0-3")}},
		Cores:   []topology.Core{{ID: 0, CPUs: cpus("0-1")}, {ID: 2, CPUs: cpus("2-3")}},
	}
	compiled, err := alloc.Compile(topo)
	if err != nil {
		m.t.Fatal(err)
	}
	c := m.controls
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := kubeletSays(c, kubelet.Reading{Whole: true}); err != nil {
		m.t.Fatal(err)
	}
	c.assignment.SetFacts(place.Facts{Machine: compiled, Hash: "h", AllocatableMilli: 4000})
}

// shares makes the agent of a node know the pods x, without a wish, and p, which asks for exclusive CPUs.
func (m *machine) shares() {
	m.t.Helper()
	m.joins()
	m.gives()
	pod := func(uid string, annotations map[string]string) *cluster.Pod {
		return &cluster.Pod{Key: "ns/" + uid, Pod: workload.Pod{
			Namespace: "ns", Name: uid, UID: uid, Annotations: annotations, Scheduled: 2000,
			Containers: []workload.Container{{Name: "main", Resources: workload.Resources{CPURequest: 2000, CPULimit: 2000}}},
		}}
	}
	m.controls.inventory.Take(&cluster.Snapshot{
		Generation: 1, PodsFrom: cluster.APIServer, Node: cluster.Node{UID: "n", AllocatableMilli: 4000},
		Pods: []*cluster.Pod{pod("x", nil), pod("p", map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"})},
	})
}

// eventOf returns an event of the runtime about the container of a pod of shares.
func eventOf(kind nri.Kind, uid, group string) nri.Event {
	return nri.Event{
		Kind: kind, Pod: nri.Pod{ID: "box-" + uid, UID: uid, Namespace: "ns", Name: uid},
		Container: nri.Container{ID: "c-" + uid, PodID: "box-" + uid, Name: "main", CgroupPath: group},
	}
}

// overtaken creates a plain container x in a group, and then p with exclusive CPUs that x has not left. It returns
// these CPUs, and a function that makes runtime events.
func (m *machine) overtaken(group string) (given cpuset.Set, event func(kind nri.Kind, uid, group string) nri.Event) {
	m.t.Helper()
	m.shares()
	event = eventOf
	m.answers(event(nri.Synchronize, "", ""))
	m.answers(event(nri.Create, "x", group))
	given = m.answers(event(nri.Create, "p", "podp/c")).Adjust.CPUs
	for _, group := range []string{"podx", group, "podp", "podp/c"} {
		m.addGroup(group, "max 100000")
		m.write("sys/fs/cgroup/"+group+"/cpuset.cpus", "\n")
	}
	m.write("sys/fs/cgroup/podp/c/cpuset.cpus", given.String()+"\n")
	return given, event
}

// witnesses makes the runtime report two pods of kube-system with CPUs that Berth did not assign. Lists of a single
// namespace say nothing about the node.
func (m *machine) witnesses(event func(kind nri.Kind, uid, group string) nri.Event) (all []nri.Event) {
	m.t.Helper()
	one := cpuset.Set{}.Add(0)
	for _, uid := range []string{"v", "w"} {
		m.addGroup("pod"+uid, "max 100000")
		m.addGroup("pod"+uid+"/c", "max 100000")
		m.write("sys/fs/cgroup/pod"+uid+"/c/cpuset.cpus.effective", one.String()+"\n")
		e := event(nri.Start, uid, "pod"+uid+"/c")
		e.Pod.Namespace, e.Container.State, e.Container.Resources.CPUs = "kube-system", nri.Running, one
		m.answers(e)
		all = append(all, e)
	}
	return all
}

// answers returns the agent's answer to an event of the runtime.
func (m *machine) answers(e nri.Event) nri.Reply {
	m.t.Helper()
	reply, err := m.controls.answer(e, true)
	if err != nil {
		m.t.Fatal(err)
	}
	return reply
}

// A container was created before another container got its CPUs, and the runtime did not know it yet when it was asked.
// The container leaves these CPUs before it runs.
func TestStartsWhereItShould(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		m.end()
		given, event := m.overtaken("podx/c")
		m.answers(event(nri.Start, "x", "podx/c"))
		got, err := cpuset.Parse(m.read("sys/fs/cgroup/podx/c/cpuset.cpus"))
		if err != nil || got.IsEmpty() || given.IsEmpty() || got.Intersects(given) {
			t.Errorf("it starts on CPUs %q, another one has %q", got, given)
		}
		if e := m.journal.Entries(); len(e) != 1 || e[0].Target.Object != "podx/c" {
			t.Errorf("journal %v", e)
		}
		m.write("sys/fs/cgroup/podx/c/cpuset.cpus", "0-3\n") // a resize answered before p came
		m.answers(event(nri.PostUpdate, "x", "podx/c"))
		if again := m.read("sys/fs/cgroup/podx/c/cpuset.cpus"); again != got.String() {
			t.Errorf("updated it runs on CPUs %q, was on %q", again, got)
		}
		m.answers(event(nri.Start, "p", "podp/c"))
		if got := m.read("sys/fs/cgroup/podp/c/cpuset.cpus"); got != given.String() {
			t.Errorf("p has %q, was given %q", got, given)
		}
		if err := m.controls.stop(); err != nil {
			t.Error(err)
		}
		m.closeJournal()
	})
}

// A container whose group has the wrong CPUs starts on its own exclusive CPUs, not on CPUs that another container may
// have.
func TestPinnedStartsWhereItShould(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		m.end()
		given, event := m.overtaken("podx/c")
		all, _ := cpuset.Parse("0-3")
		m.write("sys/fs/cgroup/podp/c/cpuset.cpus", all.Difference(given).String()+"\n")
		m.write("sys/fs/cgroup/podp/c/cpuset.cpus.effective", all.Difference(given).String()+"\n")
		m.answers(event(nri.Start, "p", "podp/c"))
		if got := m.read("sys/fs/cgroup/podp/c/cpuset.cpus"); got != given.String() {
			t.Errorf("it starts on CPUs %q, its own are %q", got, given)
		}
		if err := m.controls.stop(); err != nil {
			t.Error(err)
		}
		m.closeJournal()
	})
}

// An event that waited while the agent restored everything writes nothing. The agent refuses the creation of a
// container with exclusive CPUs, because it can no longer assign them.
func TestAnswerAfterTheEnd(t *testing.T) {
	for _, restores := range []bool{false, true} {
		t.Run(fmt.Sprintf("restores %t", restores), func(t *testing.T) {
			in(t, func(t *testing.T, m *machine) {
				m.boot()
				m.end()
				_, event := m.overtaken("podx/c")
				m.controls.opts.RestoreOnStop = restores
				if err := m.controls.stop(); err != nil {
					t.Error(err)
				}
				list, entries := m.read("sys/fs/cgroup/podx/c/cpuset.cpus"), m.journal.Entries()
				for _, kind := range []nri.Kind{nri.Start, nri.PostStart, nri.Update, nri.PostUpdate, nri.Create, nri.Stop} {
					if reply := m.answers(event(kind, "x", "podx/c")); !reflect.DeepEqual(reply, nri.Reply{}) {
						t.Errorf("%v is answered %v", kind, reply)
					}
				}
				pins := event(nri.Create, "p", "podp/c")
				pins.Pod.Annotations = map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"}
				if reply, err := m.controls.answer(pins, true); !errors.Is(err, errEnded) {
					t.Errorf("a container with exclusive CPUs: %v, %v", reply, err)
				}
				if got := m.read("sys/fs/cgroup/podx/c/cpuset.cpus"); got != list {
					t.Errorf("its list was %q, and is %q", list, got)
				}
				if got := m.journal.Entries(); !reflect.DeepEqual(got, entries) {
					t.Errorf("the journal had %v, and has %v", entries, got)
				}
				m.closeJournal()
			})
		})
	}
}

// Where systemd writes the list, the container waits until systemd was asked, before all other requests. A slow systemd
// delays no other container.
func TestStartWaitsForSystemd(t *testing.T) {
	for name, c := range map[string]struct {
		takes, waits time.Duration
		asked        int
	}{
		"quick": {takes: 20 * time.Millisecond, waits: 20 * time.Millisecond, asked: 2},
		"slow":  {takes: 2 * time.Second, waits: systemd.AskFor, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, m *machine) {
				m.boot()
				m.end()
				systemd := &slowUnits{c: m.controls, takes: c.takes}
				m.hasSystemd(systemd)
				_, event := m.overtaken("podx.slice/x.scope")
				m.addGroup("other.scope", "max 100000")
				m.write("sys/fs/cgroup/other.scope/cpuset.cpus", "\n")
				m.controls.reconciler.Urgent("other.scope", place.Desired{Group: "other.scope", CPUs: cpuset.Set{}.Add(0)}.Settings())
				var loop sync.WaitGroup
				ctx, cancel := context.WithCancel(t.Context())
				loop.Go(func() { m.controls.beside.asking.Run(ctx, func() {}) })
				loop.Go(func() {
					<-m.controls.woken
					m.controls.beside.asking.End()
				})
				began := time.Now()
				if _, err := m.controls.Handle(t.Context(), event(nri.Start, "x", "podx.slice/x.scope")); err != nil {
					t.Error(err)
				}
				if waited := time.Since(began); waited != c.waits {
					t.Errorf("it was held up for %s, want %s", waited, c.waits)
				}
				synctest.Wait()
				time.Sleep(c.takes * 2)
				cancel()
				loop.Wait()
				if systemd.calls != c.asked {
					t.Errorf("systemd was asked %d times", systemd.calls)
				}
				began = time.Now()
				if _, err := m.controls.Handle(t.Context(), event(nri.Start, "p", "podp/c")); err != nil || time.Since(began) != 0 {
					t.Errorf("one that was not overtaken waits for %s, %v", time.Since(began), err)
				}
				if err := m.controls.stop(); err != nil {
					t.Error(err)
				}
				m.closeJournal()
			})
		})
	}
}
