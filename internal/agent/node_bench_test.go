package agent

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/node/nri"
)

// fullNode is a node of 80 CPUs with 250 pods of one bursting container each. Every 25th pod has four CPUs of its own.
// The node consists of plain files laid out as cgroup v2.
type fullNode struct {
	*machine
	pods []*cluster.Pod
	all  nri.Event // all running containers
}

func newFullNode(b *testing.B) *fullNode {
	b.Helper()
	return newNodeOf(b, 250, 25)
}

// newNodeOf is newFullNode with this many pods. Each pod whose number is a multiple of apart has four CPUs of its own.
func newNodeOf(b *testing.B, pods, apart int) *fullNode {
	b.Helper()
	n := &fullNode{machine: newMachine(b), all: nri.Event{Kind: nri.Synchronize}}
	archive, err := txtar.ParseFile("../../testdata/machines/arm64-80c.txtar")
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range archive.Files {
		n.write(f.Name, string(f.Data))
	}
	n.write("etc/agent.yaml", "workloadDir: workloads\nstateDir: state\ncpu-burst-config: {clusterStrategy: {policy: auto, sharePoolThresholdPercent: 100}}\n")
	for i := range pods {
		name := fmt.Sprint("p", i)
		p, e := podOf(name, i%apart == 0)
		n.pods = append(n.pods, p)
		for _, group := range []string{e.Pod.CgroupParent, e.Pod.CgroupPath, e.Container.CgroupPath} {
			n.addGroup(group, fmt.Sprintf("%d 100000", p.Containers[0].CPULimit*100))
			n.write("sys/fs/cgroup/"+group+"/cpuset.cpus", "\n")
			n.write("sys/fs/cgroup/"+group+"/cpuset.mems", "\n")
			n.write("sys/fs/cgroup/"+group+"/cpuset.cpus.effective", "0-79\n")
		}
		e.Container.State = nri.Running
		n.all.Pods, n.all.Containers = append(n.all.Pods, e.Pod), append(n.all.Containers, e.Container)
	}
	return n
}

// podOf returns a pod, and the event of its only container.
func podOf(name string, pinned bool) (*cluster.Pod, nri.Event) {
	p := &cluster.Pod{Key: "ns/" + name, Object: cluster.Object{Namespace: "ns", Name: name, UID: name}, Pod: workload.Pod{
		Namespace: "ns", Name: name, UID: name, Scheduled: 100,
		Containers: []workload.Container{{Name: "main", Resources: workload.Resources{CPURequest: 100, CPULimit: 500}}},
	}}
	if pinned {
		p.Annotations = map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"}
		p.Scheduled = 4000
		p.Containers[0].Resources = workload.Resources{CPURequest: 4000, CPULimit: 4000, MemoryLimit: 1 << 30}
	}
	return p, nri.Event{
		Pod:       nri.Pod{ID: "box-" + name, UID: name, Namespace: "ns", Name: name, CgroupParent: "kubepods/" + name, CgroupPath: "kubepods/" + name + "/box", Annotations: p.Annotations},
		Container: nri.Container{ID: "c-" + name, PodID: "box-" + name, Name: "main", CgroupPath: "kubepods/" + name + "/c"},
	}
}

// costs has the durations of pieces of work by name, as wall-clock time and as the thread's CPU time. On a busy machine
// the difference is the wait for a CPU.
type costs map[string][]time.Duration

func (c costs) of(b *testing.B, name string, work func()) {
	b.Helper()
	began, used := time.Now(), threadTime(b)
	work()
	c[name+"-cpu"] = append(c[name+"-cpu"], threadTime(b)-used)
	c[name] = append(c[name], time.Since(began))
}

// begins starts an agent on the node, until it is ready.
func (n *fullNode) begins(b *testing.B, measured costs) {
	n.makes()
	n.joins()
	c := n.controls
	c.pass() // reads the topology
	c.mu.Lock()
	c.inventory.Take(&cluster.Snapshot{
		Generation: 1, PodsFrom: cluster.APIServer, Node: cluster.Node{UID: "n", AllocatableMilli: 80_000}, Pods: n.pods,
	})
	if err := kubeletSays(c, kubelet.Reading{Whole: true}); err != nil {
		b.Fatal(err)
	}
	c.mu.Unlock()
	measured.of(b, "synchronize", func() { n.answers(n.all) })
	c.turns.nextSecond = 0
	if c.pass(); !c.windows.ready || len(c.assignment.Snapshot().Rows) < len(n.pods) {
		b.Fatalf("ready %t, %d containers known", c.windows.ready, len(c.assignment.Snapshot().Rows))
	}
}

// BenchmarkFullNode measures a node with 250 pods: the start of an agent, the answer to the runtime's list of all
// containers, and the answers while a container ends, is created again and is resized.
func BenchmarkFullNode(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	n, measured := newFullNode(b), costs{}
	for b.Loop() {
		measured.of(b, "start", func() { n.begins(b, measured) })
		for range 20 {
			_, e := podOf("p7", false)
			for _, e.Kind = range []nri.Kind{nri.Stop, nri.Remove, nri.Create, nri.PostCreate, nri.Start, nri.PostStart, nri.Update, nri.PostUpdate} {
				measured.of(b, "answer", func() { n.answers(e) })
			}
		}
		if exclusive := n.controls.assignment.Snapshot().Exclusive.Size(); exclusive != 40 {
			b.Fatalf("%d exclusive CPUs: %s", exclusive, n.log)
		}
		if err := errors.Join(n.controls.stop(), os.RemoveAll(n.path("etc/state"))); err != nil {
			b.Fatal(err)
		}
		n.closeJournal()
	}
	for name, all := range measured {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, name+"-p99-ms")
	}
}

func threadTime(b *testing.B) time.Duration {
	b.Helper()
	used, err := kernel.ThreadCPUTime()
	if err != nil {
		b.Fatal(err)
	}
	return used
}
