package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The labels that the kubelet gives to every container.
const (
	labelPodName      = "io.kubernetes.pod.name"
	labelPodNamespace = "io.kubernetes.pod.namespace"
	labelPodUID       = "io.kubernetes.pod.uid"
)

// infoKey is the entry of verbose information that containerd and CRI-O fill.
const infoKey = "info"

// State is the state of a container.
type State uint8

// The states of a container, as CRI has them.
const (
	Unknown State = iota
	Created
	Running
	Exited
)

// String returns the name of the state, as in the constant.
func (s State) String() string {
	return [...]string{"Unknown", "Created", "Running", "Exited"}[min(s, Exited)]
}

// Container is one container of a pod.
type Container struct {
	// ID is the runtime's, and PodID that of the pod's sandbox.
	ID, PodID string
	// PodUID, Namespace and PodName are the pod's, Name is the container's.
	PodUID, Namespace, PodName, Name string
	// Attempt counts the containers of that name that the kubelet made before,
	// as it sees it.
	Attempt uint32
	State   State
	// PID is the first process and CgroupPath the group, relative to each
	// hierarchy's root. They are known of Running ones only, else 0 and "".
	PID        int
	CgroupPath string
	CreatedAt  time.Time
	// Labels and Annotations are those of the container. They are shared: not
	// to be changed.
	Labels, Annotations map[string]string
}

// Pod is a pod's sandbox.
type Pod struct {
	// ID is the sandbox's.
	ID, Namespace, Name, UID string
	Attempt                  uint32
	// Ready says whether the sandbox runs.
	Ready bool
	// RuntimeHandler is the handler of the pod's runtime class; "" is the
	// runtime's default.
	RuntimeHandler string
	// PID is the first process and CgroupPath the group of the sandbox's own
	// (pause) container. They are known of Ready ones only, else 0 and "".
	PID        int
	CgroupPath string
	CreatedAt  time.Time
	// Labels and Annotations are those of the pod. They are shared: not to be
	// changed.
	Labels, Annotations map[string]string
}

// Listing is all that a runtime has of Kubernetes.
type Listing struct {
	Pods       []Pod
	Containers []Container
	// Problems say of which Ready and Running ones the group is not known
	// because the runtime's information is not understood (ErrMalformed).
	Problems []error
}

// List asks for all pods and containers, ended ones included. One that goes
// away meanwhile is without PID and group. The errors are ErrAway and
// ErrAnswer.
func (c *Client) List(ctx context.Context) (Listing, error) {
	sandboxes, err := c.sandboxes(ctx)
	if err != nil {
		return Listing{}, err
	}
	containers, err := c.containers(ctx)
	if err != nil {
		return Listing{}, err
	}
	var list Listing
	present := map[string]bool{}
	for _, from := range sandboxes {
		pod := podOf(from)
		present[pod.ID] = true
		if pod.Ready {
			at, err := c.place(ctx, pod.ID, c.askSandbox)
			if err := list.problem(err); err != nil {
				return Listing{}, err
			}
			pod.PID, pod.CgroupPath = at.pid, at.path
		}
		list.Pods = append(list.Pods, pod)
	}
	for _, from := range containers {
		container := containerOf(from)
		present[container.ID] = true
		if container.State == Running {
			at, err := c.place(ctx, container.ID, c.askContainer)
			if err := list.problem(err); err != nil {
				return Listing{}, err
			}
			container.PID, container.CgroupPath = at.pid, at.path
		}
		list.Containers = append(list.Containers, container)
	}
	c.keep(present)
	return list, nil
}

// problem keeps an error that concerns one of many, and returns any other.
func (l *Listing) problem(err error) error {
	if errors.Is(err, ErrMalformed) {
		l.Problems = append(l.Problems, err)
		return nil
	}
	return err
}

func (c *Client) sandboxes(ctx context.Context) ([]*runtime.PodSandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	answer, err := c.service.ListPodSandbox(ctx, &runtime.ListPodSandboxRequest{})
	if err != nil {
		return nil, failed("list pods", err)
	}
	return answer.GetItems(), nil
}

