package node

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/test/cluster/local"
)

// plugin is another NRI plugin of the runtime.
type plugin struct {
	created func(pod, container string) (cpus string) // The CPUs to set, "" for none.
	made    func(pod, container string)               // The container is created and does not run yet.
}

func (p *plugin) Synchronize(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error) {
	return nil, nil
}

func (p *plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	if p.created == nil {
		return nil, nil, nil
	}
	cpus := p.created(pod.GetName(), c.GetName())
	if cpus == "" {
		return nil, nil, nil
	}
	var adjust api.ContainerAdjustment
	adjust.SetLinuxCPUSetCPUs(cpus)
	return &adjust, nil, nil
}

func (p *plugin) PostCreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	if p.made != nil {
		p.made(pod.GetName(), c.GetName())
	}
	return nil
}

// plug connects a plugin until stop is called or the test ends.
func (s *stage) plug(t *testing.T, index string, p *plugin) (stop func()) {
	t.Helper()
	one, err := stub.New(p, stub.WithSocketPath(local.NodePath("/run/nri/nri.sock")), stub.WithPluginName("other"), stub.WithPluginIdx(index))
	must(t, err)
	must(t, one.Start(context.WithoutCancel(t.Context())))
	var once atomic.Bool
	stop = func() {
		if once.CompareAndSwap(false, true) {
			one.Stop()
		}
	}
	t.Cleanup(stop)
	return stop
}

// betweenAnswerAndStart kills the agent after its answer, before the container runs. The container must still run on
// the CPUs of the answer.
func (s *stage) betweenAnswerAndStart(t *testing.T) {
	s.start(t, "neighbour")
	s.freshAgent(t)
	pid := s.agentPID(t)
	var killed atomic.Bool
	stop := s.plug(t, "99", &plugin{made: func(pod, _ string) {
		if pod == "between" && killed.CompareAndSwap(false, true) {
			_ = unix.Kill(pid, unix.SIGKILL) // The test checks below that the agent is gone.
		}
	}})
	s.witness.without()
	p := s.start(t, "between", pinned)
	stop()
	if !killed.Load() {
		t.Fatal("the runtime did not ask the plugin that was to kill the agent")
	}
	s.agentBack(t, pid)
	s.settled(t)
	if got := s.printed(t, p, "app"); len(got) == 0 || !parseList(got[len(got)-1][0]).equal(s.placement(t, "between", "app").cpus) {
		t.Errorf("printed %q", got)
	}
	s.remove(t, "between")
	s.settled(t)
}

// agentKilled kills the agent while containers run, start and end.
func (s *stage) agentKilled(t *testing.T) {
	p := s.start(t, "held", pinned)
	s.start(t, "neighbour")
	s.freshAgent(t)
	pid := s.agentPID(t)
	s.killAgent(t)
	s.start(t, "meanwhile")
	s.agentBack(t, pid)
	s.settled(t)
	s.unchanged(t, p)
}

// unchanged checks that a pinned pod still has the same containers on the same CPUs.
func (s *stage) unchanged(t *testing.T, before *v1.Pod) {
	t.Helper()
	now, err := s.get(t, before.Name)
	must(t, err)
	if had, has := before.Annotations[placementKey], now.Annotations[placementKey]; !sameClaims(before, now) {
		t.Errorf("%s had %s and has %s", before.Name, had, has)
	}
	for _, c := range before.Status.ContainerStatuses {
		if old, is := c.ContainerID, id(now, c.Name); "containerd://"+is != old {
			t.Errorf("%s/%s was %s and is %s", before.Name, c.Name, old, is)
		}
	}
}

func sameClaims(a, b *v1.Pod) bool {
	for _, c := range a.Spec.Containers {
		one, other := (&resident{bundle: bundle{name: c.Name}, pod: a}).claimed(), (&resident{bundle: bundle{name: c.Name}, pod: b}).claimed()
		if !one.cpus.equal(other.cpus) {
			return false
		}
	}
	return true
}

// agentBack waits until an agent with another process id runs.
func (s *stage) agentBack(t *testing.T, pid int) {
	t.Helper()
	s.eventually(t, "another agent", func() string {
		if now := s.agentPID(t); now == pid {
			return "the process is the same"
		}
		return ""
	})
	s.agentReady(t)
}

// freshAgent replaces an agent that was restarted before, so that the kubelet restarts the next one without a delay.
func (s *stage) freshAgent(t *testing.T) {
	t.Helper()
	p := s.agent(t)
	if p.Status.ContainerStatuses[0].RestartCount == 0 {
		return
	}
	s.witness.without()
	pid := s.agentPID(t)
	must(t, s.client.CoreV1().Pods(berth).Delete(t.Context(), p.Name, metav1.DeleteOptions{})) // Two would clash.
	s.agentBack(t, pid)
}

