package nri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/berth-project/berth/internal/value/cpuset"
)

func set(t *testing.T, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var (
	somePod = &api.PodSandbox{
		Id: "sandbox", Name: "web", Namespace: "shop", Uid: "u-1", RuntimeHandler: "runc", Pid: 11,
		Annotations: map[string]string{"cpuset-scheduler": "true"},
		Linux: &api.LinuxPodSandbox{
			CgroupParent: "/kubepods.slice/kubepods-podu_1.slice",
			CgroupsPath:  "kubepods-podu_1.slice:cri-containerd:sandbox",
		},
	}
	someContainer = &api.Container{
		Id: "c1", PodSandboxId: "sandbox", Name: "nginx", State: api.ContainerState_CONTAINER_RUNNING, Pid: 12,
		Linux: &api.LinuxContainer{
			CgroupsPath: "kubepods-podu_1.slice:cri-containerd:c1",
			Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{
				Cpus: "0-3", Quota: api.Int64(int64(200000)), Period: api.UInt64(uint64(100000)), Shares: api.UInt64(uint64(2048)),
			}},
		},
	}
)

func TestSynchronizeInParts(t *testing.T) {
	b := run(t, func(_ context.Context, e Event) (Reply, error) {
		return Reply{Updates: []Change{
			{ContainerID: "c1", Settings: Settings{CPUs: set(t, "2"), Mems: set(t, "0")}},
			{ContainerID: "nothing to set"},
			{Settings: Settings{NoQuota: true}},
			{ContainerID: "c2", Settings: Settings{NoQuota: true}},
		}}, nil
	})
	r := accept(t, b.listener)
	events, err := r.plugin.Configure(t.Context(), &api.ConfigureRequest{RuntimeName: "containerd", RuntimeVersion: "v2.4.2", NRIVersion: "v0.12.3"})
	if err != nil {
		t.Fatal(err)
	}
	mask := api.EventMask(events.GetEvents())
	if !mask.IsSet(api.Event_CREATE_CONTAINER) || !mask.IsSet(api.Event_VALIDATE_CONTAINER_ADJUSTMENT) {
		t.Errorf("subscribed for %s", mask.PrettyString())
	}
	part, err := r.plugin.Synchronize(t.Context(), &api.SynchronizeRequest{Pods: []*api.PodSandbox{somePod}, More: true})
	if err != nil || !part.GetMore() || len(part.GetUpdate()) > 0 {
		t.Fatalf("first part: %v, %v", part, err)
	}
	if s := b.plugin.Status(); s.State != Registering {
		t.Errorf("state before all is reported: %v", s.State)
	}
	whole, err := r.plugin.Synchronize(t.Context(), &api.SynchronizeRequest{Containers: []*api.Container{someContainer}})
	if err != nil || whole.GetMore() {
		t.Fatalf("last part: %v, %v", whole, err)
	}
	want := []*api.ContainerUpdate{
		{ContainerId: "c1", IgnoreFailure: true, Linux: &api.LinuxContainerUpdate{Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: "2", Mems: "0"}}}},
		{ContainerId: "c2", IgnoreFailure: true, Linux: &api.LinuxContainerUpdate{Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Quota: api.Int64(int64(-1))}}}},
	}
	if fmt.Sprint(whole.GetUpdate()) != fmt.Sprint(want) {
		t.Errorf("updates %v; want %v", whole.GetUpdate(), want)
	}
	e, _ := b.handler.last(Synchronize)
	wantEvent := Event{
		Kind: Synchronize,
		Pods: []Pod{{
			ID: "sandbox", Namespace: "shop", Name: "web", UID: "u-1", RuntimeHandler: "runc", PID: 11,
			CgroupParent: "kubepods.slice/kubepods-podu_1.slice",
			CgroupPath:   "kubepods.slice/kubepods-podu_1.slice/cri-containerd-sandbox.scope",
			Annotations:  map[string]string{"cpuset-scheduler": "true"},
		}},
		Containers: []Container{{
			ID: "c1", PodID: "sandbox", Name: "nginx", State: Running, PID: 12,
			CgroupPath: "kubepods.slice/kubepods-podu_1.slice/cri-containerd-c1.scope",
			Resources:  Resources{CPUs: set(t, "0-3"), Quota: 200000, Period: 100000, Shares: 2048},
		}},
	}
	if diff := cmp.Diff(wantEvent, e, cmpopts.EquateComparable(cpuset.Set{})); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	s := b.plugin.Status()
	if s.State != Connected || s.Connections != 1 || s.Runtime != "containerd" || s.RuntimeVersion != "v2.4.2" || s.NRIVersion != "v0.12.3" {
		t.Errorf("status %+v", s)
	}
}

