package agent

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/cri"
	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// silent is a machine without NRI. The runtime lists its running containers, but perhaps not their groups.
type silent struct{ *machine }

// begins starts an agent that knows the machine and the pods of the API server, but no container.
func (m silent) begins(pods map[string]map[string]string) {
	m.t.Helper()
	m.makes()
	m.joins() // before the first pass: without Kubernetes the agent restores everything
	c := m.controls
	c.mu.Lock()
	if err := kubeletSays(c, kubelet.Reading{Whole: true}); err != nil {
		m.t.Error(err)
	}
	c.mu.Unlock()
	m.begin()
	m.shows(pods)
}

// lists makes the runtime list a container of each pod. With asked false, the runtime does not answer where they run.
func (m silent) lists(asked bool, pods ...string) {
	e, problems := nri.Event{Kind: nri.Synchronize}, []error(nil)
	for _, pod := range pods {
		box := nri.Pod{ID: "box" + pod, UID: pod, Namespace: "ns", Name: pod}
		c := nri.Container{ID: "c" + pod, PodID: box.ID, Name: "main", State: nri.Running, Unrecorded: true}
		if asked {
			box.CgroupParent, box.CgroupPath, c.CgroupPath = "pod"+pod, "pod"+pod+"/crio-box"+pod+".scope", "pod"+pod+"/crio-c"+pod+".scope"
		} else {
			problems = append(problems, fmt.Errorf("container runtime: status of %s: %w: deadline exceeded", c.ID, cri.ErrAway))
		}
		e.Pods, e.Containers = append(e.Pods, box), append(e.Containers, c)
	}
	m.controls.takeListing(e, problems, nil)
}

// settles sets the effective CPUs of both containers, and lets the agent see them.
func (m silent) settles(own, other string) {
	m.write("sys/fs/cgroup/podp/crio-cp.scope/cpuset.cpus.effective", own+"\n")
	m.write("sys/fs/cgroup/podx/crio-cx.scope/cpuset.cpus.effective", other+"\n")
	m.run(restoreRetry, 0)
}

// has compares the CPU lists of both containers.
func (m silent) has(what, own, other string) {
	m.t.Helper()
	p, x := m.read("sys/fs/cgroup/podp/crio-cp.scope/cpuset.cpus"), m.read("sys/fs/cgroup/podx/crio-cx.scope/cpuset.cpus")
	if p != own || x != other {
		m.t.Errorf("%s: the pinned container has %q, the other one %q, want %q and %q", what, p, x, own, other)
	}
}

// entries returns the number of CPU lists in the journal.
func (m silent) entries() int {
	var n int
	for _, group := range []string{"podp/crio-cp.scope", "podx/crio-cx.scope"} {
		if _, known := m.journal.Entry(cgroupfile.Target(group, cgroup.KnobCPUs)); known {
			n++
		}
	}
	return n
}