// serverKilled kills containerd, then the kubelet, then both.
func (s *stage) serverKilled(t *testing.T) {
	p := s.start(t, "held", pinned)
	s.start(t, "neighbour", limited("500m"))
	for i, names := range [][]string{{"containerd"}, {"kubelet"}, {"kubelet", "containerd"}} {
		t.Log(names)
		s.witness.without()
		s.kill(t, names...)
		s.nodeReady(t)
		s.settled(t)
		s.unchanged(t, p)
		s.start(t, fmt.Sprintf("later-%d", i))
		s.settled(t)
	}
	s.remove(t, "held")
	s.settled(t)
}

// apiAway stops the API server for BERTH_NODE_AWAY. Containers that end in that time must restart on the same CPUs.
func (s *stage) apiAway(t *testing.T) {
	away := 10 * time.Second
	if text := os.Getenv("BERTH_NODE_AWAY"); text != "" {
		var err error
		away, err = time.ParseDuration(text)
		must(t, err)
	}
	p := s.start(t, "held", pinned)
	s.start(t, "neighbour")
	s.settled(t)
	s.freshAgent(t)
	agent, pod := s.agentPID(t), string(s.agent(t).UID)
	must(t, s.c.Stop(t.Context(), "kube-apiserver"))
	defer func() { must(t, s.c.Start(context.WithoutCancel(t.Context()), "kube-apiserver")) }()
	begin := time.Now()
	s.restartContainer(t, p)
	s.settled(t)
	s.witness.without()
	must(t, unix.Kill(agent, unix.SIGKILL)) // The kubelet restarts the agent, which uses its stored state.
	s.eventually(t, "another agent", func() string {
		for _, g := range groups() {
			b, ok := readBundle(g.id)
			if pids := g.pids(); ok && g.pod == pod && b.name == agents && len(pids) == 1 && pids[0] != strconv.Itoa(agent) {
				return ""
			}
		}
		return "none"
	})
	s.settled(t)
	file := cpusets() + s.groupOf(t, s.runningID(t, p)).dir + "/cpuset.cpus"
	before := contents([]string{file})
	for time.Since(begin) < away {
		if now := contents([]string{file}); now != before {
			t.Fatalf("the CPUs of held were %s and are %s", before, now)
		}
		time.Sleep(100 * time.Millisecond)
	}
	must(t, s.c.Start(t.Context(), "kube-apiserver"))
	s.nodeReady(t)
	s.agentReady(t)
	s.settled(t)
	s.eventually(t, "the API server knows of the restart", func() string {
		now, err := s.get(t, "held")
		if err != nil || now.Status.ContainerStatuses[0].RestartCount != 1 {
			return fmt.Sprintf("%v %+v", err, now.Status.ContainerStatuses)
		}
		return ""
	})
	s.remove(t, "held")
	s.start(t, "after", pinned)
	s.settled(t)
}

// runningID returns the container id of the pod's first container that has processes, read from the machine.
func (s *stage) runningID(t *testing.T, p *v1.Pod) (found string) {
	t.Helper()
	s.eventually(t, "a container of "+p.Name, func() string {
		for _, g := range groups() {
			if b, ok := readBundle(g.id); ok && g.pod == string(p.UID) && b.name == p.Spec.Containers[0].Name && len(g.pids()) > 0 {
				found = g.id
				return ""
			}
		}
		return "none"
	})
	return found
}

// restartContainer kills the first process of a pod's container and waits until a new one has printed its masks,
// without asking the API server.
func (s *stage) restartContainer(t *testing.T, p *v1.Pod) {
	t.Helper()
	name := p.Spec.Containers[0].Name
	old := map[string]bool{}
	uid := string(p.UID)
	for _, g := range groups() {
		if b, ok := readBundle(g.id); ok && g.pod == uid && b.name == name {
			old[g.id] = true
			for _, text := range g.pids() {
				pid, err := strconv.Atoi(text)
				must(t, err)
				must(t, unix.Kill(pid, unix.SIGKILL))
			}
		}
	}
	s.eventually(t, "container "+name+" of "+p.Name+" is started again", func() string {
		for _, g := range groups() {
			if b, ok := readBundle(g.id); ok && g.pod == uid && b.name == name && !old[g.id] {
				if masks, _ := g.masks(false); len(masks) > 0 {
					return ""
				}
			}
		}
		return "no other one"
	})
	all := s.printed(t, p, name)
	if want := (&resident{bundle: bundle{name: name}, pod: p}).claimed(); !parseList(all[len(all)-1][0]).equal(want.cpus) && len(want.cpus) > 0 {
		t.Fatalf("a container that was started again printed %q, want %s", all, want.cpus)
	}
}
