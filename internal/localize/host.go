package localize

import (
	"errors"
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
	nodes    locality.Nodes
	topology *topology.Topology // of which they are
	err      error              // why they cannot be read
}

// errNoTopology says that the agent could not read the topology of the host so far.
var errNoTopology = errors.New("the NUMA nodes of the host are not known")

// read reads the NUMA nodes again when the topology is another one, and until that succeeds.
func (h *host) read(root *hostfs.Root, t *topology.Topology) {
	switch {
	case t == nil:
		h.err = errNoTopology
	case h.topology != t || h.err != nil:
		h.nodes, h.err = mover.Nodes(root, t) // without tiers there is no knowing what may move where
		h.topology = t
	}
}

// balancing says whether the kernel itself moves pages to where they are used.
func balancing(root *hostfs.Root) bool {
	text, err := root.ReadFile("proc/sys/kernel/numa_balancing")
	on := strings.TrimSpace(string(text))
	return err == nil && on != "" && on != "0"
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
