// Package self is the group and the threads of this process, the agent.
//
// In a sealed hierarchy the kernel lets no process in the group write its limits. The
// container runtime, which could, is only asked when containers come, and could not be asked
// to put them back. The agent shrinks to the shared pool all the same, like any other
// container: by the affinity of its own threads, which ends with it and so needs no
// journal.
package self

import (
	"fmt"
	"os"
	"slices"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/kernel"
)

// Self is the group that the agent itself runs in. It is not safe for concurrent use.
type Self struct {
	// Host has the groups. Sealed says that the agent's own one cannot be written.
	Host   *cgroup.Host
	Sealed bool
	// CPUs are those that the group should have, empty for all.
	CPUs cpuset.Set

	group    string          // "" until it is found
	others   map[string]bool // groups that are not it
	confined bool            // the threads were moved off some CPUs
}

// Is says whether a group is the agent's own and cannot be written.
func (s *Self) Is(path string) bool {
	if !s.Sealed || s.group != "" || s.others[path] {
		return s.group != "" && s.group == path
	}
	in, err := runsIn(s.Host, path)
	switch {
	case err != nil:
		return false // it is asked again
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

// mostOthers bounds what is remembered where the runtime never reports the agent's
// own group.
const mostOthers = 1024

// runsIn says whether this process is in a group itself: the kernel lets it write the
// groups above. Processes of other containers have no id here.
func runsIn(host *cgroup.Host, path string) (bool, error) {
	group, err := host.Group(path)
	if err != nil {
		return false, fmt.Errorf("look for the agent's own group: %w", err)
	}
	defer group.Close()
	pids, err := group.OwnProcs()
	if err != nil {
		return false, fmt.Errorf("look for the agent's own group: %w", err)
	}
	return slices.Contains(pids, os.Getpid()), nil
}

// Shrink has the agent's threads leave all CPUs but s.CPUs, or come back to those online.
// Kernels before 6.2 forget a thread's affinity whenever the CPUs of a group above
// change, so it is called again and again.
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
