package cri

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/berth-project/berth/internal/linux/cgroup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// paths is a Groups without a host.
type paths struct{}

func (paths) RuntimeGroup(cgroupsPath string, _ int) (string, error) {
	return cgroup.RuntimePath(cgroupsPath)
}

// fake is a runtime. What it does not have it does not implement.
type fake struct {
	runtime.UnimplementedRuntimeServiceServer

	mu         sync.Mutex
	pods       []*runtime.PodSandbox
	containers []*runtime.Container
	info       map[string]string // verbose information by id
	asked      []string          // ids whose status was asked for
	refusal    error
	statuses   map[string]error // refusals by id
	hangs      string           // an id whose status never comes
	events     chan struct{}    // nil: not implemented
}

func (f *fake) Version(context.Context, *runtime.VersionRequest) (*runtime.VersionResponse, error) {
	return &runtime.VersionResponse{RuntimeName: "cri-o", RuntimeVersion: "1.36.0"}, nil
}

func (f *fake) ListPodSandbox(context.Context, *runtime.ListPodSandboxRequest) (*runtime.ListPodSandboxResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &runtime.ListPodSandboxResponse{Items: f.pods}, f.refusal
}

func (f *fake) ListContainers(context.Context, *runtime.ListContainersRequest) (*runtime.ListContainersResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &runtime.ListContainersResponse{Containers: f.containers}, nil
}

func (f *fake) status(ctx context.Context, id string, verbose bool) (map[string]string, error) {
	if id == f.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, id)
	if err := f.statuses[id]; err != nil {
		return nil, err
	}
	info, ok := f.info[id]
	if !ok || !verbose {
		return nil, status.Error(codes.NotFound, "no such thing")
	}
	return map[string]string{"info": info}, nil
}

func (f *fake) ContainerStatus(ctx context.Context, r *runtime.ContainerStatusRequest) (*runtime.ContainerStatusResponse, error) {
	info, err := f.status(ctx, r.GetContainerId(), r.GetVerbose())
	return &runtime.ContainerStatusResponse{Info: info}, err
}

func (f *fake) PodSandboxStatus(ctx context.Context, r *runtime.PodSandboxStatusRequest) (*runtime.PodSandboxStatusResponse, error) {
	info, err := f.status(ctx, r.GetPodSandboxId(), r.GetVerbose())
	return &runtime.PodSandboxStatusResponse{Info: info}, err
}

func (f *fake) GetContainerEvents(_ *runtime.GetEventsRequest, s grpc.ServerStreamingServer[runtime.ContainerEventResponse]) error {
	if f.events == nil {
		return status.Error(codes.Unimplemented, "no events")
	}
	for {
		select {
		case <-s.Context().Done():
			return nil
		case _, ok := <-f.events:
			if !ok {
				return nil
			}
			if err := s.Send(&runtime.ContainerEventResponse{}); err != nil {
				return err
			}
		}
	}
}

