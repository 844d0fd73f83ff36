package localize

import (
	"errors"
	"strings"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/observed"
)

// host is the machine as localize sees it.
type host struct {
	nodes    locality.Nodes
	topology *topology.Topology // from which the nodes were read
	err      error              // why they cannot be read
}

// errNoTopology says that the agent could not read the topology of the host so far.
var errNoTopology = errors.New("the NUMA nodes of the host are not known")

// read reads the NUMA nodes again when the topology changed, and until that succeeds.
func (h *host) read(root *hostfs.Root, t *topology.Topology) {
	switch {
	case t == nil:
		h.err = errNoTopology
	case h.topology != t || h.err != nil:
		h.nodes, h.err = mover.Nodes(root, t) // without memory tiers it is unknown what may move where
		h.topology = t
	}
}

// balancing reports whether the kernel itself moves pages to where they are used.
func balancing(root *hostfs.Root) bool {
	text, err := root.ReadFile("proc/sys/kernel/numa_balancing")
	on := strings.TrimSpace(string(text))
	return err == nil && on != "" && on != "0"
}

// Unused returns how much memory, by node, the groups that are bound to nodes may still use within their limits. A
// group that cannot be read counts nothing. Unused is called when a pass begins.
func Unused(host *cgroup.Host, all []observed.Workload, nodes locality.Nodes) observed.Bytes {
	var claims []locality.Claim
	for i := range all {
		if !all[i].Bound {
			continue
		}
		if claim, err := mover.ClaimOf(host, all[i].Group); err == nil {
			claims = append(claims, claim)
		}
	}
	return locality.Unused(claims, nodes.Memory())
}
