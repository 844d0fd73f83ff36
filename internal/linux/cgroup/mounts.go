package cgroup

import (
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Hierarchy is one mounted cgroup hierarchy.
type Hierarchy struct {
	// Version is 1 or 2.
	Version int
	// Mount is the mount point, an absolute path on the described host.
	Mount string
	// Root is the path within the hierarchy that is visible at Mount: "/", or a group's own path in a container.
	Root string
	// ReadOnly is true if the mount refuses writes.
	ReadOnly bool
	// Delegates is true if cgroup namespaces are delegation boundaries (nsdelegate).
	Delegates bool
}

// choose returns the best mount of the v1 hierarchy of c, or of the v2 hierarchy for an empty c. It prefers a mount
// that shows the hierarchy from its root, then a writable mount, then the last mount.
func choose(mounts []*mountinfo.Info, c Controller) (best Hierarchy, ok bool) {
	rank := -1
	for _, m := range mounts {
		if !carries(m, c) || hidden(m, mounts) {
			continue
		}
		hier := hierarchyOf(m)
		r := 0
		if hier.Root == "/" {
			r += 2
		}
		if !hier.ReadOnly {
			r++
		}
		if r >= rank {
			best, rank = hier, r
		}
	}
	return best, rank >= 0
}

// carries reports whether m is a mount of the v1 hierarchy of c, or of v2 for an empty c. A v1 hierarchy names its
// controllers in its super options.
func carries(m *mountinfo.Info, c Controller) bool {
	if c == "" {
		return m.FSType == "cgroup2"
	}
	return m.FSType == "cgroup" && slices.Contains(strings.Split(m.VFSOptions, ","), string(c))
}

// hidden reports whether m cannot be reached because another mount covers it. The other mount is on top of m, or covers
// a directory above m or above one of its parent mounts.
func hidden(m *mountinfo.Info, mounts []*mountinfo.Info) bool {
	for _, other := range mounts {
		if other.Parent == m.ID && other.ID != m.ID && other.Mountpoint == m.Mountpoint {
			return true
		}
	}
	for range mounts { // a chain of parents is never longer
		if slices.ContainsFunc(mounts, func(other *mountinfo.Info) bool {
			beside := other.Parent == m.Parent && other.ID != m.ID &&
				other.ID != other.Parent // an initramfs is its own parent, and covers nothing
			return beside && isAbove(other.Mountpoint, m.Mountpoint)
		}) {
			return true
		}
		i := slices.IndexFunc(mounts, func(other *mountinfo.Info) bool { return other.ID == m.Parent })
		if i < 0 || mounts[i] == m {
			return false
		}
		m = mounts[i]
	}
	return false
}

// isAbove reports whether dir is a directory above path.
func isAbove(dir, path string) bool {
	return dir != path && strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func hierarchyOf(m *mountinfo.Info) Hierarchy {
	version := 1
	if m.FSType == "cgroup2" {
		version = 2
	}
	ro := slices.Contains(strings.Split(m.Options, ","), "ro") || slices.Contains(strings.Split(m.VFSOptions, ","), "ro")
	delegates := slices.Contains(strings.Split(m.VFSOptions, ","), "nsdelegate")
	return Hierarchy{Version: version, Mount: m.Mountpoint, Root: m.Root, ReadOnly: ro, Delegates: delegates}
}
