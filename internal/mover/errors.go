package mover

import (
	"errors"

	"github.com/berth-project/berth/internal/pages"
)

// ErrCanceled says that an order was ended by Cancel, or that the mover was.
var ErrCanceled = errors.New("pass was canceled")

// ErrNoRoom says that the local nodes have no room for what is elsewhere.
var ErrNoRoom = errors.New("no room on the local nodes")

// ErrRights says that this program may not look at the processes, or move their pages.
var ErrRights = pages.ErrRights

// ErrMems says that the cpuset.mems of a process lacks the target. Like a missing right it is
// an fs.ErrPermission, because the kernel says EACCES.
var ErrMems = pages.ErrMems

// ErrOwnMems says that this program may not use memory of a target.
var ErrOwnMems = errors.New("cpuset.mems of this program lacks the node")

// ErrRealTime says that a call to move pages might never end.
var ErrRealTime = pages.ErrRealTime

// ErrUnseen says that processes of the group have no id here, because this program is in a
// pid namespace of its own.
var ErrUnseen = errors.New("processes have no id in this pid namespace")

// ErrStuck says that processes of the group do not answer.
var ErrStuck = pages.ErrStuck
