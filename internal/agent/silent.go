package agent

import (
	"path"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/node/nri"
)

// A runtime may list a container as running and report its group late, or never. The journal names the groups that an
// earlier agent wrote. Without its group nothing would be desired for the container: its original list would be
// restored, and its CPUs would go to the next pod.

// recallGroups completes a list with groups that the runtime does not report and the journal names. The group of a pod
// is also the group above its containers.
func recallGroups(list *nri.Event, j *journal.Journal) {
	recall := recalling(j)
	parents := map[string]string{} // by sandbox: a runtime makes all containers of a pod in one group
	for i := range list.Containers {
		c := &list.Containers[i]
		if c.CgroupPath == "" {
			c.CgroupPath = recall(c.ID)
		}
		if c.CgroupPath != "" {
			parents[c.PodID] = above(c.CgroupPath)
		}
	}
	for i := range list.Pods {
		p := &list.Pods[i]
		if p.CgroupPath == "" {
			p.CgroupPath = recall(p.ID)
		}
		if p.CgroupParent == "" {
			p.CgroupParent = parents[p.ID]
		}
		if p.CgroupParent == "" {
			p.CgroupParent = above(p.CgroupPath)
		}
	}
}

// recalling returns a function that finds the group of a container in the journal by its ID, "" for none. The function
// reads the journal once, at its first call.
func recalling(j *journal.Journal) func(id string) string {
	var groups []string
	read := false
	return func(id string) string {
		if !read {
			read = true
			for _, e := range j.Select(func(e journal.Entry) bool { return cgroupfile.IsGroup(e.Target) }) {
				groups = append(groups, e.Target.Object)
			}
		}
		if at := slices.IndexFunc(groups, func(group string) bool { return isNamedBy(group, id) }); at >= 0 {
			return groups[at]
		}
		return ""
	}
}

// isNamedBy reports whether the group has the name that a runtime gives the container with this ID. The name is the ID,
// after a prefix or alone, with ".scope" where systemd makes the group.
func isNamedBy(group, id string) bool {
	name := strings.TrimSuffix(path.Base(group), ".scope")
	return id != "" && (name == id || strings.HasSuffix(name, "-"+id))
}

// above returns the parent group, "" if that is the root or group is empty.
func above(group string) string {
	if dir := path.Dir(group); dir != "." {
		return dir
	}
	return ""
}
