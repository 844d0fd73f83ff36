package narrowing

import (
	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// groups implements Groups on the running host.
type groups struct {
	mover.Groups

	host *cgroup.Host
}

// Claim implements Groups.
func (g groups) Claim(path string) (locality.Claim, error) { return mover.ClaimOf(g.host, path) }

// Memory implements Groups.
func (g groups) Memory(path string) (locality.Memory, error) {
	group, err := g.host.Group(path)
	if err != nil {
		return locality.Memory{}, err
	}
	defer group.Close()
	memory, err := group.Memory()
	if err != nil {
		return locality.Memory{}, err
	}
	defer memory.Close()
	by, err := memory.ByNode()
	return locality.Memory{Movable: by.Movable, File: by.File}, err
}

// threads implements Options.Threads on the running host. It returns 0 if pages stay: the kernel then examines no
// thread's memory (update_tasks_nodemask in kernel/cgroup/cpuset.c).
func threads(host *cgroup.Host, path string) (int, error) {
	return cgroup.Peek(host, path, func(group *cgroup.Group) (int, error) {
		if cgroup.KeepsPages(group) {
			return 0, nil
		}
		return host.Threads(group)
	}, cgroup.CPUSet)
}