func TestOldRuntime(t *testing.T) {
	b := run(t, nil)
	r := accept(t, b.listener)
	answer, err := r.plugin.Configure(t.Context(), &api.ConfigureRequest{RuntimeName: "containerd", RuntimeVersion: "v1.7.30"})
	if err != nil {
		t.Fatal(err)
	}
	mask := api.EventMask(answer.GetEvents())
	if mask.IsSet(api.Event_VALIDATE_CONTAINER_ADJUSTMENT) || b.plugin.Status().NRIVersion != "v0.8.0" {
		t.Errorf("NRI %q: subscribed for %s", b.plugin.Status().NRIVersion, mask.PrettyString())
	}
	for _, event := range []api.Event{api.Event_POST_CREATE_CONTAINER, api.Event_START_CONTAINER, api.Event_UPDATE_POD_SANDBOX, api.Event_REMOVE_CONTAINER} {
		if _, err := r.plugin.StateChange(t.Context(), &api.StateChangeEvent{Event: event, Pod: somePod, Container: someContainer}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]Kind{PostCreate, Start, Remove}, b.handler.kinds()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestLimitOfTheRuntime(t *testing.T) {
	for _, c := range []struct{ own, waits, want time.Duration }{
		{0, 0, DefaultLimit},
		{0, 2 * time.Second, DefaultLimit},
		{0, 300 * time.Millisecond, 150 * time.Millisecond},
		{time.Minute, 300 * time.Millisecond, time.Minute},
	} {
		b := run(t, nil, func(o *Options) { o.Limit = c.own })
		r := accept(t, b.listener)
		if _, err := r.plugin.Configure(t.Context(), &api.ConfigureRequest{RequestTimeout: c.waits.Milliseconds()}); err != nil {
			t.Fatal(err)
		}
		if got := b.plugin.within(); got != c.want {
			t.Errorf("own limit %v, the runtime waits %v: %v; want %v", c.own, c.waits, got, c.want)
		}
	}
}

func TestKnowsOwners(t *testing.T) {
	for version, want := range map[string]bool{
		"v0.9.0": false, "v0.10.0": true, "v0.12.5": true, "0.11.0": true, "v1.0.0": true, "v0.9.1-0.20250219": false, "": false, "v0": false, "vX.Y.Z": false,
	} {
		if knowsOwners(version) != want {
			t.Errorf("knowsOwners(%q) = %v", version, !want)
		}
	}
}

func TestCreate(t *testing.T) {
	var reply Reply
	var refusal error
	b := run(t, func(_ context.Context, e Event) (Reply, error) {
		if e.Kind == Create || e.Kind == PostCreate {
			return reply, refusal
		}
		return Reply{}, nil
	})
	r := accept(t, b.listener)
	r.greet(t)
	create := func() (*api.CreateContainerResponse, error) {
		return r.plugin.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: somePod, Container: someContainer})
	}

	answer, err := create()
	if err != nil || answer.GetAdjust() != nil || len(answer.GetUpdate()) > 0 {
		t.Errorf("nothing to do: %v, %v", answer, err)
	}
	reply = Reply{Adjust: Settings{CPUs: set(t, "1,3"), Mems: set(t, "0"), NoQuota: true}}
	answer, err = create()
	cpu := answer.GetAdjust().GetLinux().GetResources().GetCpu()
	if err != nil || cpu.GetCpus() != "1,3" || cpu.GetMems() != "0" || cpu.GetQuota().GetValue() != -1 || cpu.GetShares() != nil || cpu.GetPeriod() != nil {
		t.Errorf("adjustment %v, %v", answer, err)
	}
	refusal = errors.New("CPUs 1,3 are taken")
	if _, err = create(); err == nil || !strings.Contains(err.Error(), refusal.Error()) {
		t.Errorf("refusal: %v", err)
	}
	refusal = context.DeadlineExceeded // the runtime would treat that as a plugin that is too slow
	if _, err = create(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a handler's timeout: %v", err)
	}
	if _, err := r.plugin.PostCreateContainer(t.Context(), &api.PostCreateContainerRequest{Pod: somePod, Container: someContainer}); err != nil {
		t.Errorf("an error for an event that cannot be refused: %v", err)
	}
}

