package nri

import (
	"github.com/containerd/nri/pkg/api"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// pod converts a pod of NRI.
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

// container converts a container of NRI.
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

// group returns the path of a group, "" if the runtime did not name one.
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

// resources converts resources of NRI. Lists that cannot be parsed are treated as not set.
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
