package agent

import (
	"fmt"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/groups"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/kubelet"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/topology"
)

// hardware is the host as CPUs are given out on it.
type hardware struct {
	topology *topology.Topology
	// spec is the topology as it is published; no code changes it.
	spec     v1alpha1.NodeTopologySpec
	online   cpuset.Set
	reserved cpuset.Set
	// labels of the node that policy was read from.
	policy placement.NodePolicy
	// groups are those of the host.
	groups groups.Groups
	// kubelet is what is known of the kubelet's configuration.
	kubelet kubelet.Knowledge
}

// readMachine reads the topology again when the CPUs that are online, or those that
// are reserved, are others than before.
func (c *controller) readMachine() {
	if c.node.online.IsEmpty() {
		if err := c.node.readPool(); err != nil {
			c.fail("topology", err)
			return
		}
	}
	reserved := c.node.reserved
	if c.around != nil && !c.machine.kubelet.Config.ReservedSystemCPUs.IsEmpty() {
		reserved = c.machine.kubelet.Config.ReservedSystemCPUs
	}
	policy, problems := placement.PolicyOf(c.nodeLabels())
	c.tellOnce("node labels", v1alpha1.EventInvalidPolicy, "", problems.Err())
	m := &c.machine
	if m.topology != nil && m.online == c.node.online && m.reserved == reserved && m.policy == policy {
		return
	}
	t, err := topology.Discover(c.opts.Root.FS())
	if err != nil {
		c.fail("topology", err)
		return
	}
	t.Reserved = reserved
	compiled, err := alloc.Compile(t)
	if err != nil {
		c.fail("topology", err)
		return
	}
	m.topology, m.spec, m.online, m.reserved, m.policy = t, t.Spec(), c.node.online, reserved, policy
	c.inventory.Facts(place.Facts{Machine: compiled, Hash: t.Hash(), Policy: policy, AllocatableMilli: c.allocatable()})
	c.stale = true
	c.opts.Log.Info("machine", "online", t.Online.String(), "reserved", reserved.String(), "numaNodes", len(t.Nodes), "l3", len(t.L3))
}

// allocatable is the CPU that may be requested, in thousandths: the Node's, or
// without one that of all CPUs.
func (c *controller) allocatable() int64 {
	if c.around != nil {
		return c.around.client.Snapshot().Node.AllocatableMilli
	}
	return int64(c.machine.topology.Online.Difference(c.machine.reserved).Size()) * 1000
}

// takeKubelet takes over what the kubelet's configuration says, or why it is not
// known. The error is that only another container of the agent will see it.
func (c *controller) takeKubelet(r kubelet.Reading) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &c.machine.kubelet
	if k.Outdated(r) {
		return fmt.Errorf("the agent has to start anew: %w", r.Err)
	}
	before := k.Config
	if !k.Take(r, c.opts.Clock(), inventory.BriefFor) {
		return nil
	}
	if now := k.Config; before.CPUManagerPolicy != now.CPUManagerPolicy || before.MemoryManagerPolicy != now.MemoryManagerPolicy {
		c.opts.Log.Info("kubelet", "cpuManagerPolicy", now.CPUManagerPolicy, "memoryManagerPolicy", now.MemoryManagerPolicy, "reserved", now.ReservedSystemCPUs.String(), "error", r.Err)
	}
	c.inventory.Kubelet(inventory.Obstacle(k.Obstacle()), k.MemsOwner())
	c.stale = true
	c.wake()
	return nil
}

// wake makes the loop turn at once.
func (c *controller) wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}
