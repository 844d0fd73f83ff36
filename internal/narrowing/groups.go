package narrowing

import (
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/locality"
	"github.com/berth-project/berth/internal/mover"
)

// groups are those of the running host.
type groups struct {
	mover.Groups

	host *cgroup.Host
}

// Nodes is Groups.
func (g groups) Nodes(path string) (cpuset.Set, error) {
	group, err := g.host.Group(path, cgroup.CPUSet)
	if err != nil {
		return cpuset.Set{}, err
	}
	defer group.Close()
	return group.EffectiveMems()
}

// Memory is Groups.
func (g groups) Memory(path string) (now locality.Memory, unused int64, err error) {
	group, err := g.host.Group(path)
	if err != nil {
		return locality.Memory{}, 0, err
	}
	defer group.Close()
	memory, err := group.Memory()
	if err != nil {
		return locality.Memory{}, 0, err
	}
	defer memory.Close()
	by, err := memory.ByNode()
	if err != nil {
		return locality.Memory{}, 0, err
	}
	now = locality.Memory{Movable: by.Movable, File: by.File}
	limit, limited, err := memory.Limit()
	if err != nil || !limited {
		return now, 0, err
	}
	current, err := memory.Current()
	return now, max(limit-current, 0), err
}