func TestUpdateAndStop(t *testing.T) {
	b := run(t, func(_ context.Context, e Event) (Reply, error) {
		return Reply{Updates: []Change{{ContainerID: e.Container.ID, Settings: Settings{CPUs: set(t, "1")}}}}, nil
	})
	r := accept(t, b.listener)
	r.greet(t)
	update, err := r.plugin.UpdateContainer(t.Context(), &api.UpdateContainerRequest{
		Pod: somePod, Container: someContainer, LinuxResources: &api.LinuxResources{Cpu: &api.LinuxCPU{Quota: api.Int64(int64(300000)), Cpus: "garbage"}},
	})
	if err != nil || len(update.GetUpdate()) != 1 || update.GetUpdate()[0].GetLinux().GetResources().GetCpu().GetCpus() != "1" {
		t.Errorf("update: %v, %v", update, err)
	}
	e, _ := b.handler.last(Update)
	if e.Requested != (Resources{Quota: 300000}) || e.Container.Resources.Quota != 200000 {
		t.Errorf("update asks for %+v, has %+v", e.Requested, e.Container.Resources)
	}
	stop, err := r.plugin.StopContainer(t.Context(), &api.StopContainerRequest{Pod: somePod, Container: someContainer})
	if err != nil || len(stop.GetUpdate()) != 1 {
		t.Errorf("stop: %v, %v", stop, err)
	}
}

// late is the limit of handlers that hang on purpose. Other handlers stay far below it, even on a busy machine.
const late = 500 * time.Millisecond

func TestSlowHandler(t *testing.T) {
	open, waits := make(chan struct{}), &waits{}
	b := run(t, func(_ context.Context, e Event) (Reply, error) {
		if e.Kind == Create && e.Container.ID == "c1" {
			<-open
		}
		return Reply{Adjust: Settings{CPUs: set(t, "1")}}, nil
	}, func(o *Options) {
		o.Limit, o.Waits = late, waits
		o.MustAnswer = func(e Event) bool { return e.Container.Name == "pinned" }
	})
	r := accept(t, b.listener)
	r.greet(t)
	answer, err := r.plugin.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: somePod, Container: someContainer})
	if err != nil || answer.GetAdjust() != nil {
		t.Errorf("slow, optional: %v, %v", answer, err)
	}
	// The handler still hangs: the next request waits behind it.
	pinned := &api.Container{Id: "c2", Name: "pinned"}
	if _, err = r.plugin.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: somePod, Container: pinned}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("slow, needed: %v", err)
	}
	if _, err := r.plugin.RemoveContainer(t.Context(), &api.RemoveContainerRequest{Pod: somePod, Container: someContainer}); err != nil {
		t.Errorf("slow, without a reply: %v", err)
	}
	close(open)
	eventually(t, "the events behind the slow one", func() bool { return len(b.handler.kinds()) == 3 })
	if diff := cmp.Diff([]Kind{Create, Dropped, Remove}, b.handler.kinds()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if e, _ := b.handler.last(Dropped); e.Lost != Create || e.Container.ID != "c1" {
		t.Errorf("dropped: %+v", e)
	}
	if s := b.plugin.Status(); s.Late != 3 || s.State != Connected {
		t.Errorf("status %+v", s)
	}
	if all := waits.all(); len(all) < 4 || slices.Max(all) < late.Seconds() {
		t.Errorf("the runtime waited %v seconds", all)
	}
}

func TestOverrun(t *testing.T) {
	open := make(chan struct{})
	b := run(t, func(_ context.Context, e Event) (Reply, error) {
		if e.Kind == StopPod {
			<-open
		}
		return Reply{}, nil
	}, func(o *Options) { o.Limit = late })
	r := accept(t, b.listener)
	r.greet(t)
	for range maxWaiting + 2 {
		b.plugin.calls <- &call{ctx: t.Context(), event: Event{Kind: StopPod}, answer: make(chan answer, 1)}
		if len(b.plugin.calls) == maxWaiting {
			break
		}
	}
	if _, err := r.plugin.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: somePod}); err != nil {
		t.Logf("the connection was closed before the answer: %v", err)
	}
	second := accept(t, b.listener)
	close(open)
	eventually(t, "the queue to empty", func() bool { return len(b.plugin.calls) == 0 })
	second.greet(t)
	if s := b.plugin.Status(); s.State != Connected || s.Connections != 2 {
		t.Errorf("status %+v", s)
	}
}