// Right after its start, the agent leaves listed containers their CPUs while the runtime is too slow to report their
// groups. This includes a pod that the API server no longer has: the next pod gets other CPUs. After the pinned
// container has ended, the other container gets its original CPUs.
func TestStatusLateAtTheStart(t *testing.T) {
	inNodes(t, func(t *testing.T, plain *machine, _ *moves) {
		m := silent{plain}
		asks := func(cpu string) map[string]string {
			return map[string]string{
				v1alpha1.AnnotationCPUSetScheduler: "true",
				v1alpha1.AnnotationPlacement:       `{"v":1,"topology":"0123456789abcdef","containers":{"main":{"cpus":"` + cpu + `","mems":"0","policy":"exclusive"}}}`,
			}
		}
		for _, pod := range []string{"p", "x"} {
			for _, group := range []string{"", "/crio-box" + pod + ".scope", "/crio-c" + pod + ".scope"} {
				m.addGroup("pod"+pod+group, "max 100000")
				m.memory("pod"+pod+group, "0-3", 1, 1)
			}
		}
		m.begins(map[string]map[string]string{"p": asks("0"), "x": nil})
		m.lists(true, "p", "x")
		m.settles("0", "1-3")
		m.settles("0", "1-3")
		m.has("at first", "0", "1-3")
		m.kill()

		m.begins(map[string]map[string]string{"p": asks("0"), "x": nil})
		m.lists(false, "p", "x")
		m.settles("0", "1-3")
		if m.has("after the restart", "0", "1-3"); m.entries() != 2 {
			t.Errorf("the journal has %d of the lists", m.entries())
		}

		m.kill()
		m.begins(map[string]map[string]string{"q": asks("0"), "x": nil})
		m.lists(false, "p", "x")
		m.settles("0", "2-3")
		m.has("beside a new pod, which gets CPU 1", "0", "2-3")

		m.shows(map[string]map[string]string{"x": nil})
		m.lists(false, "x")
		m.settles("0", "0-3")
		if m.has("once it has ended", "", ""); m.entries() != 0 {
			t.Errorf("the journal has %d of the lists", m.entries())
		}
		if err := m.stop(); err != nil {
			t.Error(err)
		}
	})
}

// The agent finds groups in the journal by the whole container ID, and a pod's group from its containers.
func TestRecallGroups(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.makes()
		for _, group := range []string{"podp/crio-c1.scope", "podp/cri-containerd-b1.scope", "podx/c2", "podx/xc2", "c3"} {
			m.addGroup(group, "max 100000")
			m.write("sys/fs/cgroup/"+group+"/cpuset.cpus", "\n")
			m.write("sys/fs/cgroup/"+group+"/cpuset.cpus.effective", "0-1\n")
			target := cgroupfile.Target(group, cgroup.KnobCPUs)
			stands := m.controls.opts.settles.Read([]plan.Target{target})[0]
			change := plan.Change{From: stands.Value, Setting: plan.Setting{Target: target, ID: stands.ID, Value: "0-1", Owner: plan.OwnerPool, Workload: "w"}}
			if err := m.controls.opts.settles.Apply([]plan.Change{change})[0].Err; err != nil {
				t.Fatal(err)
			}
		}
		list := func(groups ...string) nri.Event {
			return nri.Event{
				Pods: []nri.Pod{
					{ID: "b1", CgroupPath: groups[0], CgroupParent: groups[1]},
					{ID: "b2", CgroupPath: groups[2], CgroupParent: groups[3]},
					{ID: "b3", CgroupPath: groups[4], CgroupParent: groups[5]},
					{ID: "b4", CgroupPath: groups[6], CgroupParent: groups[7]},
				},
				Containers: []nri.Container{
					{ID: "c1", PodID: "b9", CgroupPath: groups[8]},
					{ID: "c2", PodID: "b2", CgroupPath: groups[9]},
					{ID: "c3", PodID: "b3", CgroupPath: groups[10]},
					{ID: "1", PodID: "b4", CgroupPath: groups[11]},
					{ID: "", PodID: "b4", CgroupPath: groups[12]},
					{ID: "c4", PodID: "b5", CgroupPath: "pody/c4"},
				},
			}
		}
		got := list("", "", "", "", "", "", "", "", "", "", "", "", "")
		recallGroups(&got, m.journal)
		want := list("podp/cri-containerd-b1.scope", "podp", "", "podx", "", "", "", "", "podp/crio-c1.scope", "podx/c2", "c3", "", "")
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(cpuset.Set{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		said := list("pody/b1", "pody", "", "podz", "", "", "", "", "pody/c1", "", "", "", "")
		recallGroups(&said, m.journal)
		if p, c := said.Pods, said.Containers; p[0].CgroupParent != "pody" || p[1].CgroupParent != "podz" || c[0].CgroupPath != "pody/c1" {
			t.Errorf("what the runtime said became %+v", said)
		}
		m.begin()
		m.kill()
	})
}
