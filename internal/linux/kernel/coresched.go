package kernel

import (
	"errors"

	"golang.org/x/sys/unix"
)

// CoreScheduling reports whether the kernel can keep threads off the SMT siblings of a core (PR_SCHED_CORE of prctl(2),
// Linux 5.14), and if not, why. It asks for the cookie of the calling thread without a place to write it. A kernel that
// gets as far as that write has the feature (sched_core_share_pid in kernel/sched/core_sched.c). The call changes
// nothing.
func CoreScheduling() (Support, string) {
	return coreScheduling(unix.Prctl(unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_GET, 0, unix.PR_SCHED_CORE_SCOPE_THREAD, 0))
}

func coreScheduling(err error) (Support, string) {
	switch {
	case err == nil, errors.Is(err, unix.EFAULT):
		return Supported, ""
	case errors.Is(err, unix.EINVAL):
		return Unsupported, "not built in"
	case errors.Is(err, unix.ENODEV):
		return Unsupported, "no SMT"
	case errors.Is(err, unix.EPERM):
		return Unknown, "not permitted"
	}
	return Unknown, err.Error()
}
