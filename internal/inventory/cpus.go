package inventory

import (
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/topology"
)

// cpus says which CPUs the node has, and which containers have them.
type cpus struct {
	node  *place.Node
	facts place.Facts
}

// Topology returns the machine's topology for the assignment of CPUs, nil while it is unknown.
func (c *cpus) Topology() *topology.Topology {
	if c.facts.Machine == nil {
		return nil
	}
	return c.facts.Machine.Topology()
}

// Exclusive returns the CPUs that no other container may use: the exclusive CPUs of pods, and siblings that stay empty.
func (c *cpus) Exclusive() cpuset.Set { return c.node.Exclusive() }

// Offline returns the CPUs of offline work, none if it shares the pool.
func (c *cpus) Offline() cpuset.Set { return c.node.Offline() }

// HasOffline reports whether there is offline work.
func (c *cpus) HasOffline() bool { return c.node.HasOffline() }

// Snapshot returns the state of the node.
func (c *cpus) Snapshot() place.Snapshot { return c.node.Snapshot() }
