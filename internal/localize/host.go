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
	// online are the CPUs that were online when the nodes were read, memory the list of the
	// nodes that had memory.
	online cpuset.Set
	memory string
	err    error // why they cannot be read
}

// read reads the NUMA nodes again when other CPUs or other memory is online, and until that
// succeeds.
func (h *host) read(root *hostfs.Root, n *capability.Node) {
	memory := setting(root, "sys/devices/system/node/has_memory")
	if h.online == n.Online && h.memory == memory && h.err == nil {
		return
	}
	t, err := topology.Discover(root.FS())
	if err == nil {
		h.nodes, err = mover.Nodes(root, t) // without tiers there is no knowing what may move where
	}
	if h.err = err; err == nil {
		h.online, h.memory = n.Online, memory
	}
}

// setting returns a line of the kernel's, empty where it cannot be read.
func setting(root *hostfs.Root, name string) string {
	text, err := root.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// balancing says whether the kernel itself moves pages to where they are used.
func balancing(root *hostfs.Root) bool {
	on := setting(root, "proc/sys/kernel/numa_balancing")
	return on != "" && on != "0"
}

// Unused is how much memory, by node, the groups that are bound to some nodes may still take
// by their limits. It is read when a pass begins.
func Unused(host *cgroup.Host, all []capability.Container, nodes locality.Nodes) locality.Bytes {
	var left locality.Bytes
	var memory cpuset.Set
	for _, n := range nodes {
		if n.Bytes > 0 {
			memory = memory.Add(n.ID)
		}
	}
	for i := range all {
		if !all[i].Bound {
			continue
		}
		mems, unused := unusedBy(host, all[i].Group)
		mems = mems.Intersect(memory)
		if mems.IsEmpty() || mems == memory {
			continue
		}
		for node := range mems.All() {
			left = append(left, slices.Repeat(locality.Bytes{0}, max(node+1-len(left), 0))...)
			left[node] += unused / int64(mems.Size())
		}
	}
	return left
}

// unusedBy returns the memory nodes of a group and how much it may still take, none where it has
// no limit or that cannot be read.
func unusedBy(host *cgroup.Host, path string) (mems cpuset.Set, unused int64) {
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
	limit, limited, err := m.Limit()
	if err != nil || !limited {
		return cpuset.Set{}, 0
	}
	current, err := m.Current()
	if mems, bad := g.EffectiveMems(); err == nil && bad == nil {
		return mems, max(limit-current, 0)
	}
	return cpuset.Set{}, 0
}
