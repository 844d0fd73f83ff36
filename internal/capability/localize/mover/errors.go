package mover

import (
	"errors"

	"github.com/berth-project/berth/internal/linux/pages"
)

// ErrCanceled means that Cancel ended the order, or that the mover ended.
var ErrCanceled = errors.New("pass was canceled")

// ErrNoRoom means that the local nodes have no room for the remote pages.
var ErrNoRoom = errors.New("no room on the local nodes")

// ErrRights means that this program may not inspect the processes, or move their pages.
var ErrRights = pages.ErrRights

// ErrMems means that the cpuset.mems of a process lacks the target. Like a missing right it is an fs.ErrPermission,
// because the kernel returns EACCES.
var ErrMems = pages.ErrMems

// ErrOwnMems means that this program may not use memory of a target.
var ErrOwnMems = errors.New("cpuset.mems of this program lacks the node")

// ErrRealTime means that a call to move pages might never end.
var ErrRealTime = pages.ErrRealTime

// ErrUnseen means that processes of the group have no id here, because this program is in a pid namespace of its own.
var ErrUnseen = errors.New("processes have no id in this pid namespace")

// ErrStuck means that processes of the group do not answer.
var ErrStuck = pages.ErrStuck