func TestOneEventAtATime(t *testing.T) {
	b := run(t, func(context.Context, Event) (Reply, error) {
		time.Sleep(time.Millisecond)
		return Reply{}, nil
	})
	r := accept(t, b.listener)
	r.greet(t)
	var group sync.WaitGroup
	for range 30 {
		group.Go(func() {
			if _, err := r.plugin.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: somePod}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := len(b.handler.kinds()); n != 30 {
		t.Errorf("%d events", n)
	}
}

func TestReconnect(t *testing.T) {
	var mu sync.Mutex
	var states []Link
	b := run(t, nil, func(o *Options) {
		o.Changed = func(s Status) {
			mu.Lock()
			defer mu.Unlock()
			states = append(states, s.State)
		}
	})
	accept(t, b.listener).close() // gone between registration and configuration
	r := accept(t, b.listener)
	r.greet(t)
	b.listener.Close() // the runtime ends, and its socket disappears
	r.close()
	eventually(t, "the end to be seen", func() bool { s := b.plugin.Status(); return s.State == Away && errors.Is(s.Err, os.ErrNotExist) })
	b.listen(t)
	r = accept(t, b.listener)
	r.greet(t)
	if s := b.plugin.Status(); s.State != Connected || s.Connections != 2 || s.Err != nil {
		t.Errorf("status %+v", s)
	}
	mu.Lock()
	defer mu.Unlock()
	want := []Link{Registering, Connected, Away, Registering, Connected}
	if !slices.Equal(states, want) {
		t.Errorf("states %v; want %v", states, want)
	}
}

func TestForeign(t *testing.T) {
	b := run(t, func(_ context.Context, e Event) (Reply, error) {
		if e.Kind == Create {
			return Reply{Adjust: Settings{CPUs: set(t, "1")}}, nil
		}
		return Reply{}, nil
	})
	r := accept(t, b.listener)
	r.greet(t)
	owners := api.NewOwningPlugins()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(owners.ClaimCPUSetCPUs("c1", "90-berth"))
	must(owners.ClaimCPUShares("c2", "10-other"))
	validate := func(adjust *api.ContainerAdjustment) {
		t.Helper()
		answer, err := r.plugin.ValidateContainerAdjustment(t.Context(), &api.ValidateContainerAdjustmentRequest{
			Pod: somePod, Container: someContainer, Adjust: adjust, Owners: owners,
			Update: []*api.ContainerUpdate{{ContainerId: "c3", Linux: &api.LinuxContainerUpdate{Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: "7"}}}}},
		})
		if err != nil || answer.GetReject() {
			t.Errorf("validation: %v, %v", answer, err)
		}
	}
	validate(nil)
	if kinds := b.handler.kinds(); len(kinds) > 0 {
		t.Errorf("what others do besides: %v", kinds)
	}
	must(owners.ClaimCPUSetCPUs("c3", "10-other"))
	validate(nil)
	if e, _ := b.handler.last(Foreign); e.Owner != "10-other" || e.Container.ID != "c3" || e.Requested.CPUs != set(t, "7") {
		t.Errorf("others' update: %+v", e)
	}
	must(owners.ClaimCPUSetMems("c1", "20-third"))
	owners.Owners["c3"] = nil
	validate(&api.ContainerAdjustment{Linux: &api.LinuxContainerAdjustment{Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Mems: "1"}}}})
	if e, _ := b.handler.last(Foreign); e.Owner != "20-third" || e.Container.ID != "c1" || e.Pod.Name != "web" || e.Requested.Mems != set(t, "1") {
		t.Errorf("others' adjustment: %+v", e)
	}
}

func TestOptions(t *testing.T) {
	good := Options{Handler: &script{t: t}, Groups: paths{}, Log: run(t, nil).plugin.opts.Log}
	if _, err := New(good); err != nil {
		t.Errorf("New: %v", err)
	}
	for name, change := range map[string]func(*Options){
		"no handler":     func(o *Options) { o.Handler = nil },
		"no groups":      func(o *Options) { o.Groups = nil },
		"no log":         func(o *Options) { o.Log = nil },
		"bad index":      func(o *Options) { o.Index = "9" },
		"bad name":       func(o *Options) { o.Name = "a/b" },
		"negative limit": func(o *Options) { o.Limit = -1 },
	} {
		o := good
		change(&o)
		if _, err := New(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v; want ErrOptions", name, err)
		}
	}
}

func TestNames(t *testing.T) {
	for k := Synchronize; k <= Dropped; k++ {
		if k.String() == "unknown" {
			t.Errorf("kind %d has no name", k)
		}
	}
	if Kind(0).String() != "unknown" || Kind(200).String() != "unknown" || Link(9).String() != "connected" || State(9).String() != "Stopped" {
		t.Error("names of what does not exist")
	}
}
