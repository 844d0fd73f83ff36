package localize

import (
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/locality"
	"github.com/berth-project/berth/internal/mover"
	"github.com/berth-project/berth/internal/topology"
)

// host is the machine as localize sees it.
type host struct {
	nodes locality.Nodes
	// online are the CPUs that were online when the nodes were read.
	online cpuset.Set
}

// read reads the NUMA nodes again when other CPUs are online. A machine that cannot be read
// has none, so that no node is a target.
func (h *host) read(root *hostfs.Root, online cpuset.Set) {
	if h.online == online {
		return
	}
	h.online, h.nodes = online, nil
	if t, err := topology.Discover(root.FS()); err == nil {
		h.nodes, _ = mover.Nodes(root, t) // without tiers there is no knowing what may move where
	}
}

// balancing says whether the kernel itself moves pages to where they are used.
func balancing(root *hostfs.Root) bool {
	text, err := root.ReadFile("proc/sys/kernel/numa_balancing")
	return err == nil && strings.TrimSpace(string(text)) != "" && strings.TrimSpace(string(text)) != "0"
}

// Unused is how much memory, by node, the groups that are bound to some nodes may still take
// by their limits. It is read when a pass begins.
func Unused(host *cgroup.Host, all []capability.Container, nodes locality.Nodes) locality.Bytes {
	var left locality.Bytes
	for i := range all {
		if c := &all[i]; c.Bound && c.MemoryLimit > 0 {
			mems, current := usedBy(host, c.Group)
			if mems.IsEmpty() || mems.Size() >= len(nodes) {
				continue
			}
			share := max(c.MemoryLimit-current, 0) / int64(mems.Size())
			for node := range mems.All() {
				left = append(left, slices.Repeat(locality.Bytes{0}, max(node+1-len(left), 0))...)
				left[node] += share
			}
		}
	}
	return left
}

// usedBy returns the memory nodes of a group and how much it uses, none where that cannot be
// read.
func usedBy(host *cgroup.Host, path string) (mems cpuset.Set, current int64) {
	g, err := host.Group(path)
	if err != nil {
		return cpuset.Set{}, 0
	}
	defer g.Close()
	m, err := g.Memory()
	if err != nil {
		return cpuset.Set{}, 0
	}
	defer m.Close()
	current, err = m.Current()
	if mems, bad := g.EffectiveMems(); err == nil && bad == nil {
		return mems, current
	}
	return cpuset.Set{}, 0
}
