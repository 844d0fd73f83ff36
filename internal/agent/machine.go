package agent

import (
	"cmp"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
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
	// kubelet is what the kubelet's configuration says; kubeletErr why it is not
	// known.
	kubelet      kubelet.Config
	kubeletErr   error
	kubeletKnown bool
	// silentSince is when its silence began, silent that this is long ago. kubeletErr is
	// the first error until then, and from then on the one of that moment.
	silentSince time.Duration
	silent      bool
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
	if c.around != nil && !c.machine.kubelet.ReservedSystemCPUs.IsEmpty() {
		reserved = c.machine.kubelet.ReservedSystemCPUs
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
// known. Where it is not whole, what it lacks stays as it was last known.
func (c *controller) takeKubelet(config kubelet.Config, whole bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.machine
	if !whole {
		config.ReservedSystemCPUs = m.kubelet.ReservedSystemCPUs
		config.MemoryManagerPolicy = cmp.Or(config.MemoryManagerPolicy, m.kubelet.MemoryManagerPolicy)
	}
	before := m.kubelet
	switch {
	case err == nil:
		m.kubelet, m.kubeletErr, m.silent = config, nil, false
	case m.kubeletKnown && m.kubeletErr == nil:
		return // it is being started anew: what it said last counts
	case m.kubeletErr == nil:
		m.kubeletErr, m.silentSince = err, c.opts.Clock()
	case !m.silent && c.opts.Clock()-m.silentSince >= inventory.BriefFor:
		// Why the kubelet is silent is reported once: not what was wrong while it started, but what
		// is wrong since.
		m.silent, m.kubeletErr = true, err
	}
	m.kubeletKnown = true
	if before.CPUManagerPolicy != config.CPUManagerPolicy || before.MemoryManagerPolicy != config.MemoryManagerPolicy {
		c.opts.Log.Info("kubelet", "cpuManagerPolicy", config.CPUManagerPolicy, "memoryManagerPolicy", config.MemoryManagerPolicy, "reserved", config.ReservedSystemCPUs.String(), "error", err)
	}
	c.inventory.Kubelet(m.obstacle(), m.memsOwner())
	c.stale = true
	c.wake()
}

// said is what to remember of the kubelet's configuration.
func (m *hardware) said() *KubeletSaid {
	if !m.kubeletKnown || m.kubeletErr != nil {
		return nil
	}
	return &KubeletSaid{
		CPUManagerPolicy: m.kubelet.CPUManagerPolicy, MemoryManagerPolicy: m.kubelet.MemoryManagerPolicy,
		ReservedCPUs: m.kubelet.ReservedSystemCPUs.String(),
	}
}

// recall takes over what an earlier agent of this boot remembered. A kubelet that can
// be asked says it anew.
func (m *hardware) recall(s *KubeletSaid) {
	if s == nil {
		return
	}
	reserved, err := cpuset.Parse(s.ReservedCPUs)
	if err != nil {
		return
	}
	m.kubelet.CPUManagerPolicy, m.kubelet.MemoryManagerPolicy = s.CPUManagerPolicy, s.MemoryManagerPolicy
	m.kubelet.ReservedSystemCPUs, m.kubeletKnown = reserved, true
}

// obstacle is what of the kubelet's configuration keeps Berth from setting CPU sets.
func (m *hardware) obstacle() inventory.Obstacle {
	switch {
	case !m.kubeletKnown:
		return inventory.Obstacle{Reason: inventory.KubeletUnknown, Message: "the kubelet was not asked yet"}
	case m.kubeletErr != nil:
		o := inventory.Obstacle{Reason: inventory.KubeletUnknown, Message: "whether the kubelet sets CPU sets is not known: " + m.kubeletErr.Error()}
		if o.Lasting = m.silent; o.Lasting {
			o.Message = "whether the kubelet sets CPU sets could not be found out: " + m.kubeletErr.Error()
		}
		return o
	case m.setsCPUs():
		return inventory.Obstacle{Reason: "KubeletCPUManager", Message: "the kubelet's cpuManagerPolicy is " + m.kubelet.CPUManagerPolicy + ": it sets the CPU sets of this node"}
	}
	return inventory.Obstacle{}
}

// memsOwner says that the kubelet's configuration gives the memory nodes of containers to
// the kubelet, "" where it does not.
func (m *hardware) memsOwner() string {
	if policy := m.kubelet.MemoryManagerPolicy; policy != "" && policy != "None" {
		return "the kubelet's memoryManagerPolicy is " + policy + ": it sets the memory nodes, Berth sets CPUs only"
	}
	return ""
}

// setsCPUs says that the kubelet, by what it said last, sets CPU sets.
func (m *hardware) setsCPUs() bool {
	return m.kubelet.CPUManagerPolicy != "" && m.kubelet.CPUManagerPolicy != "none"
}

// kubeletSetsCPUs is setsCPUs, for others than the loop.
func (c *controller) kubeletSetsCPUs() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machine.setsCPUs()
}

// wake makes the loop turn at once.
func (c *controller) wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}
