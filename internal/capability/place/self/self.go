// Package self has the group and the threads of this process, the agent.
//
// In a sealed hierarchy the kernel lets no process in the group write its limits. The container runtime could write
// them, but Berth can ask it only when containers start, and could not ask it to restore them. The agent shrinks to the
// shared pool all the same, like any other container: by the affinity of its own threads. The affinity ends with the
// agent and so needs no journal.
package self

import (
	"fmt"
	"os"
	"slices"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Self is the group that the agent itself runs in. It is not safe for concurrent use.
type Self struct {
	// Host has the groups. Sealed says that the agent's own group cannot be written.
	Host   *cgroup.Host
	Sealed bool
	// CPUs has the CPUs that the group should have, empty for all.
	CPUs cpuset.Set

	group    string          // "" until it is found
	others   map[string]bool // groups that are not the agent's
	confined bool            // the threads were moved off some CPUs
}

// Is reports whether a group is the agent's own and cannot be written.
func (s *Self) Is(path string) bool {
	if !s.Sealed || s.group != "" || s.others[path] {
		return s.group != "" && s.group == path
	}
	in, err := runsIn(s.Host, path)
	switch {
	case err != nil:
		return false // the next call tries again
	case in:
		s.group, s.others = path, nil
		return true
	}
	if s.others == nil || len(s.others) >= mostOthers {
		s.others = map[string]bool{}
	}
	s.others[path] = true
	return false
}

// mostOthers bounds how many groups are remembered if the runtime never reports the agent's own group.
const mostOthers = 1024

// runsIn reports whether this process is in the group itself: the kernel lets it write the groups above. Processes of
// other containers have no id here.
func runsIn(host *cgroup.Host, path string) (bool, error) {
	pids, err := cgroup.Peek(host, path, (*cgroup.Group).OwnProcs)
	if err != nil {
		return false, fmt.Errorf("look for the agent's own group: %w", err)
	}
	return slices.Contains(pids, os.Getpid()), nil
}

// Shrink moves the agent's threads to s.CPUs, or back to the online CPUs if s.CPUs is empty. Kernels before 6.2 forget
// a thread's affinity whenever the CPUs of a group above change, so the caller repeats the call.
func (s *Self) Shrink(online cpuset.Set) error {
	if !s.CPUs.IsEmpty() {
		s.confined = true // some threads may have left although not all did
		return kernel.Confine(s.CPUs)
	}
	if !s.confined {
		return nil
	}
	if err := kernel.Confine(online); err != nil {
		return err // the next pass tries again
	}
	s.confined = false
	return nil
}