func (c *Client) containers(ctx context.Context) ([]*runtime.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	answer, err := c.service.ListContainers(ctx, &runtime.ListContainersRequest{})
	if err != nil {
		return nil, failed("list containers", err)
	}
	return answer.GetContainers(), nil
}

func podOf(from *runtime.PodSandbox) Pod {
	meta := from.GetMetadata()
	return Pod{
		ID: from.GetId(), Namespace: meta.GetNamespace(), Name: meta.GetName(), UID: meta.GetUid(), Attempt: meta.GetAttempt(),
		Ready:          from.GetState() == runtime.PodSandboxState_SANDBOX_READY,
		RuntimeHandler: from.GetRuntimeHandler(),
		CreatedAt:      time.Unix(0, from.GetCreatedAt()),
		Labels:         from.GetLabels(),
		Annotations:    from.GetAnnotations(),
	}
}

func containerOf(from *runtime.Container) Container {
	states := map[runtime.ContainerState]State{
		runtime.ContainerState_CONTAINER_CREATED: Created,
		runtime.ContainerState_CONTAINER_RUNNING: Running,
		runtime.ContainerState_CONTAINER_EXITED:  Exited,
	}
	labels := from.GetLabels()
	return Container{
		ID: from.GetId(), PodID: from.GetPodSandboxId(),
		PodUID: labels[labelPodUID], Namespace: labels[labelPodNamespace], PodName: labels[labelPodName],
		Name: from.GetMetadata().GetName(), Attempt: from.GetMetadata().GetAttempt(),
		State:       states[from.GetState()],
		CreatedAt:   time.Unix(0, from.GetCreatedAt()),
		Labels:      labels,
		Annotations: from.GetAnnotations(),
	}
}

// place returns where something runs, asked once.
func (c *Client) place(ctx context.Context, id string, ask func(context.Context, string) (string, error)) (place, error) {
	c.mu.Lock()
	at, ok := c.known[id]
	c.mu.Unlock()
	if ok {
		return at, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	info, err := ask(ctx, id)
	if status.Code(err) == codes.NotFound {
		return place{}, nil
	}
	if err != nil {
		return place{}, failed("status of "+id, err)
	}
	at, err = c.read(info)
	if err != nil {
		return place{}, fmt.Errorf("container runtime: status of %s: %w", id, err)
	}
	if at.pid > 0 && at.path != "" {
		c.mu.Lock()
		c.known[id] = at
		c.mu.Unlock()
	}
	return at, nil
}

func (c *Client) askContainer(ctx context.Context, id string) (string, error) {
	answer, err := c.service.ContainerStatus(ctx, &runtime.ContainerStatusRequest{ContainerId: id, Verbose: true})
	return answer.GetInfo()[infoKey], err //nolint:wrapcheck // place does
}

func (c *Client) askSandbox(ctx context.Context, id string) (string, error) {
	answer, err := c.service.PodSandboxStatus(ctx, &runtime.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	return answer.GetInfo()[infoKey], err //nolint:wrapcheck // place does
}

// read finds process and group in verbose information, of which CRI says only
// that it is text.
func (c *Client) read(info string) (place, error) {
	var f struct {
		PID  int `json:"pid"`
		Spec struct {
			Linux struct {
				CgroupsPath string `json:"cgroupsPath"`
			} `json:"linux"`
		} `json:"runtimeSpec"`
	}
	if err := json.Unmarshal([]byte(info), &f); err != nil {
		return place{}, fmt.Errorf("%w: info: %w", ErrMalformed, err)
	}
	if f.Spec.Linux.CgroupsPath == "" {
		return place{}, fmt.Errorf("%w: info without runtimeSpec.linux.cgroupsPath", ErrMalformed)
	}
	path, err := c.groups.RuntimeGroup(f.Spec.Linux.CgroupsPath, f.PID)
	if err != nil {
		return place{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return place{pid: f.PID, path: path}, nil
}

// keep forgets what is not there any more.
func (c *Client) keep(present map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.known {
		if !present[id] {
			delete(c.known, id)
		}
	}
}
