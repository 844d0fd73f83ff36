package agent

import (
	"fmt"
	"os"
	"slices"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/nri"
)

// self is the group that the agent itself runs in, where the kernel lets no process
// in it write its limits. The runtime, which could, is only asked when containers come,
// and could not be asked to put it back. The agent shrinks to the shared pool all the same,
// like any other container: by the affinity of its own threads, which ends with it and so
// needs no journal.
type self struct {
	sealed bool
	group  string          // "" until it is found
	others map[string]bool // groups that are not it
	// wants is what the group should have, empty for all CPUs; confined says that
	// the threads were moved off some.
	wants    cpuset.Set
	confined bool
}

// isSelf says whether a group is the agent's own and cannot be written.
func (c *controller) isSelf(path string) bool {
	s := &c.self
	if !s.sealed || s.group != "" || s.others[path] {
		return s.group != "" && s.group == path
	}
	in, err := runsIn(c.host, path)
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

// makeRoom has the agent's threads leave CPUs that others are given, or come back.
// Kernels before 6.2 forget a thread's affinity whenever the CPUs of a group above
// change, so it is looked at each time.
func (c *controller) makeRoom(wants cpuset.Set) error {
	s := &c.self
	s.wants = wants
	if !wants.IsEmpty() {
		s.confined = true // some threads may have left although not all did
		return kernel.Confine(wants)
	}
	if !s.confined {
		return nil
	}
	if err := kernel.Confine(c.node.online); err != nil {
		return err // the next pass tries again
	}
	s.confined = false
	return nil
}

// takeSelf takes what concerns the agent's own group out of what the runtime is
// about to write, and does it here.
func (c *controller) takeSelf(a *inventory.Answer) error {
	at := slices.IndexFunc(a.Changes, func(w inventory.Desired) bool { return c.isSelf(w.Group) })
	if at < 0 {
		return nil
	}
	own := a.Changes[at]
	a.Changes = slices.Delete(a.Changes, at, at+1)
	a.Reply.Updates = slices.DeleteFunc(a.Reply.Updates, func(u nri.Change) bool { return u.ContainerID == own.ContainerID })
	return c.makeRoom(own.CPUs)
}
