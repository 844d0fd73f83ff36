package nri

import (
	"context"

	"github.com/containerd/nri/pkg/api"
)

// RunPodSandbox reports that a pod's sandbox runs.
func (s *service) RunPodSandbox(ctx context.Context, r *api.RunPodSandboxRequest) (*api.RunPodSandboxResponse, error) {
	return &api.RunPodSandboxResponse{}, s.notify(ctx, RunPod, r.GetPod(), nil)
}

// StopPodSandbox reports that a pod's sandbox was stopped.
func (s *service) StopPodSandbox(ctx context.Context, r *api.StopPodSandboxRequest) (*api.StopPodSandboxResponse, error) {
	return &api.StopPodSandboxResponse{}, s.notify(ctx, StopPod, r.GetPod(), nil)
}

// RemovePodSandbox reports that a pod's sandbox was removed.
func (s *service) RemovePodSandbox(ctx context.Context, r *api.RemovePodSandboxRequest) (*api.RemovePodSandboxResponse, error) {
	return &api.RemovePodSandboxResponse{}, s.notify(ctx, RemovePod, r.GetPod(), nil)
}

// PostCreateContainer reports that a container was created.
func (s *service) PostCreateContainer(ctx context.Context, r *api.PostCreateContainerRequest) (*api.PostCreateContainerResponse, error) {
	return &api.PostCreateContainerResponse{}, s.notify(ctx, PostCreate, r.GetPod(), r.GetContainer())
}

// StartContainer reports that a container is about to run.
func (s *service) StartContainer(ctx context.Context, r *api.StartContainerRequest) (*api.StartContainerResponse, error) {
	return &api.StartContainerResponse{}, s.notify(ctx, Start, r.GetPod(), r.GetContainer())
}

// PostStartContainer reports that a container runs.
func (s *service) PostStartContainer(ctx context.Context, r *api.PostStartContainerRequest) (*api.PostStartContainerResponse, error) {
	return &api.PostStartContainerResponse{}, s.notify(ctx, PostStart, r.GetPod(), r.GetContainer())
}

// PostUpdateContainer reports that a container was updated.
func (s *service) PostUpdateContainer(ctx context.Context, r *api.PostUpdateContainerRequest) (*api.PostUpdateContainerResponse, error) {
	return &api.PostUpdateContainerResponse{}, s.notify(ctx, PostUpdate, r.GetPod(), r.GetContainer())
}

// RemoveContainer reports that a container was removed.
func (s *service) RemoveContainer(ctx context.Context, r *api.RemoveContainerRequest) (*api.RemoveContainerResponse, error) {
	return &api.RemoveContainerResponse{}, s.notify(ctx, Remove, r.GetPod(), r.GetContainer())
}

// UpdatePodSandbox is not subscribed to.
func (s *service) UpdatePodSandbox(context.Context, *api.UpdatePodSandboxRequest) (*api.UpdatePodSandboxResponse, error) {
	return &api.UpdatePodSandboxResponse{}, nil
}

// PostUpdatePodSandbox is not subscribed to.
func (s *service) PostUpdatePodSandbox(context.Context, *api.PostUpdatePodSandboxRequest) (*api.PostUpdatePodSandboxResponse, error) {
	return &api.PostUpdatePodSandboxResponse{}, nil
}

// StateChange receives, from runtimes with an older NRI, all events without a reply.
func (s *service) StateChange(ctx context.Context, r *api.StateChangeEvent) (*api.Empty, error) {
	kinds := map[api.Event]Kind{
		api.Event_RUN_POD_SANDBOX: RunPod, api.Event_STOP_POD_SANDBOX: StopPod, api.Event_REMOVE_POD_SANDBOX: RemovePod,
		api.Event_POST_CREATE_CONTAINER: PostCreate, api.Event_START_CONTAINER: Start, api.Event_POST_START_CONTAINER: PostStart,
		api.Event_POST_UPDATE_CONTAINER: PostUpdate, api.Event_REMOVE_CONTAINER: Remove,
	}
	kind, ok := kinds[r.GetEvent()]
	if !ok {
		return &api.Empty{}, nil
	}
	return &api.Empty{}, s.notify(ctx, kind, r.GetPod(), r.GetContainer())
}