// serve gives a runtime a socket, and a Client of it.
func serve(t *testing.T, f *fake) *Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "cri.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxSendMsgSize(2 * messageLimit))
	runtime.RegisterRuntimeServiceServer(server, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	c, err := Open("unix://"+socket, paths{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func container(id, name string, state runtime.ContainerState) *runtime.Container {
	return &runtime.Container{
		Id: id, PodSandboxId: "s1", State: state, CreatedAt: 5,
		Metadata:    &runtime.ContainerMetadata{Name: name, Attempt: 3},
		Labels:      map[string]string{labelPodName: "web", labelPodNamespace: "shop", labelPodUID: "u-1"},
		Annotations: map[string]string{"a": "b"},
	}
}

func TestList(t *testing.T) {
	f := &fake{
		pods: []*runtime.PodSandbox{
			{Id: "s1", Metadata: &runtime.PodSandboxMetadata{Name: "web", Namespace: "shop", Uid: "u-1", Attempt: 1}, RuntimeHandler: "kata", CreatedAt: 4},
			{Id: "s0", Metadata: &runtime.PodSandboxMetadata{Name: "web", Namespace: "shop", Uid: "u-1"}, State: runtime.PodSandboxState_SANDBOX_NOTREADY, CreatedAt: 3},
		},
		containers: []*runtime.Container{
			container("c1", "nginx", runtime.ContainerState_CONTAINER_RUNNING),
			container("c2", "gone", runtime.ContainerState_CONTAINER_RUNNING),
			container("c3", "odd", runtime.ContainerState_CONTAINER_RUNNING),
			container("c4", "bad", runtime.ContainerState_CONTAINER_RUNNING),
			container("c5", "made", runtime.ContainerState_CONTAINER_CREATED),
			container("c6", "over", runtime.ContainerState_CONTAINER_EXITED),
			container("c7", "lost", runtime.ContainerState_CONTAINER_UNKNOWN),
		},
		info: map[string]string{
			"s1": `{"sandboxID":"s1","pid":11,"runtimeSpec":{"linux":{"cgroupsPath":"kubepods-podu_1.slice:crio:s1"}}}`,
			"c1": `{"pid":12,"runtimeSpec":{"ociVersion":"1.2","linux":{"cgroupsPath":"/kubepods/podu-1/crio-c1","resources":{}}}}`,
			"c3": `{"pid":13}`,
			"c4": `pid 14`,
		},
	}
	c := serve(t, f)
	if r, err := c.Runtime(t.Context()); err != nil || r != (Runtime{"cri-o", "1.36.0"}) {
		t.Errorf("runtime %+v, %v", r, err)
	}
	list, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Pod{
		{
			ID: "s1", Namespace: "shop", Name: "web", UID: "u-1", Attempt: 1, Ready: true, RuntimeHandler: "kata", PID: 11,
			CgroupPath: "kubepods.slice/kubepods-podu_1.slice/crio-s1.scope", CreatedAt: time.Unix(0, 4),
		},
		{ID: "s0", Namespace: "shop", Name: "web", UID: "u-1", CreatedAt: time.Unix(0, 3)},
	}
	if diff := cmp.Diff(want, list.Pods); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	first := Container{
		ID: "c1", PodID: "s1", PodUID: "u-1", Namespace: "shop", PodName: "web", Name: "nginx", Attempt: 3, State: Running,
		PID: 12, CgroupPath: "kubepods/podu-1/crio-c1", CreatedAt: time.Unix(0, 5),
		Labels: f.containers[0].GetLabels(), Annotations: f.containers[0].GetAnnotations(),
	}
	if diff := cmp.Diff(first, list.Containers[0]); diff != "" {
		t.Errorf("container (-want +got):\n%s", diff)
	}
	states := []State{Running, Running, Running, Running, Created, Exited, Unknown}
	for i, got := range list.Containers {
		if got.State != states[i] || (i > 0 && (got.PID != 0 || got.CgroupPath != "")) {
			t.Errorf("%+v; want %s, without process and group", got, states[i])
		}
	}
	if len(list.Problems) != 2 || !errors.Is(list.Problems[0], ErrMalformed) || !strings.Contains(list.Problems[1].Error(), "c4") {
		t.Errorf("problems %v", list.Problems)
	}

	f.mu.Lock()
	f.asked, f.containers = nil, f.containers[:2]
	f.mu.Unlock()
	if _, err := c.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"c2"}, f.asked); diff != "" {
		t.Errorf("asked again (-want +got):\n%s", diff)
	}
	f.mu.Lock()
	f.asked, f.pods, f.containers = nil, nil, nil
	f.mu.Unlock()
	if _, err := c.List(t.Context()); err != nil || len(c.known)+len(c.late) != 0 {
		t.Errorf("remembers %v and %v of what is gone, %v", c.known, c.late, err)
	}
}

// TestStatusOfOne has a runtime that says nothing of one pod: the others are listed all the same.
func TestStatusOfOne(t *testing.T) {
	info := func(id string) string {
		return `{"pid":11,"runtimeSpec":{"linux":{"cgroupsPath":"/kubepods/podu-1/` + id + `"}}}`
	}
	for _, c := range []struct {
		name  string
		of    error // nil: it hangs
		class error
	}{
		{"a shim that hangs", nil, ErrAway},
		{"a shim that the runtime gave up", status.Error(codes.DeadlineExceeded, "failed to get task status"), ErrAway},
		{"a shim that is gone", status.Error(codes.Unknown, "ttrpc: closed"), ErrAnswer},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{info: map[string]string{}, statuses: map[string]error{}}
			for _, id := range []string{"s1", "s2", "s3"} {
				f.pods = append(f.pods, &runtime.PodSandbox{Id: id})
				f.info[id] = info(id)
			}
			f.containers = append(f.containers, container("c1", "nginx", runtime.ContainerState_CONTAINER_RUNNING))
			f.info["c1"] = info("c1")
			if c.of == nil {
				f.hangs = "s2"
			} else {
				f.statuses["s2"] = c.of
			}
			client := serve(t, f)
			client.late["s2"] = true // a first question takes longer
			list, err := client.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, p := range list.Pods {
				paths = append(paths, p.CgroupPath)
			}
			paths = append(paths, list.Containers[0].CgroupPath)
			if diff := cmp.Diff([]string{"kubepods/podu-1/s1", "", "kubepods/podu-1/s3", "kubepods/podu-1/c1"}, paths); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			if len(list.Problems) != 1 || !errors.Is(list.Problems[0], c.class) || !strings.Contains(list.Problems[0].Error(), "status of s2") {
				t.Errorf("problems %v, want one of s2: %v", list.Problems, c.class)
			}
		})
	}
}

