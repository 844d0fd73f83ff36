package hardware

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Options are the dependencies of a Node. Every field is required.
type Options struct {
	Root *hostfs.Root
	Log  *slog.Logger
	// Fail receives failures of the agent's own work. Invalid receives the errors in the labels of the node, nil for
	// none.
	Fail    func(what string, err error)
	Invalid func(error)
	// Effective returns the CPUs in effect in a group, and the empty set if they cannot be read.
	Effective func(group string) cpuset.Set
}

// Node is the hardware of a node, as its kubelet and its cpuset partitions divide it. It is not safe for concurrent
// use.
type Node struct {
	CPUs    CPUs
	Machine Machine
	// Kubelet is what the kubelet says of its configuration.
	Kubelet kubelet.Knowledge
	// Unread is why the last Read failed, nil if it did not. The machine is then as it was known before, if it was.
	Unread error
	opts   Options
	// facts were read last, without the memory that the kubelet gave; memory is that memory.
	facts  place.Facts
	memory []kubelet.Memory
	doubt  string // the last logged doubt about the memory
}

// NewNode returns a Node that was not read yet.
func NewNode(opts Options) *Node { return &Node{opts: opts} }

// Read reads the online CPUs. It reads the topology again if the CPUs that are online, reserved or in cpuset partitions
// changed, the memory of a NUMA node or the devices of the kubelet did. It reports whether it did, or the kubelet gave
// other memory to pods. reserved comes from the agent's file, at from
// the cluster, nil on a host without Kubernetes.
func (n *Node) Read(now time.Duration, reserved cpuset.Set, at *cluster.Node) (facts place.Facts, changed bool) {
	if n.Unread = n.CPUs.Read(n.opts.Root); n.Unread != nil {
		n.opts.Fail("topology", n.Unread)
		return facts, false
	}
	var labels map[string]string
	if at != nil {
		labels = at.Labels
		if own := n.Kubelet.Config.ReservedSystemCPUs; !own.IsEmpty() {
			reserved = own
		}
	}
	policy, problems := placement.PolicyOf(labels)
	n.opts.Invalid(problems.Err())
	facts, changed, err := n.Machine.Update(n.opts.Root.FS(), Basis{
		Online: n.CPUs.Online, Reserved: reserved, Partitioned: n.Partitioned(), Policy: policy, Devices: n.Kubelet.Devices,
	}, now)
	if n.Unread = err; err != nil {
		n.opts.Fail("topology", err)
	}
	if doubt := n.Machine.Doubt(); doubt != n.doubt {
		n.doubt = doubt
		n.opts.Log.Warn("memory of the machine", "doubt", cmp.Or(doubt, "none any more"))
	}
	if changed {
		n.facts = facts
		n.log(reserved)
	}
	if n.Machine.Topology == nil || !changed && slices.Equal(n.memory, n.Kubelet.Memory) {
		return place.Facts{}, false
	}
	n.memory = n.Kubelet.Memory
	facts = n.facts
	facts.Given = given(n.Machine.Topology, n.memory)
	facts.AllocatableMilli = n.Machine.AllocatableMilli()
	if at != nil {
		facts.AllocatableMilli = at.AllocatableMilli
	}
	return facts, true
}

// log logs the machine as it was read.
func (n *Node) log(reserved cpuset.Set) {
	t := n.Machine.Topology
	n.opts.Log.Info("machine", "online", t.Online.String(), "reserved", reserved.String(), "partitioned", t.Partitioned.String(), "numaNodes", len(t.Nodes), "l3", len(t.L3))
	if absent := reserved.Difference(t.Online); !absent.IsEmpty() {
		n.opts.Log.Warn("reserved CPUs are not online", "cpus", absent.String())
	}
	if t.Online.Difference(reserved).IsEmpty() {
		n.opts.Log.Warn("every CPU is reserved: no workload can have exclusive ones", "reserved", reserved.String())
	}
}

// Partitioned returns the CPUs that cpuset partitions have taken from all other groups: the root of cgroup v2 has all
// remaining CPUs in effect (kernel/cgroup/cpuset.c, effective_cpus of top_cpuset).
func (n *Node) Partitioned() cpuset.Set {
	left := n.opts.Effective("")
	if left.IsEmpty() {
		return cpuset.Set{} // unreadable
	}
	return n.CPUs.Online.Difference(left)
}

// TakeKubelet stores the kubelet's configuration, or why it is unknown, and reports whether that may change anything.
// The error means that only a new container of the agent will see the change.
func (n *Node) TakeKubelet(r kubelet.Reading, now time.Duration) (changed bool, err error) {
	k := &n.Kubelet
	if k.Outdated(r) {
		return false, fmt.Errorf("the agent must be restarted: %w", r.Err)
	}
	if r.MemoryErr != nil && k.MemoryErr == nil { // once while it lasts
		n.opts.Log.Warn("the memory that the kubelet gave to pods is not known: what it said last counts", "error", r.MemoryErr)
	}
	before, devices, memory := k.Config, k.TakeDevices(r), k.TakeMemory(r)
	if devices {
		n.opts.Log.Info("devices of the kubelet", "known", len(k.Devices))
	}
	if !k.Take(r, now, observed.BriefFor) {
		return devices || memory, nil
	}
	if after := k.Config; before.CPUManagerPolicy != after.CPUManagerPolicy || before.MemoryManagerPolicy != after.MemoryManagerPolicy {
		n.opts.Log.Info("kubelet", "cpuManagerPolicy", after.CPUManagerPolicy, "memoryManagerPolicy", after.MemoryManagerPolicy, "reserved", after.ReservedSystemCPUs.String(), "error", r.Err)
	}
	return true, nil
}
