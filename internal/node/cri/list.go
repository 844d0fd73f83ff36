package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The labels that the kubelet sets on every container.
const (
	labelPodName      = "io.kubernetes.pod.name"
	labelPodNamespace = "io.kubernetes.pod.namespace"
	labelPodUID       = "io.kubernetes.pod.uid"
)

// infoKey is the entry of verbose information that containerd and CRI-O fill.
const infoKey = "info"

// State is the state of a container.
type State uint8

// The states of a container in CRI.
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

// Container is a container of a pod.
type Container struct {
	// ID is the runtime's ID of the container, and PodID that of the pod's sandbox.
	ID, PodID string
	// PodUID, Namespace and PodName belong to the pod, Name to the container.
	PodUID, Namespace, PodName, Name string
	// Attempt is the kubelet's count of earlier containers of that name.
	Attempt uint32
	State   State
	// PID is the first process and CgroupPath the group, relative to each hierarchy's root. They are known only for
	// Running containers, else 0 and "".
	PID        int
	CgroupPath string
	CreatedAt  time.Time
	// Labels and Annotations are those of the container. They are shared: do not change them.
	Labels, Annotations map[string]string
}

// Pod is a pod's sandbox.
type Pod struct {
	// ID is the ID of the sandbox.
	ID, Namespace, Name, UID string
	Attempt                  uint32
	// Ready reports whether the sandbox runs.
	Ready bool
	// RuntimeHandler is the handler of the pod's runtime class; "" is the runtime's default.
	RuntimeHandler string
	// PID is the first process and CgroupPath the group of the sandbox's own (pause) container. They are known only for
	// Ready sandboxes, else 0 and "".
	PID        int
	CgroupPath string
	CreatedAt  time.Time
	// Labels and Annotations are those of the pod. They are shared: do not change them.
	Labels, Annotations map[string]string
}

// Listing contains all pods and containers of a runtime.
type Listing struct {
	Pods       []Pod
	Containers []Container
	// Problems has an error for each Ready sandbox or Running container without a known process and group. The runtime
	// did not answer for it (ErrAway, ErrAnswer), for example because its shim hangs, or the answer was ErrMalformed.
	Problems []error
}

// List requests all pods and containers, including ended ones. An object that disappears during the list has no PID and
// no group. The errors are ErrAway and ErrAnswer.
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
	var asked []question
	for _, from := range sandboxes {
		pod := podOf(from)
		present[pod.ID] = true
		if pod.Ready {
			asked = append(asked, question{id: pod.ID, ask: c.askSandbox})
		}
		list.Pods = append(list.Pods, pod)
	}
	for _, from := range containers {
		container := containerOf(from)
		present[container.ID] = true
		if container.State == Running {
			asked = append(asked, question{id: container.ID, ask: c.askContainer})
		}
		list.Containers = append(list.Containers, container)
	}
	if err := c.places(ctx, asked); err != nil {
		return Listing{}, err
	}
	list.take(asked)
	c.keep(present)
	return list, nil
}

// take copies the results of the questions, which are in the order of the list, into l.
func (l *Listing) take(asked []question) {
	next := func() place {
		q := asked[0]
		asked = asked[1:]
		if q.problem != nil {
			l.Problems = append(l.Problems, q.problem)
		}
		return q.at
	}
	for i := range l.Pods {
		if pod := &l.Pods[i]; pod.Ready {
			at := next()
			pod.PID, pod.CgroupPath = at.pid, at.path
		}
	}
	for i := range l.Containers {
		if container := &l.Containers[i]; container.State == Running {
			at := next()
			container.PID, container.CgroupPath = at.pid, at.path
		}
	}
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

// question asks where a container runs. If it fails, the other containers are not affected.
type question struct {
	id      string
	ask     func(context.Context, string) (string, error)
	at      place
	problem error
}

// places answers all questions, several in parallel: the runtime asks the shim of each, and a shim that hangs does not
// delay the others. It returns an error if the runtime itself is away or ctx ended.
func (c *Client) places(ctx context.Context, asked []question) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range asked {
		q := &asked[i]
		group.Go(func() (err error) {
			q.at, err = c.place(ctx, q.id, q.ask)
			if err == nil || ctx.Err() != nil || status.Code(err) == codes.Unavailable {
				return err
			}
			q.problem = err
			return nil
		})
	}
	return group.Wait() //nolint:wrapcheck // place says of what
}

// place returns where a container runs. It asks the runtime until there is an answer, which it remembers.
func (c *Client) place(ctx context.Context, id string, ask func(context.Context, string) (string, error)) (place, error) {
	at, ok, limit := c.recall(id)
	if ok {
		return at, nil
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	info, err := ask(within, id)
	if status.Code(err) == codes.NotFound {
		return place{}, nil
	}
	if err != nil {
		c.mu.Lock()
		if ctx.Err() == nil { // else the list ended before
			c.late[id] = true
		}
		c.mu.Unlock()
		return place{}, failed("status of "+id, err)
	}
	at, err = c.read(info)
	if err != nil {
		return place{}, fmt.Errorf("container runtime: status of %s: %w", id, err)
	}
	if at.pid > 0 && at.path != "" {
		c.mu.Lock()
		c.known[id] = at
		delete(c.late, id)
		c.mu.Unlock()
	}
	return at, nil
}

// recall returns where a container runs if that is known, and the timeout for a request.
func (c *Client) recall(id string) (at place, known bool, limit time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, known = c.known[id]
	if c.late[id] {
		return at, known, lateLimit
	}
	return at, known, statusLimit
}

func (c *Client) askContainer(ctx context.Context, id string) (string, error) {
	answer, err := c.service.ContainerStatus(ctx, &runtime.ContainerStatusRequest{ContainerId: id, Verbose: true})
	return answer.GetInfo()[infoKey], err //nolint:wrapcheck // place does
}

func (c *Client) askSandbox(ctx context.Context, id string) (string, error) {
	answer, err := c.service.PodSandboxStatus(ctx, &runtime.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	return answer.GetInfo()[infoKey], err //nolint:wrapcheck // place does
}

// read parses process and group from verbose information, which CRI defines only as text.
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

// keep forgets objects that are gone.
func (c *Client) keep(present map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone := func(id string) bool { return !present[id] }
	maps.DeleteFunc(c.known, func(id string, _ place) bool { return gone(id) })
	maps.DeleteFunc(c.late, func(id string, _ bool) bool { return gone(id) })
}