// TestStatusIsGivenTime has a runtime that is slow with the status of one container: the first question may take as long
// as any other, those after a failure must not keep each list waiting.
func TestStatusIsGivenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{groups: paths{}, known: map[string]place{}, late: map[string]bool{}}
		const info = `{"pid":11,"runtimeSpec":{"linux":{"cgroupsPath":"/kubepods/podu-1/c1"}}}`
		const never = time.Hour
		for i, step := range []struct {
			takes, waits time.Duration
			path         string
		}{
			{never, requestLimit, ""},
			{never, time.Second, ""},
			{900 * time.Millisecond, 900 * time.Millisecond, "kubepods/podu-1/c1"},
			{never, 0, "kubepods/podu-1/c1"}, // it is known
			{never, requestLimit, ""},        // another one after it was gone
			{never, time.Second, ""},
			{never, requestLimit, ""},
			{4 * time.Second, time.Second, ""},
			{4 * time.Second, 4 * time.Second, "kubepods/podu-1/c1"},
		} {
			if i == 4 || i == 6 || i == 8 {
				c.keep(map[string]bool{"c2": true})
			}
			began := time.Now()
			at, err := c.place(t.Context(), "c1", func(ctx context.Context, _ string) (string, error) {
				select {
				case <-time.After(step.takes):
					return info, nil
				case <-ctx.Done():
					return "", status.FromContextError(ctx.Err()).Err()
				}
			})
			if waited := time.Since(began); waited != step.waits || at.path != step.path || (err != nil) != (step.path == "") {
				t.Errorf("question %d waited for %s: %+v, %v; want %s, %q", i, waited, at, err, step.waits, step.path)
			}
			if err != nil && !errors.Is(err, ErrAway) {
				t.Errorf("question %d: %v", i, err)
			}
		}
	})
}

// TestAwayMeanwhile has a runtime that goes away while it is asked: there is no listing.
func TestAwayMeanwhile(t *testing.T) {
	f := &fake{
		pods:     []*runtime.PodSandbox{{Id: "s1"}},
		statuses: map[string]error{"s1": status.Error(codes.Unavailable, "shutting down")},
	}
	if list, err := serve(t, f).List(t.Context()); !errors.Is(err, ErrAway) || len(list.Pods) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestErrors(t *testing.T) {
	f := &fake{refusal: status.Error(codes.Internal, "no")}
	c := serve(t, f)
	if _, err := c.List(t.Context()); !errors.Is(err, ErrAnswer) {
		t.Errorf("refused: %v", err)
	}
	f.refusal = nil
	f.containers = []*runtime.Container{{Id: strings.Repeat("x", messageLimit)}}
	if _, err := c.List(t.Context()); !errors.Is(err, ErrAnswer) {
		t.Errorf("too large: %v", err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := c.Runtime(late); !errors.Is(err, ErrAway) {
		t.Errorf("too late: %v", err)
	}
	absent, err := Open(filepath.Join(t.TempDir(), "cri.sock"), paths{})
	if err != nil {
		t.Fatal(err)
	}
	defer absent.Close()
	if _, err := absent.List(t.Context()); !errors.Is(err, ErrAway) {
		t.Errorf("no runtime there: %v", err)
	}
	for _, endpoint := range []string{"", "unix://", "run/cri.sock", "tcp://127.0.0.1:1", "http://x", "unix:///run/a?b"} {
		if _, err := Open(endpoint, paths{}); !errors.Is(err, ErrEndpoint) {
			t.Errorf("%q: %v; want ErrEndpoint", endpoint, err)
		}
	}
}

// follow runs Follow, and hands out the number of each listing and of its containers.
func follow(t *testing.T, c *Client, every time.Duration) <-chan int {
	t.Helper()
	seen := make(chan int, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- c.Follow(ctx, every, func(l Listing, err error) {
			if err != nil {
				t.Error(err)
			}
			seen <- len(l.Containers)
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return seen
}

func next(t *testing.T, seen <-chan int) int {
	t.Helper()
	select {
	case n := <-seen:
		return n
	case <-time.After(20 * time.Second):
		t.Fatal("no listing")
		return 0
	}
}

func TestFollow(t *testing.T) {
	f := &fake{events: make(chan struct{})}
	seen := follow(t, serve(t, f), time.Hour)
	if n := next(t, seen); n != 0 {
		t.Errorf("at first %d containers", n)
	}
	f.mu.Lock()
	f.containers = []*runtime.Container{container("c5", "made", runtime.ContainerState_CONTAINER_CREATED)}
	f.mu.Unlock()
	f.events <- struct{}{}
	if n := next(t, seen); n != 1 {
		t.Errorf("after the event %d containers", n)
	}
	close(f.events) // the stream ends, and what came meanwhile is not reported
	if n := next(t, seen); n != 1 {
		t.Errorf("after the stream %d containers", n)
	}
}

func TestFollowWithoutEvents(t *testing.T) {
	seen := follow(t, serve(t, &fake{}), 5*time.Millisecond)
	for range 3 {
		next(t, seen)
	}
}
