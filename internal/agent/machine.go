package agent

import (
	"fmt"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/groups"
	"github.com/berth-project/berth/internal/hardware"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/kubelet"
	"github.com/berth-project/berth/internal/placement"
)

// hostState is what the controller knows of the host and its kubelet.
type hostState struct {
	hardware.Machine
	groups  groups.Groups
	kubelet kubelet.Knowledge
	// online are the CPUs that are online, isolated those that the kernel does not balance.
	online, isolated cpuset.Set
}

// readMachine reads the topology again when the CPUs that are online, or those that
// are reserved, are others than before.
func (c *controller) readMachine() {
	online, isolated, err := hardware.CPUs(c.opts.Root)
	if err != nil {
		c.fail("topology", err)
		return
	}
	c.machine.online, c.machine.isolated = online, isolated
	reserved, _ := cpuset.Parse(c.opts.Config.ReservedCPUs) // checked when read
	if c.around != nil && !c.machine.kubelet.Config.ReservedSystemCPUs.IsEmpty() {
		reserved = c.machine.kubelet.Config.ReservedSystemCPUs
	}
	policy, problems := placement.PolicyOf(c.nodeLabels())
	c.tellOnce("node labels", v1alpha1.EventInvalidPolicy, "", problems.Err())
	basis := hardware.Basis{Online: online, Reserved: reserved, Policy: policy}
	facts, changed, err := c.machine.Update(c.opts.Root.FS(), basis)
	if err != nil {
		c.fail("topology", err)
	}
	if !changed {
		return
	}
	facts.AllocatableMilli = c.allocatable()
	c.inventory.Facts(facts)
	c.stale = true
	t := c.machine.Topology
	c.opts.Log.Info("machine", "online", t.Online.String(), "reserved", reserved.String(), "numaNodes", len(t.Nodes), "l3", len(t.L3))
}

// allocatable is the CPU that may be requested, in thousandths: the Node's, or
// without one that of all CPUs.
func (c *controller) allocatable() int64 {
	if c.around != nil {
		return c.around.client.Snapshot().Node.AllocatableMilli
	}
	return c.machine.AllocatableMilli()
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
