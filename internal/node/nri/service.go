package nri

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// service contains the methods that the runtime calls during one connection.
type service struct {
	plugin *Plugin
	alive  context.Context // of the connection
	end    context.CancelCauseFunc

	mu         sync.Mutex
	pods       []Pod // of a Synchronize that comes in parts
	containers []Container
}

func newService(p *Plugin, alive context.Context, end context.CancelCauseFunc) *service { //nolint:revive // the context is kept
	return &service{plugin: p, alive: alive, end: end}
}

// ask passes an event to the handler, and converts its error to an error that the runtime treats as a refusal. After an
// error that looks like a timeout or a lost connection, the runtime would drop the plugin and continue.
func (s *service) ask(ctx context.Context, e Event) (Reply, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.alive, cancel)()
	reply, err := s.plugin.ask(ctx, e)
	if errors.Is(err, ErrOverrun) {
		s.end(err)
		err = s.plugin.late(e)
	}
	switch {
	case err == nil:
		return reply, nil
	case !e.Kind.mayRefuse():
		return Reply{}, nil
	}
	return Reply{}, status.Error(codes.FailedPrecondition, s.plugin.opts.Name+": "+err.Error()) //nolint:wrapcheck // made here
}

// notify passes on an event that has no reply.
func (s *service) notify(ctx context.Context, kind Kind, pod *api.PodSandbox, container *api.Container) error {
	_, err := s.ask(ctx, s.event(kind, pod, container))
	return err
}

func (s *service) event(kind Kind, pod *api.PodSandbox, container *api.Container) Event {
	e := Event{Kind: kind, Pod: s.plugin.pod(pod)}
	if container != nil {
		e.Container = s.plugin.container(container)
	}
	return e
}

// Configure receives the runtime's name and version, and returns the events to send.
func (s *service) Configure(_ context.Context, r *api.ConfigureRequest) (*api.ConfigureResponse, error) {
	speaks := r.GetNRIVersion()
	if speaks == "" || speaks == api.UnknownVersion || speaks == api.DevelVersion {
		speaks, _ = api.InferVersionFromRuntime(r.GetRuntimeName(), r.GetRuntimeVersion())
	}
	if speaks == api.UnknownVersion {
		speaks = ""
	}
	s.plugin.heed(time.Duration(r.GetRequestTimeout()) * time.Millisecond)
	s.plugin.note(func(now *Status) {
		now.State, now.Err = Registering, nil
		now.Runtime, now.RuntimeVersion, now.NRIVersion = r.GetRuntimeName(), r.GetRuntimeVersion(), speaks
	})
	var events api.EventMask
	events.Set(
		api.Event_RUN_POD_SANDBOX, api.Event_STOP_POD_SANDBOX, api.Event_REMOVE_POD_SANDBOX,
		api.Event_CREATE_CONTAINER, api.Event_POST_CREATE_CONTAINER,
		api.Event_START_CONTAINER, api.Event_POST_START_CONTAINER,
		api.Event_UPDATE_CONTAINER, api.Event_POST_UPDATE_CONTAINER,
		api.Event_STOP_CONTAINER, api.Event_REMOVE_CONTAINER,
	)
	if knowsOwners(speaks) {
		events.Set(api.Event_VALIDATE_CONTAINER_ADJUSTMENT)
	}
	return &api.ConfigureResponse{Events: int32(events)}, nil
}

// knowsOwners reports whether a version of NRI, like v0.12.1, can show the owners of the plugins' settings. An older
// version refuses a plugin that requests them.
func knowsOwners(speaks string) bool {
	parts := strings.SplitN(strings.TrimPrefix(speaks, "v"), ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, errMajor := strconv.Atoi(parts[0])
	minor, errMinor := strconv.Atoi(parts[1])
	return errMajor == nil && errMinor == nil && (major > 0 || minor >= 10)
}

// Synchronize receives all pods and containers, in several parts if they do not fit in one message.
func (s *service) Synchronize(ctx context.Context, r *api.SynchronizeRequest) (*api.SynchronizeResponse, error) {
	s.mu.Lock()
	for _, pod := range r.GetPods() {
		s.pods = append(s.pods, s.plugin.pod(pod))
	}
	for _, container := range r.GetContainers() {
		s.containers = append(s.containers, s.plugin.container(container))
	}
	if r.GetMore() {
		s.mu.Unlock()
		return &api.SynchronizeResponse{More: true}, nil
	}
	e := Event{Kind: Synchronize, Pods: s.pods, Containers: s.containers}
	s.pods, s.containers = nil, nil
	s.mu.Unlock()
	reply, err := s.ask(ctx, e)
	if err != nil {
		return nil, err
	}
	s.plugin.note(func(now *Status) { now.State, now.Connections = Connected, now.Connections+1 })
	return &api.SynchronizeResponse{Update: reply.updates()}, nil
}

// Shutdown reports that the runtime ends; the connection ends with it.
func (s *service) Shutdown(context.Context, *api.Empty) (*api.Empty, error) { return &api.Empty{}, nil }

// CreateContainer returns what to change in a new container.
func (s *service) CreateContainer(ctx context.Context, r *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
	reply, err := s.ask(ctx, s.event(Create, r.GetPod(), r.GetContainer()))
	if err != nil {
		return nil, err
	}
	return &api.CreateContainerResponse{Adjust: reply.adjustment(), Update: reply.updates()}, nil
}

// UpdateContainer returns what to change in an update.
func (s *service) UpdateContainer(ctx context.Context, r *api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
	e := s.event(Update, r.GetPod(), r.GetContainer())
	e.Requested = s.plugin.resources(r.GetLinuxResources())
	reply, err := s.ask(ctx, e)
	if err != nil {
		return nil, err
	}
	return &api.UpdateContainerResponse{Update: reply.updates()}, nil
}

// StopContainer reports that a container ends, and returns changes of other containers.
func (s *service) StopContainer(ctx context.Context, r *api.StopContainerRequest) (*api.StopContainerResponse, error) {
	reply, err := s.ask(ctx, s.event(Stop, r.GetPod(), r.GetContainer()))
	if err != nil {
		return nil, err
	}
	return &api.StopContainerResponse{Update: reply.updates()}, nil
}
