package nri

import (
	"github.com/containerd/nri/pkg/api"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
)

// pod returns the plain value of a pod.
func (p *Plugin) pod(from *api.PodSandbox) Pod {
	pod := Pod{
		ID: from.GetId(), Namespace: from.GetNamespace(), Name: from.GetName(), UID: from.GetUid(),
		RuntimeHandler: from.GetRuntimeHandler(),
		PID:            int(from.GetPid()),
		Labels:         from.GetLabels(),
		Annotations:    from.GetAnnotations(),
	}
	pod.CgroupPath = p.group(from.GetLinux().GetCgroupsPath(), pod.PID)
	if parent := from.GetLinux().GetCgroupParent(); parent != "" {
		path, err := cgroup.ParentPath(parent)
		if err != nil {
			p.opts.Log.Warn("group of a pod", "pod", pod.Namespace+"/"+pod.Name, "err", err)
		}
		pod.CgroupParent = path
	}
	return pod
}

// container returns the plain value of a container.
func (p *Plugin) container(from *api.Container) Container {
	c := Container{
		ID: from.GetId(), PodID: from.GetPodSandboxId(), Name: from.GetName(),
		State:       state(from.GetState()),
		PID:         int(from.GetPid()),
		Resources:   p.resources(from.GetLinux().GetResources()),
		Labels:      from.GetLabels(),
		Annotations: from.GetAnnotations(),
	}
	c.CgroupPath = p.group(from.GetLinux().GetCgroupsPath(), c.PID)
	return c
}

func state(from api.ContainerState) State {
	switch from {
	case api.ContainerState_CONTAINER_CREATED:
		return Created
	case api.ContainerState_CONTAINER_PAUSED:
		return Paused
	case api.ContainerState_CONTAINER_RUNNING:
		return Running
	case api.ContainerState_CONTAINER_STOPPED:
		return Stopped
	default:
		return Unknown
	}
}

// group returns the path of a group, "" when the runtime did not say one.
func (p *Plugin) group(cgroupsPath string, pid int) string {
	if cgroupsPath == "" {
		return ""
	}
	path, err := p.opts.Groups.RuntimeGroup(cgroupsPath, pid)
	if err != nil {
		p.opts.Log.Warn("group of a container", "err", err)
	}
	return path
}

// resources returns the plain value of resources. Lists that cannot be read
// count as not set.
func (p *Plugin) resources(from *api.LinuxResources) Resources {
	cpu := from.GetCpu()
	return Resources{
		CPUs:   p.set(cpu.GetCpus()),
		Mems:   p.set(cpu.GetMems()),
		Quota:  cpu.GetQuota().GetValue(),
		Period: int64(cpu.GetPeriod().GetValue()),
		Shares: int64(cpu.GetShares().GetValue()),
	}
}

func (p *Plugin) set(list string) cpuset.Set {
	set, err := cpuset.Parse(list)
	if err != nil {
		p.opts.Log.Warn("CPUs or memory nodes of a container", "err", err)
		return cpuset.Set{}
	}
	return set
}
