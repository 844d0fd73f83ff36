package transport

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/proof/load"
)

// TestPinnedFromTheFirstInstruction creates a container with an exclusive CPU while another container must shrink to
// the shared pool, in one reply.
func TestPinnedFromTheFirstInstruction(t *testing.T) {
	n := start(t)
	a := n.agent()
	s := a.plugin.Status()
	if s.Runtime != "containerd" || s.RuntimeVersion == "" || !strings.HasPrefix(s.NRIVersion, "v0.") {
		t.Errorf("status %+v", s)
	}
	p := n.pod("web")
	neighbour := p.start("neighbour")
	all, rest := online(t)
	if neighbour.cpus != all {
		t.Fatalf("the neighbour starts on %s of %s", neighbour.cpus, all)
	}

	a.says(pin(t, neighbour.id))
	pinned := p.start("pinned")
	if pinned.cpus != "1" || pinned.mems != "0" {
		t.Errorf("first act of the pinned container: CPUs %s, memory nodes %s", pinned.cpus, pinned.mems)
	}
	if got := pinned.knob(t, cgroup.KnobMax); !strings.HasPrefix(string(got), "max") {
		t.Errorf("quota of the pinned container: %s", got)
	}
	if got := allowed(t, neighbour.pid); got != rest {
		t.Errorf("the neighbour may use CPUs %s", got)
	}
	if got := neighbour.knob(t, cgroup.KnobMax); got != "100000 100000" {
		t.Errorf("quota of the neighbour: %s", got)
	}

	want := []nri.Kind{nri.Create, nri.PostCreate, nri.Start, nri.PostStart}
	if diff := cmp.Diff(want, a.kinds(pinned.id)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for _, e := range a.seen(pinned.id) {
		checkEvent(t, n, p, pinned, e)
	}
	if err := n.drop(t.Context(), p.id); err != nil {
		t.Fatal(err)
	}
	want = append(want, nri.Stop, nri.Remove)
	eventually(t, "the end to be reported", func() bool { return len(a.kinds(pinned.id)) == len(want) })
	if diff := cmp.Diff(want, a.kinds(pinned.id)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if e, ok := a.last(nri.RemovePod); !ok || e.Pod.UID != p.uid {
		t.Errorf("removal of the pod: %+v", e.Pod)
	}
}

// checkEvent compares one event of the pinned container with the kernel.
func checkEvent(t *testing.T, n *node, p *pod, c started, e nri.Event) {
	t.Helper()
	path, err := n.host.PathOf(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	parent := n.group + "/kubepods/pod" + p.uid
	if e.Container.CgroupPath != path || e.Pod.CgroupParent != parent {
		t.Errorf("%s: group %q in %q; it is %q in %q", e.Kind, e.Container.CgroupPath, e.Pod.CgroupParent, path, parent)
	}
	if e.Pod.UID != p.uid || e.Pod.Name != "web" || e.Pod.Namespace != "test" || e.Pod.Annotations["berth.test/name"] != "web" || e.Pod.PID <= 0 {
		t.Errorf("%s: pod %+v", e.Kind, e.Pod)
	}
	wantPID, wantCPUs, wantQuota := c.pid, "1", int64(-1)
	switch e.Kind {
	case nri.Create:
		wantPID, wantCPUs, wantQuota = 0, "", 100_000
	case nri.PostCreate:
		wantPID = 0
	}
	if e.Container.PID != wantPID || e.Container.Resources.CPUs.String() != wantCPUs || e.Container.Resources.Quota != wantQuota {
		t.Errorf("%s: process %d, %+v; want %d, %q, %d", e.Kind, e.Container.PID, e.Container.Resources, wantPID, wantCPUs, wantQuota)
	}
}

// TestStart checks the event Start: the group and the process exist, and no instruction of the container has run. An
// error must prevent the container from running.
func TestStart(t *testing.T) {
	n := start(t)
	a := n.agent()
	p := n.pod("web")
	type finding struct {
		path string
		cpus string
		exe  string
	}
	found := make(chan finding, 1)
	a.says(func(ctx context.Context, e nri.Event) (nri.Reply, error) {
		switch e.Kind {
		case nri.Start:
			path, _ := n.host.PathOf(e.Container.PID)
			exe, _ := os.Readlink("/proc/" + strconv.Itoa(e.Container.PID) + "/exe")
			found <- finding{path, allowed(t, e.Container.PID), exe}
			return nri.Reply{}, errors.New("not today")
		default:
			return pin(t)(ctx, e)
		}
	})
	id, err := p.create("pinned")
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.cri.StartContainer(t.Context(), &runtime.StartContainerRequest{ContainerId: id})
	if err == nil || !strings.Contains(err.Error(), "not today") {
		t.Errorf("refused start: %v", err)
	}
	f := <-found
	if !strings.HasSuffix(f.path, "/"+id) || f.cpus != "1" || strings.HasSuffix(f.exe, "/program") {
		t.Errorf("before the start: %+v", f)
	}
	if s := a.plugin.Status(); s.State != nri.Connected {
		t.Errorf("after an error: %+v", s)
	}
}

// TestRuntimeRestarts kills containerd under running containers. The plugin must reconnect, and the containers must
// keep their CPUs.
func TestRuntimeRestarts(t *testing.T) {
	n := start(t)
	a := n.agent()
	p := n.pod("web")
	a.says(pin(t))
	pinned := p.start("pinned")
	neighbour := p.start("neighbour")

	n.kill()
	eventually(t, "the loss to be seen", func() bool { s := a.plugin.Status(); return s.State == nri.Away && s.Err != nil })
	time.Sleep(300 * time.Millisecond) // the plugin tries in vain in this time
	a.says(func(_ context.Context, e nri.Event) (nri.Reply, error) {
		if e.Kind != nri.Synchronize {
			return nri.Reply{}, nil
		}
		return nri.Reply{Updates: []nri.Change{{ContainerID: neighbour.id, Settings: nri.Settings{CPUs: set(t, "0")}}}}, nil
	})
	n.run()
	a.connected(t, 2)
	e, _ := a.last(nri.Synchronize)
	if len(e.Pods) != 1 || e.Pods[0].UID != p.uid || len(e.Containers) != 2 {
		t.Fatalf("received %d pods, %d containers", len(e.Pods), len(e.Containers))
	}
	for _, c := range e.Containers {
		want, cpus := pinned, "1"
		if c.ID == neighbour.id {
			want, cpus = neighbour, ""
		}
		path, _ := n.host.PathOf(want.pid)
		if c.ID != want.id || c.State != nri.Running || c.PID != want.pid || c.CgroupPath != path || c.Resources.CPUs.String() != cpus {
			t.Errorf("received %+v; process %d, group %q", c, want.pid, path)
		}
	}
	eventually(t, "the reply to be carried out", func() bool { return allowed(t, neighbour.pid) == "0" })
	if got := allowed(t, pinned.pid); got != "1" {
		t.Errorf("the pinned container may use CPUs %s", got)
	}
}

// TestTooSlowForTheRuntime tests an agent that takes longer than the runtime waits. The runtime drops the agent.
// Depending on its version, it refuses the container because the required plugin is gone, or creates it without an
// answer. The agent must reconnect at once.
func TestTooSlowForTheRuntime(t *testing.T) {
	n := start(t)
	a := n.agent(func(o *nri.Options) { o.Limit = long })
	p := n.pod("web")
	var slow atomic.Bool
	slow.Store(true)
	a.says(func(ctx context.Context, e nri.Event) (nri.Reply, error) {
		switch e.Kind {
		case nri.Create:
			if slow.Load() {
				time.Sleep(3 * time.Second)
			}
			return pin(t)(ctx, e)
		case nri.Synchronize:
			var reply nri.Reply
			for _, c := range e.Containers {
				reply.Updates = append(reply.Updates, nri.Change{ContainerID: c.ID, Settings: nri.Settings{CPUs: set(t, "1")}})
			}
			return reply, nil
		default:
			return nri.Reply{}, nil
		}
	})
	id, err := p.create("pinned")
	for err != nil && strings.Contains(err.Error(), nri.ErrLate.Error()) && t.Context().Err() == nil {
		id, err = p.create("pinned") // the agent knows the deadline, and reported the error earlier
	}
	slow.Store(false)
	a.connected(t, 2)
	var pinned started
	if err != nil {
		t.Logf("refused: %v", err)
		pinned = p.start("pinned")
	} else {
		pinned = p.begin("pinned", id)
	}
	eventually(t, "the container to be pinned", func() bool { return allowed(t, pinned.pid) == "1" })
	e, ok := a.last(nri.Dropped)
	if !ok || e.Lost != nri.Create || e.Container.Name != "pinned" {
		t.Errorf("dropped: %v %+v", ok, e)
	}
}

// TestOwnLimit tests an agent that exceeds its own limit. It must stay connected. A container that needs an answer must
// be refused, and any other container must be created without an answer.
func TestOwnLimit(t *testing.T) {
	n := start(t)
	a := n.agent(func(o *nri.Options) {
		o.Limit = 100 * time.Millisecond
		o.MustAnswer = func(e nri.Event) bool { return e.Container.Name == "pinned" }
	})
	p := n.pod("web")
	a.says(func(_ context.Context, e nri.Event) (nri.Reply, error) {
		if e.Kind == nri.Create {
			time.Sleep(300 * time.Millisecond)
		}
		return nri.Reply{}, nil
	})
	if id, err := p.create("pinned"); err == nil || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("container %q without an answer: %v", id, err)
	}
	if all, _ := online(t); p.start("other").cpus != all {
		t.Errorf("the other does not start on %s", all)
	}
	if s := a.plugin.Status(); s.Connections != 1 || s.State != nri.Connected || s.Late < 2 {
		t.Errorf("status %+v", s)
	}
}

// TestUpdate resizes a pinned container over CRI, as the kubelet does.
func TestUpdate(t *testing.T) {
	n := start(t)
	a := n.agent()
	p := n.pod("web")
	a.says(func(ctx context.Context, e nri.Event) (nri.Reply, error) {
		if e.Kind == nri.Update && e.Container.Name == "pinned" {
			return nri.Reply{Updates: []nri.Change{{ContainerID: e.Container.ID, Settings: nri.Settings{CPUs: set(t, "1"), NoQuota: true}}}}, nil
		}
		return pin(t)(ctx, e)
	})
	pinned, other := p.start("pinned"), p.start("other")
	resize := func(id string) {
		t.Helper()
		if _, err := n.cri.UpdateContainerResources(t.Context(), &runtime.UpdateContainerResourcesRequest{
			ContainerId: id, Linux: &runtime.LinuxContainerResources{CpuPeriod: 100_000, CpuQuota: 150_000, CpuShares: 1536},
		}); err != nil {
			t.Fatal(err)
		}
	}
	resize(pinned.id)
	if e, _ := a.last(nri.Update); e.Requested != (nri.Resources{Quota: 150_000, Period: 100_000, Shares: 1536}) || e.Container.Resources.Quota != -1 {
		t.Errorf("update asks for %+v, has %+v", e.Requested, e.Container.Resources)
	}
	if got := pinned.knob(t, cgroup.KnobMax); !strings.HasPrefix(string(got), "max") || allowed(t, pinned.pid) != "1" {
		t.Errorf("after the resize: quota %s, CPUs %s", got, allowed(t, pinned.pid))
	}
	if e, _ := a.last(nri.PostUpdate); e.Container.Resources.Quota != -1 || e.Container.Resources.Shares != 1536 || e.Container.Resources.CPUs != set(t, "1") {
		t.Errorf("after the update: %+v", e.Container.Resources)
	}
	resize(other.id)
	if got := other.knob(t, cgroup.KnobMax); got != "150000 100000" || allowed(t, other.pid) != other.cpus {
		t.Errorf("without a reply: quota %s, CPUs %s", got, allowed(t, other.pid))
	}
}

// TestRuntimeWritesAll shows a behavior of the runtime that matters to an agent which writes to groups itself. An
// update writes all recorded settings of a container, and every setting of an earlier reply is recorded.
func TestRuntimeWritesAll(t *testing.T) {
	n := start(t)
	a := n.agent()
	p := n.pod("web")
	neighbour := p.start("neighbour")
	all, rest := online(t)
	a.says(pin(t, neighbour.id))
	neighbour.write(t, "cpu", "cpu.cfs_quota_us", "150000", "cpu.max", "150000 100000")
	p.start("pinned")
	if got := neighbour.knob(t, cgroup.KnobMax); got != "100000 100000" || allowed(t, neighbour.pid) != rest {
		t.Errorf("an update of the CPUs leaves the quota at %s, the CPUs at %s", got, allowed(t, neighbour.pid))
	}
	neighbour.write(t, "cpuset", "cpuset.cpus", all, "cpuset.cpus", all)
	if got := allowed(t, neighbour.pid); got != all {
		t.Fatalf("the neighbour may use CPUs %s", got)
	}
	if _, err := n.cri.UpdateContainerResources(t.Context(), &runtime.UpdateContainerResourcesRequest{
		ContainerId: neighbour.id, Linux: &runtime.LinuxContainerResources{CpuPeriod: 100_000, CpuQuota: 120_000},
	}); err != nil {
		t.Fatal(err)
	}
	if got := neighbour.knob(t, cgroup.KnobMax); got != "120000 100000" || allowed(t, neighbour.pid) != rest {
		t.Errorf("an update of the quota leaves the quota at %s, the CPUs at %s", got, allowed(t, neighbour.pid))
	}
}

// TestManyStarts counts how many containers are pinned at their first instruction.
func TestManyStarts(t *testing.T) {
	starts := 10
	if text := os.Getenv("BERTH_TRANSPORT_STARTS"); text != "" {
		var err error
		if starts, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	n := start(t)
	a := n.agent()
	a.says(pin(t))
	right := 0
	for range starts {
		p := n.pod("web")
		if c := p.start("pinned"); c.cpus == "1" && c.mems == "0" {
			right++
		}
		if err := n.drop(t.Context(), p.id); err != nil {
			t.Fatal(err)
		}
	}
	if right != starts {
		t.Errorf("%d of %d right", right, starts)
	}
	waits := a.waited()
	p50, _ := load.Quantile(waits, 0.5)
	p99, _ := load.Quantile(waits, 0.99)
	t.Logf("%d of %d starts right; %d requests, p50 %v, p99 %v", right, starts, len(waits), p50, p99)
}
