package inventory

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/place"
)

// A runtime may leave a container out that runs. containerd does at its start, where a shim gives no answer: the state of
// the container is UNKNOWN then, its processes are left alone (internal/cri/server/restart.go), and its list for NRI has
// neither such containers nor such sandboxes (internal/cri/nri/nri_api_linux.go). So what ran stays until no process is
// in its group: its CPUs are still in use, and its list keeps it off those of others.

// keepUnlisted keeps those that ran before and are not listed now while processes are in their groups, and returns them.
// A group of one that is listed is no longer theirs.
func (cs *containers) keepUnlisted(byID map[string]*container, sandboxes map[string]nri.Pod) []place.Container {
	var all []place.Container
	listed := map[string]bool{"": true}
	for _, c := range cs.byID {
		listed[c.group] = true
	}
	for id, c := range byID {
		if cs.byID[id] != nil || listed[c.group] || c.Phase != place.Running || !cs.host.HasProcesses(c.group) {
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

// keepSandbox keeps one that is not listed.
func (cs *containers) keepSandbox(id string, p nri.Pod) {
	if _, listed := cs.sandboxes[id]; !listed {
		cs.sandboxes[id] = p
		cs.unlisted[id] = true
	}
}

// isUnlisted says that a container runs although the runtime did not list it last.
func (cs *containers) isUnlisted(id string) bool {
	c := cs.byID[id]
	return c != nil && c.unlisted
}

// outlives says that the end of a container is not to be believed: the runtime did not list it, and it has processes.
func (cs *containers) outlives(id string) bool {
	return cs.isUnlisted(id) && cs.host.HasProcesses(cs.byID[id].group)
}

// outliving returns the containers that run on without their pod's last sandbox.
func (cs *containers) outliving(uid string) []*container {
	return slices.DeleteFunc(slices.Collect(maps.Values(cs.byID)), func(c *container) bool {
		return c.PodUID != uid || c.Sandbox || !cs.outlives(c.ID)
	})
}

// Unlisted returns the groups of containers that run although the runtime did not list them last, sorted.
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

// forgetEnded forgets what the runtime does not list once no process is in its group: nothing reports its end. A sandbox
// stays for as long as a container of its pod.
func forgetEnded(inv *Inventory) {
	cs := &inv.containers
	runs := map[string]bool{}
	for id, c := range cs.byID {
		switch {
		case !c.unlisted:
			runs[c.PodUID] = runs[c.PodUID] || c.Phase == place.Running
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
