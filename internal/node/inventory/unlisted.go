package inventory

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/observed"
)

// A runtime may omit a running container from its list. containerd does so at its start if a shim does not answer: the
// container's state is then UNKNOWN, and its processes are left alone (internal/node/cri/server/restart.go). Its list for
// NRI has neither such containers nor such sandboxes (internal/node/cri/nri/nri_api_linux.go). So the Inventory remembers a
// container until its group has no processes: its CPUs are in use, and its list keeps it off the CPUs of other
// containers.

// keepUnlisted retains and returns containers that ran before and are not listed now, while their groups have
// processes. The group of a listed container no longer belongs to an unlisted one.
func (cs *Containers) keepUnlisted(byID map[string]*container, sandboxes map[string]nri.Pod) []observed.Container {
	var all []observed.Container
	listed := map[string]bool{"": true}
	for _, c := range cs.byID {
		listed[c.group] = true
	}
	for id, c := range byID {
		if cs.byID[id] != nil || listed[c.group] || c.Phase != observed.Running || !cs.host.HasProcesses(c.group) {
			continue
		}
		c.unlisted = true
		cs.byID[id] = c
		all = append(all, c.Container)
		for box, p := range sandboxes {
			if p.UID == c.PodUID {
				cs.keepSandbox(box, p)
			}
		}
	}
	return all
}

// keepSandbox retains a sandbox that is not listed.
func (cs *Containers) keepSandbox(id string, p nri.Pod) {
	if _, listed := cs.sandboxes[id]; !listed {
		cs.sandboxes[id] = p
		cs.unlisted[id] = true
	}
}

// isUnlisted reports whether a container runs although the last list of the runtime omits it.
func (cs *Containers) isUnlisted(id string) bool {
	c := cs.byID[id]
	return c != nil && c.unlisted
}

// outlives reports whether to ignore the reported end of a container: it is unlisted, and has processes.
func (cs *Containers) outlives(id string) bool {
	return cs.isUnlisted(id) && cs.host.HasProcesses(cs.byID[id].group)
}

// outliving returns the containers that run on without their pod's last sandbox.
func (cs *Containers) outliving(uid string) []*container {
	return slices.DeleteFunc(slices.Collect(maps.Values(cs.byID)), func(c *container) bool {
		return c.PodUID != uid || c.Sandbox || !cs.outlives(c.ID)
	})
}

// Unlisted returns the groups of running containers that the last list of the runtime omits, sorted.
func Unlisted(inv *Inventory) []string {
	var groups []string
	for _, c := range inv.containers.byID {
		if c.unlisted {
			groups = append(groups, c.group)
		}
	}
	slices.Sort(groups)
	return groups
}

// forgetEnded forgets unlisted containers once their groups have no processes: nothing reports their end. A sandbox
// stays as long as a container of its pod.
func forgetEnded(inv *Inventory) {
	cs := &inv.containers
	runs := map[string]bool{}
	for id, c := range cs.byID {
		switch {
		case !c.unlisted:
			runs[c.PodUID] = runs[c.PodUID] || c.Phase == observed.Running
		case cs.host.HasProcesses(c.group):
			runs[c.PodUID] = true
		default:
			inv.running.made = false
			inv.forget(id)
		}
	}
	for id := range cs.unlisted {
		p, is := cs.sandboxes[id]
		switch {
		case !is: // its end was reported
			delete(cs.unlisted, id)
		case !runs[p.UID]:
			delete(cs.unlisted, id)
			inv.running.made = false
			inv.removePod(p)
		}
	}
}
